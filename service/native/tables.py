"""Write `tables.h`: powers of five for `numbers.c`, and the tables of one version of Unicode for `unicode.c`.

python3 tables.py UNICODE_DATA.py TABLES.H
"""

from __future__ import annotations

import base64
import runpy
import struct
import sys
import zlib
from pathlib import Path

POWER_MIN, POWER_MAX = -342, 308
ROUNDED_UP_MIN = -27  # 5^27 < 2^64: products of down to this power of ten can be whole numbers


def power_of_five(exponent: int) -> int:
    """Return the top 128 bits of 5^exponent.

    They are truncated, so that a product is never too large. The exceptions are reciprocals of powers that fit 64 bits. Those are
    rounded up, so that the exact product of a multiple of the power is not one too small.
    """
    power: int = 5 ** abs(exponent)
    length = power.bit_length()
    if exponent >= 0:
        return power << (128 - length) if length <= 128 else power >> (length - 128)
    return (1 << (length + 127)) // power + (1 if exponent >= ROUNDED_UP_MIN else 0)


def array(kind: str, name: str, numbers: list[str]) -> str:
    """Return the definition of a constant array in C."""
    lines = [", ".join(numbers[i : i + 16]) for i in range(0, len(numbers), 16)]
    return f"static const {kind} {name} __attribute__((unused)) = {{\n" + ",\n".join(lines) + "};\n"


def unicode_array(data: dict[str, bytes], name: str, layout: str, kind: str) -> str:
    """Return one table of `unicode_data` as an array in C."""
    content = zlib.decompress(base64.b64decode(data[name]))
    numbers = struct.unpack(f"<{len(content) // struct.calcsize(layout)}{layout}", content)
    suffix = "ull" if layout == "Q" else ""
    return array(kind, f"UNICODE_{name}[{len(numbers)}]", [f"{number}{suffix}" for number in numbers])


def tables(unicode_data: Path) -> str:
    """Return the content of `tables.h`."""
    data = runpy.run_path(str(unicode_data))
    powers = [power_of_five(exponent) for exponent in range(POWER_MIN, POWER_MAX + 1)]
    pairs = len(zlib.decompress(base64.b64decode(data["PAIRS"]))) // 8
    parts = [
        "/* Made by tables.py. */\n",
        array("u64", f"POWERS_OF_FIVE[{len(powers)}][2]", [f"{{{p >> 64}ull, {p & (2**64 - 1)}ull}}" for p in powers]),
        *(
            unicode_array(data, name, layout, kind)
            for name, layout, kind in (
                ("PAGES", "H", "uint16_t"),
                ("FLAGS", "H", "uint16_t"),
                ("FOLDS", "i", "int32_t"),
                ("PAIRS", "Q", "u64"),
                ("COMPOSED", "I", "u32"),
            )
        ),
        f"enum {{ UNICODE_PAIRS_SIZE = {pairs} }};\n",
    ]
    return "".join(parts)


def write(unicode_data: Path, target: Path) -> None:
    """Write `tables.h`."""
    target.write_text(tables(unicode_data))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
