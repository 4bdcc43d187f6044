"""One-token mistakes in the native core and in the HTTP front, each with the tests that have to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mutant:
    """In `file` of the package, or of the sources of the native core, `old`, which is there once, becomes `new`, and one of
    `tests` must fail.

    interpreted : the tests run without the compiler, which is faster for small kernels
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    interpreted: bool = True


HASHING: Final = ("tests/maths/test_hashing.py",)
LOSSES: Final = ("tests/maths/test_losses.py",)
LINKS: Final = ("tests/maths/test_links.py",)
PARTICLES: Final = ("tests/maths/test_particles.py",)
METROPOLIS: Final = ("tests/maths/test_metropolis.py",)
NUMBERS: Final = ("tests/native/test_json.py",)
ROWS: Final = ("tests/learn/test_particle_filter.py",)
TRUNCATION: Final = ("tests/maths/test_truncation.py",)
SLOTS: Final = ("tests/maths/test_slots.py",)
DOT: Final = ("tests/maths/test_dot.py",)
GRADIENT: Final = ("tests/learn/test_truncated_gradient_golden.py",)
FTRL: Final = ("tests/learn/test_ftrl_proximal.py",)
VW: Final = ("tests/wire/test_vw_text.py",)
SVMLIGHT: Final = ("tests/wire/test_svmlight.py",)
NAMES: Final = ("tests/wire/test_names.py",)
HEADS: Final = ("tests/web/test_head_parser.py",)
KEYS: Final = ("tests/web/attack/test_keys.py",)
SITES: Final = ("tests/web/attack/test_sites.py",)
BODY: Final = ("tests/web/test_body.py",)

NATIVE: Final = (
    Mutant("native/hash.h", "for (; size > 8; p", "for (; size > 9; p", HASHING),
    Mutant("native/hash.h", "* M1) ^ (tag * M2);", "* M1) ^ (tag + M2);", HASHING),
    Mutant("native/vw.c", "(1 - 2 * negative)", "(1 + 2 * negative)", VW),
    Mutant("native/vw.c", "size > NAME_BYTES_MAX))\n            break;", "size > NAME_BYTES_MAX + 1))\n            break;", VW),
    Mutant("native/svmlight.c", "return digits <= INDEX_MAX;", "return digits < INDEX_MAX;", SVMLIGHT),
    Mutant("native/names.c", "&& kept < room;", "&& kept <= room;", NAMES),
    Mutant("native/head.c", "stop - start > LENGTH_DIGITS_MAX", "stop - start > LENGTH_DIGITS_MAX + 1", HEADS),
    Mutant("native/losses.h", "return s * margin < 1.0 ? -s", "return s * margin <= 1.0 ? -s", LOSSES),
    Mutant("native/losses.h", "return s * logistic_travel(", "return -s * logistic_travel(", LOSSES),
    Mutant("native/links.h", "if (link == IDENTITY)", "if (link == HINGE)", LINKS),
    Mutant("native/particles.c", "pivot -= lower[j * d + i]", "pivot += lower[j * d + i]", PARTICLES),
    Mutant("native/particles.c", "* whole && k < count - 1)", "* whole && k < count - 2)", PARTICLES),
    Mutant("native/metropolis.c", "UNIT)) < gain", "UNIT)) > gain", METROPOLIS),
    Mutant("native/numbers.c", "high += low < carry;", "", NUMBERS),
    Mutant("native/numbers.c", "(high & 0x1FF) == 0x1FF", "(high & 0x1FF) == 0x1FE", NUMBERS),
    Mutant("native/rows.h", "end > rows->features", "end > rows->features + 1", ROWS),
    Mutant("native/truncation.h", "pull > -limit ? pull : -limit", "pull > limit ? pull : -limit", TRUNCATION),
    Mutant("native/truncation.h", "return size > ceiling ? beta : 0.0;", "return size < ceiling ? beta : 0.0;", TRUNCATION),
    Mutant("native/truncation.h", "fmod(left, 2.0) == 1.0", "fmod(left, 2.0) == 0.0", TRUNCATION),
    Mutant("native/slot_table.c", "again = p + 1 < n && slot[p + 1] == at", "again = p + 1 < n && slot[p + 1] != at", SLOTS),
    Mutant("native/slot_table.c", "is_old = old > new", "is_old = old < new", SLOTS),
    Mutant("native/scoring.h", "low = middle + 1", "low = middle + 2", DOT),
    Mutant("native/scoring.c", "bucket[b + 1] += bucket[b]", "bucket[b + 1] = bucket[b]", DOT),
    Mutant("native/truncated_gradient.c", "double move = -eta * gradient;", "double move = eta * gradient;", GRADIENT),
    Mutant("native/ftrl.c", "fabs(z) - l1", "fabs(z) + l1", FTRL),
)
FRONT: Final = (
    Mutant("web/body.py", "return size if size > SMALL_BYTES else 0", "return size if size >= 0 else 0", BODY),
    Mutant("web/body.py", "self.held -= size", "self.held += size", BODY),
    Mutant("web/body.py", 'or int(digits or b"0") > bytes_max', 'or int(digits or b"0") < bytes_max', BODY, interpreted=False),
    Mutant("web/keys.py", "now_ms >= key.expires_ms", "now_ms > key.expires_ms", KEYS, interpreted=False),
    Mutant("web/keys.py", "if key is None or not same:", "if key is None:", KEYS, interpreted=False),
    Mutant("web/buckets.py", "if tokens < 1.0:", "if tokens < 0.0:", KEYS, interpreted=False),
    Mutant("base/hosts.py", 'removesuffix(".") in self.names', 'removesuffix(".") not in self.names', SITES, interpreted=False),
    Mutant("web/routes/models.py", '"DELETE", AT, (ADMIN,)', '"DELETE", AT, (WATCH,)', KEYS, interpreted=False),
)
QUICK: Final = (FRONT[0], FRONT[1])  # in every run of the suite
