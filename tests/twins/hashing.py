"""The feature hash in unbounded integers, written from its description alone, and the generator of its golden file."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "feature_hash.json"
_MODULUS = 2**64
_M1 = 0x9E3779B97F4A7C15
_M2 = 0xD6E8FEB86659FD93
TAGS = {"number": 0, "equals": 1, "word": 2, "namespace": 3}


def hash_name(name: bytes, key: int, tag: int) -> int:
    """64-bit fingerprint of one part of a name."""
    h = key ^ (len(name) * _M1 % _MODULUS) ^ (tag * _M2 % _MODULUS)
    for at in range(0, len(name), 8):
        word = int.from_bytes(name[at : at + 8].ljust(8, b"\0"), "little")
        h = (h ^ word) * _M1 % _MODULUS
        h ^= h >> 32
    h = h * _M2 % _MODULUS
    return h ^ (h >> 32)


def golden_vectors() -> list[dict[str, Any]]:
    """Names of every length around the word size, in ASCII and beyond, under keys at the ends of their range."""
    rng = random.Random(20081)
    names = ["", "a", "age", "country", "é", "日本語", "x" * 256]
    names += ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz_0123456789") for _ in range(length)) for length in range(1, 34)]
    keys = [0, 1, 2**63 - 1, 0x0123456789ABCDEF]
    single = [
        {"key": str(key), "tag": tag, "name": name, "hash": f"{hash_name(name.encode(), key, TAGS[tag]):016x}"}
        for key in keys
        for tag in TAGS
        for name in names
    ]
    pairs = [("equals", "country", "de"), ("word", "subject", "hello"), ("namespace", "user", "age"), ("equals", "country", "")]
    double = [
        {"key": str(key), "tag": tag, "prefix": prefix, "name": name, "hash": f"{_double(key, tag, prefix, name):016x}"}
        for key in keys
        for tag, prefix, name in pairs
    ]
    return single + double


def _double(key: int, tag: str, prefix: str, name: str) -> int:
    return hash_name(name.encode(), hash_name(prefix.encode(), key, TAGS[tag]), TAGS["number"])


def write_golden() -> None:
    """Write the golden file. Only a new version of the feature hash may change what is in it."""
    lines = ",\n".join(json.dumps(vector, ensure_ascii=False) for vector in golden_vectors())
    GOLDEN.write_text(f'{{"version": 1, "vectors": [\n{lines}\n]}}\n', encoding="utf-8")
