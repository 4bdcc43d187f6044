"""Read `riata.h` and write what the binding needs of it, `declarations.py`: fields of structures and arguments of functions.

The header is written for this: a structure is `typedef struct {...} riata_NAME;`, a function `EXPORT TYPE riata_NAME(...)`, or
`QUICK TYPE riata_NAME(...)` if calls keep the interpreter's lock.
"""

from __future__ import annotations

import re
from pathlib import Path

SCALARS = ("i64", "u64", "i32", "u32", "u8", "double", "bool")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"typedef struct \{(.*?)\}\s*(riata_\w+);", re.DOTALL)
_FUNCTION = re.compile(r"^(EXPORT|QUICK) ([^(;=]*?)(riata_\w+)\(([^)]*)\);", re.DOTALL | re.MULTILINE)
_TYPE = re.compile(r"(const )?(\w+)\b(.*)", re.DOTALL)
_DECLARATOR = re.compile(r"(\**)\s*(?:const\s+)?(\w*)\s*(?:\[(\w+)\])?")
_CONSTANT = re.compile(r"\b([A-Z][A-Z0-9_]*) = (\d+)\b")

Fields = tuple[tuple[str, str], ...]


class BadHeader(ValueError):
    """A declaration that the binding cannot be made of."""


class Header:
    """What a header declares.

    structs : of each structure its fields, in order: name and type
    functions : of each function its result, whether it keeps the interpreter's lock, and the types of its arguments

    A type is a scalar of SCALARS, `char`, `void`, `NAME *` or `const NAME *`; of a field also a structure, or `TYPE[4]`.
    """

    def __init__(self, text: str) -> None:
        """Raises `BadHeader` if a type is not among those above."""
        text = _COMMENT.sub(" ", text)
        self._sizes = {name: int(number) for name, number in _CONSTANT.findall(text)}
        self.structs: dict[str, Fields] = {}
        for body, name in _STRUCT.findall(text):
            self.structs[name] = tuple(field for line in body.split(";") if line.strip() for field in self._declared(line))
        self.functions = {
            name: (self._type(result.strip()), how == "QUICK", self._arguments(arguments))
            for how, result, name, arguments in _FUNCTION.findall(text)
        }

    def _arguments(self, text: str) -> tuple[str, ...]:
        if text.strip() == "void":
            return ()
        return tuple(kind for argument in text.split(",") for _, kind in self._declared(argument))

    def _declared(self, text: str) -> list[tuple[str, str]]:
        """Names and types of `TYPE a, *b, c[4]`."""
        found = _TYPE.fullmatch(" ".join(text.split()))
        if found is None:
            raise BadHeader(text)
        const, base, rest = found[1] or "", found[2], found[3]
        fields = []
        for word in rest.split(","):
            declarator = _DECLARATOR.fullmatch(word.strip())
            if declarator is None:
                raise BadHeader(text)
            stars, name, size = declarator.groups()
            kind = self._type(f"{const}{base} {stars}".strip() if stars else base)
            fields.append((name, f"{kind}[{self._sizes.get(size, size)}]" if size else kind))
        return fields

    def _type(self, text: str) -> str:
        text = " ".join(text.replace("*", " *").split()).replace("* *", "**")
        base = text.removeprefix("const ").removesuffix(" *")
        if base not in SCALARS and base not in self.structs and text not in ("void", "const char *"):
            raise BadHeader(f"{text}: not a type that the binding knows")
        return text

    def declarations(self, sources: str) -> str:
        """Return the content of `declarations.py`. `sources` is the digest of the sources."""
        lines = [
            '"""Made of `riata.h` by `service/native/header.py` when the core is built."""',
            "",
            f"SOURCES: str = {sources!r}",
            f"STRUCTS: dict[str, tuple[tuple[str, str], ...]] = {self.structs!r}",
            f"FUNCTIONS: dict[str, tuple[str, bool, tuple[str, ...]]] = {self.functions!r}",
        ]
        return "\n".join(lines) + "\n"

    def sizes(self) -> str:
        """Return the elements of an array in C: the size of each structure, in order."""
        return "#define RIATA_SIZES " + ", ".join(f"sizeof({name})" for name in self.structs) + "\n"


def read(path: Path) -> Header:
    """Read a header."""
    return Header(path.read_text())
