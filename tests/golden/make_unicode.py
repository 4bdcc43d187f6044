"""Makes `service/riata/wire/unicode_data.py`: what the readers need to know about each character of Unicode.

Run with a Python of the Unicode version that is wanted, from the root of the repository:

    python -m tests.golden.make_unicode > service/riata/wire/unicode_data.py
"""

from __future__ import annotations

import base64
import sys
import unicodedata
import zlib

import numpy as np

from riata.wire.scan import CONTROL, DROPPED, IDEOGRAPH, LETTER, MAYBE, NEVER, PAGE_BITS, POINTS

MADE_BY = "made by `tests/golden/make_unicode.py`; see `wire.scan`"
_HANGUL, _HANGUL_END = 0xAC00, 0xD7A4
_VOWELS, _TRAILS = range(0x1161, 0x1176), range(0x11A8, 0x11C3)
_DROPPED = {0xAD, 0x200C, 0x200D, 0x2060, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
_UNSPACED = [  # Han, Bopomofo, Hiragana and Katakana
    (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x3035), (0x3038, 0x303C), (0x3041, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x1AFF0, 0x1B16F), (0x20000, 0x3FFFF),
]  # fmt: skip


def fold_of(point: int) -> int:
    """Simple case folding of a character, after its canonical equivalent where that is one character."""
    same = unicodedata.normalize("NFC", chr(point))
    held = same if len(same) == 1 else chr(point)
    for folded in (held.casefold(), held.lower()):  # the statuses C and S of CaseFolding.txt: full foldings have more characters
        if len(folded) == 1:
            return ord(unicodedata.normalize("NFC", folded)) if len(unicodedata.normalize("NFC", folded)) == 1 else ord(folded)
    return ord(held)


def pairs_of() -> dict[tuple[int, int], int]:
    """The pairs of a starter and a mark that are not in normal form C; the composed character, or 0 if there is none for both."""
    split = {}
    for point in range(POINTS):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and parts[0][0] != "<" and unicodedata.normalize("NFC", chr(point)) == chr(point):
            split[point] = (int(parts[0], 16), int(parts[1], 16))
    found = {pair: point for point, pair in split.items()}
    changed: dict[int, set[int]] = {}
    for first, second in found:
        changed.setdefault(first, set()).add(second)
    for _ in range(3):  # a mark that sorts before the last mark of a composed character meets the character without it
        for point, (first, last) in split.items():
            rank = unicodedata.combining(chr(last))
            moved = {mark for mark in changed.get(first, ()) if 0 < unicodedata.combining(chr(mark)) < rank}
            changed.setdefault(point, set()).update(moved)
    return {(first, second): found.get((first, second), 0) for first, marks in changed.items() for second in marks}


def classes() -> tuple[np.ndarray, np.ndarray]:
    """Flags and combining class, and the difference to the folded character, of every code point."""
    held, folded = np.zeros(POINTS, np.uint16), np.zeros(POINTS, np.int32)
    seconds = {second for _, second in pairs_of()} | set(_VOWELS) | set(_TRAILS)
    for point in range(POINTS):
        if 0xD800 <= point < 0xE000:
            continue
        text = chr(point)
        category, flags = unicodedata.category(text), 0
        if category[0] in "LMN" or text == "_":
            flags |= LETTER
            if any(first <= point <= last for first, last in _UNSPACED):
                flags |= IDEOGRAPH
        if point in _DROPPED:
            flags = DROPPED
        flags |= CONTROL if category == "Cc" else 0
        flags |= NEVER if unicodedata.normalize("NFC", text) != text else 0
        flags |= MAYBE if point in seconds else 0
        held[point] = flags | unicodedata.combining(text) << 8
        folded[point] = fold_of(point) - point if flags & LETTER else 0
    return held, folded


def paged(*arrays: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The number of the page of each block of code points, and the pages of each array."""
    size = 1 << PAGE_BITS
    numbers: dict[bytes, int] = {}
    index = []
    for start in range(0, POINTS, size):
        key = b"".join(array[start : start + size].tobytes() for array in arrays)
        index.append(numbers.setdefault(key, len(numbers)))
    first = [index.index(number) * size for number in range(len(numbers))]
    return np.array(index, np.uint16), [np.concatenate([array[at : at + size] for at in first]) for array in arrays]


def literal(name: str, array: np.ndarray) -> str:
    """A line of Python for each part of an array, compressed."""
    little = array.astype(array.dtype.newbyteorder("<"))
    text = base64.b64encode(zlib.compress(little.tobytes(), 9)).decode()
    lines = [text[at : at + 118] for at in range(0, len(text), 118)]
    return f"{name}: Final = (\n" + "\n".join(f'    b"{line}"' for line in lines) + "\n)\n"


def main() -> None:
    """Print the module."""
    held, folded = classes()
    index, (flags, folds) = paged(held, folded)
    pairs = sorted((first << 21 | second, composed) for (first, second), composed in pairs_of().items())
    lines = [
        f'"""Characters of Unicode {unicodedata.unidata_version} as compressed tables, {MADE_BY}."""\n',
        "from __future__ import annotations\n\nfrom typing import Final\n",
        f'VERSION: Final = "{unicodedata.unidata_version}"',
        literal("PAGES", index),
        literal("FLAGS", flags),
        literal("FOLDS", folds),
        literal("PAIRS", np.array([key for key, _ in pairs], np.uint64)),
        literal("COMPOSED", np.array([point for _, point in pairs], np.uint32)),
    ]
    sys.stdout.write("\n".join(lines).rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
