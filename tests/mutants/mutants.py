"""Small mistakes in the native core, the HTTP front and the store, each with the tests that have to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mutant:
    """In `file` of the folder `service`, `old`, which is there once, becomes `new`, and one of `tests` must fail."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


JSON: Final = ("tests/native/test_json.py",)
SAFETY: Final = ("tests/native/test_safety.py",)
TRUNCATION: Final = ("tests/maths/test_truncation.py",)
SLOTS: Final = ("tests/maths/test_slots.py",)
SCORE: Final = ("tests/watch/test_figures.py",)
SHOOTING: Final = ("tests/maths/test_shooting.py",)
LOSSES: Final = ("tests/maths/test_links.py",)
LINKS: Final = ("tests/maths/test_links.py",)
PARTICLES: Final = ("tests/maths/test_particles.py",)
METROPOLIS: Final = ("tests/maths/test_metropolis.py",)
ROWS: Final = ("tests/learn/test_particle_filter.py",)
DOT: Final = ("tests/maths/test_shooting.py",)
MIXED: Final = ("tests/learn/test_mixed_gradient.py",)
GRADIENT: Final = ("tests/learn/test_truncated_gradient_golden.py",)
FTRL: Final = ("tests/learn/test_ftrl_proximal.py",)
VW: Final = ("tests/wire/test_vw_text.py",)
SVMLIGHT: Final = ("tests/wire/test_svmlight.py",)
NAMES: Final = ("tests/wire/test_names.py",)
SORTING: Final = ("tests/wire/test_rows.py",)
HEADS: Final = ("tests/web/test_head_parser.py",)
KEYS: Final = ("tests/web/attack/test_keys.py",)
SITES: Final = ("tests/web/attack/test_sites.py",)
BODY: Final = ("tests/web/test_body.py",)
LOST: Final = ("tests/store/test_losses.py",)
BACKUP: Final = ("tests/store/test_backup.py",)
DAMAGE: Final = ("tests/run/test_damage.py",)
UNREADABLE: Final = ("tests/run/test_unreadable.py",)
FOLLOWING: Final = ("tests/run/test_challengers.py",)
PROMOTING: Final = ("tests/run/test_promoting.py",)
CURVES: Final = ("tests/run/test_carried_curve.py",)
JOINT: Final = ("tests/store/test_joint.py",)
JOINT_ROWS: Final = ("tests/run/test_joint_rows.py",)
SETTLING: Final = ("tests/store/test_settling.py",)

KERNELS: Final = (
    # a lost bound
    Mutant("native/json.c", "if (n + 2 > row->capacity)", "if (false)", SAFETY),
    Mutant("native/json.c", "if (n >= r->row->capacity)", "if (false)", SAFETY),
    Mutant("native/text.h", "for (; size > 8;", "for (; size > 9;", JSON),
    # a lost carry
    Mutant("native/text.c", "high += low < carry", "high += 0", JSON),
    Mutant("native/text.h", "digits * 100000000 +", "digits * 100000000 |", JSON),
    # a swapped sign
    Mutant("native/truncation.h", "pull > -limit ? pull : -limit", "pull > limit ? pull : -limit", TRUNCATION),
    Mutant("native/truncation.h", "return size > ceiling ? beta : 0.0", "return size < ceiling ? beta : 0.0", TRUNCATION),
    Mutant("native/truncation.h", "fmod(left, 2.0) == 1.0", "fmod(left, 2.0) == 0.0", TRUNCATION),
    Mutant("native/slot_table.c", "bool is_old = old > new", "bool is_old = old < new", SLOTS),
    Mutant(
        "native/slot_table.c", "bool again = p + 1 < n && slot[p + 1] == at", "bool again = p > 0 && slot[p - 1] != at", SLOTS
    ),
    Mutant("native/losses.h", "own = most(0.0, 1.0 - sign * margin)", "own = most(0.0, 1.0 + sign * margin)", SCORE),
    Mutant("native/losses.h", "is_positive ? base : 1.0 - base", "is_positive ? 1.0 - base : base", SCORE),
    Mutant("native/shooting.h", "omega - copysign(gamma, omega)", "omega + copysign(gamma, omega)", SHOOTING),
    Mutant("native/mixed_gradient.c", "before * powers(likely", "before + powers(likely", MIXED),
    Mutant("native/mixed_gradient.c", "common * move * sum.pull", "common * sum.pull", MIXED),
    Mutant("native/four_exp.h", "d + e * rise - strength", "d + e * rise + strength", MIXED),
    Mutant("native/text.h", "* M1) ^ (tag * M2);", "* M1) ^ (tag + M2);", JSON),
    Mutant("native/vw.c", "(1 - 2 * negative)", "(1 + 2 * negative)", VW),
    Mutant("native/vw.c", "size > NAME_BYTES_MAX))\n            break;", "size > NAME_BYTES_MAX + 1))\n            break;", VW),
    Mutant("native/svmlight.c", "return digits <= INDEX_MAX;", "return digits < INDEX_MAX;", SVMLIGHT),
    Mutant("native/rows.c", "put < room, dropped", "put <= room, dropped", NAMES),
    Mutant("native/rows.c", "return pairs == (u32)(n * (n - 1) / 2);", "return true;", SORTING),
    Mutant("native/head.c", "stop - start > LENGTH_DIGITS_MAX", "stop - start > LENGTH_DIGITS_MAX + 1", HEADS),
    Mutant("native/losses.h", "return s * margin < 1.0 ? -s", "return s * margin <= 1.0 ? -s", LOSSES),
    Mutant("native/losses.h", "return s * logistic_travel(", "return -s * logistic_travel(", LOSSES),
    Mutant("native/losses.h", "if (link == IDENTITY) {\n        p =", "if (link == HINGE) {\n        p =", LINKS),
    Mutant("native/particle_filter.c", "pivot -= lower[j * d + i]", "pivot += lower[j * d + i]", PARTICLES),
    Mutant("native/particle_filter.c", "* whole && k < count - 1)", "* whole && k < count - 2)", PARTICLES),
    Mutant("native/particle_filter.c", "UNIT)) < gain", "UNIT)) > gain", METROPOLIS),
    Mutant("native/text.c", "(high & 0x1FF) == 0x1FF", "(high & 0x1FF) == 0x1FE", JSON),
    Mutant("native/table.h", "end > rows->features", "end > rows->features + 1", ROWS),
    Mutant("native/scoring.c", "if (w->slot[middle] < slot)", "if (w->slot[middle] <= slot)", DOT),
    Mutant("native/scoring.c", "bucket[b + 1] += bucket[b]", "bucket[b + 1] = bucket[b]", DOT),
    Mutant("native/truncated_gradient.c", "double move = -eta * gradient;", "double move = eta * gradient;", GRADIENT),
    Mutant("native/ftrl.c", "fabs(z) - l1", "fabs(z) + l1", FTRL),
)
FRONT: Final = (
    Mutant("riata/web/server/body.py", "return size if size > SMALL_BYTES else 0", "return size if size >= 0 else 0", BODY),
    Mutant("riata/web/server/body.py", "self.held -= size", "self.held += size", BODY),
    Mutant("riata/web/server/body.py", 'or int(digits or b"0") > bytes_max', 'or int(digits or b"0") < bytes_max', BODY),
    Mutant("riata/web/auth/keys.py", "now_ms >= key.expires_ms", "now_ms > key.expires_ms", KEYS),
    Mutant("riata/web/auth/keys.py", "if key is None or not same:", "if key is None:", KEYS),
    Mutant("riata/web/auth/gate.py", "if tokens < 1.0:", "if tokens < 0.0:", KEYS),
    Mutant("riata/base/hosts.py", 'removesuffix(".") in self.names', 'removesuffix(".") not in self.names', SITES),
    Mutant("riata/web/api/routes/models.py", "(ADMIN,),\n        drop_model,", "(WATCH,),\n        drop_model,", KEYS),
)
WITNESS_FILE: Final = "riata/store/sqlite/witness.py"
IS_AHEAD: Final = "if seq > row.head.seq:\n        return "
IS_ENDING: Final = "if (seq, chain) == (row.head.seq, row.head.chain):\n        return "
SAFEGUARDS: Final = (
    # the witness of acknowledged events
    Mutant("riata/store/sqlite/store.py", "            self._witness.note(model, head)\n", "", LOST),
    Mutant(
        "riata/store/sqlite/store.py",
        "            return planned, log_sql.insert_planned(",
        "            [self._witness.note(one.request.model, one.head) for one in planned if one.head]\n"
        "            return planned, log_sql.insert_planned(",
        LOST,
    ),
    Mutant("riata/store/sqlite/store.py", "require_whole(directory, found)", "pass", LOST),
    Mutant(WITNESS_FILE, IS_AHEAD + "False", IS_AHEAD + "seq == row.head.seq + 1", LOST),
    Mutant(WITNESS_FILE, IS_ENDING + "True", IS_ENDING + "False", LOST),
    Mutant(WITNESS_FILE, "seq < row.head.first_seq - 1 or chain_at(connection, row, seq) == chain", "False", LOST),
    Mutant("riata/store/sqlite/session.py", "        self._held = True\n", "", BACKUP),
    # rows of several models in one record
    Mutant("riata/store/sqlite/joint.py", ".seq) >= first + end - start - 1", ".seq) > first + end - start - 1", JOINT),
    Mutant("riata/store/sqlite/store.py", "head.seq + self._joint.rows_of(model) for", "head.seq for", JOINT),
    Mutant("riata/store/sqlite/store.py", "        self.distribute(models_of(group) & self.left)\n", "", JOINT),
    Mutant("riata/store/sqlite/store.py", "if needed is None else needed - 1", "if needed is None else needed", JOINT),
    Mutant("riata/store/sqlite/store.py", "self._joint.forget([model])", "pass", JOINT),
    Mutant("riata/run/log/log_thread.py", "model not in self._joint.left", "True", JOINT_ROWS),
    Mutant("riata/run/log/small_body_batcher.py", "and not any(followers.get(group.model) for group in alike)", "", JOINT_ROWS),
    Mutant(
        "riata/run/log/small_body_batcher.py",
        "[None if one is None else one.names.kinds for one in served_models]",
        "[None for _ in served_models]",
        JOINT_ROWS,
    ),
    # rows of models that are behind their logs
    Mutant("riata/store/sqlite/log.py", "seq, chain = _end(connection, number, seq, chain)", "pass", SETTLING),
    Mutant("riata/store/sqlite/log.py", "    settle(connection, [row])", "    pass", SETTLING),
    Mutant("riata/store/sqlite/log.py", "        settle(connection, all_models(connection))", "        pass", SETTLING),
    Mutant("riata/store/sqlite/store.py", "            self._unsettled[model] = head.dedupe_floor\n", "", SETTLING),
    Mutant("riata/store/sqlite/store.py", "        self._unsettled.pop(model, None)\n", "", SETTLING),
    Mutant("riata/store/sqlite/dedupe.py", "(held.merged, held.floor, model)", "(held.merged, 1, model)", SETTLING),
    # one damaged model, and checkpoints that cannot be read back
    Mutant("riata/run/state/starting.py", "if not harms_one_model(error):\n                    raise", "raise", DAMAGE),
    Mutant("riata/run/served_model.py", "            raise damage.error()", "            pass", DAMAGE),
    Mutant("riata/run/served_model.py", "self.damaged = {**self.damaged, damage.model: damage}", "pass", DAMAGE),
    Mutant("riata/store/records.py", "if record.digest != record_digest(", "if not record_digest(", DAMAGE),
    Mutant("riata/run/log/scrubbing.py", "await self._learning.save(damage.model)", "None\n            return", DAMAGE),
    Mutant(
        "riata/run/state/generations.py",
        "names, bits = _slot_lists(header, arrays)",
        "return\n    names, bits = _slot_lists(header, arrays)",
        UNREADABLE,
    ),
    Mutant(
        "riata/run/state/generations.py",
        "_compare(generation, header, state, _as_stored(arrays, without_ranks(",
        "str(_as_stored(arrays, without_ranks(",
        UNREADABLE,
    ),
    Mutant("riata/watch/progressive.py", "self._curve.carry(seq, self.examples)", "pass", CURVES),
    # models that follow another
    Mutant("riata/run/engine_alone.py", "            names = []\n", "            return\n", FOLLOWING),
    Mutant("riata/run/candidates/challengers.py", "past.content)), *tail]", "past.content))]", FOLLOWING),
    Mutant(
        "riata/run/candidates/promotion.py",
        "candidate.apply_all(run, skips=frozenset(skips))",
        "candidate.applied, candidate.chain = run[-1].last, run[-1].chain",
        PROMOTING,
    ),
)
ALL: Final = (*KERNELS, *FRONT, *SAFEGUARDS)
QUICK: Final = (KERNELS[2], KERNELS[5], FRONT[1])  # in every run of the suite
