"""Shared by the readers: delimiters, numbers, words, sorting, and the assembly of rows."""
