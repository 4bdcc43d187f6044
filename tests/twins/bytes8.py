"""Questions about the bytes of a word, asked byte by byte."""

from __future__ import annotations
