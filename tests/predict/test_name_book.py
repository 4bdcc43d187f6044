from __future__ import annotations

import random
import threading

import pytest

from riata.predict import name_book
from riata.predict.name_book import NameBook
from riata.wire.names import Names
from tests.twins import name_book as twin


def fingerprint(slot: int, rest: int, bits: int = 8) -> int:
    return (slot << (64 - bits)) | rest


def test_names_are_found_by_slot_oldest_first() -> None:
    book = NameBook()
    assert book.add(fingerprint(7, 1), b"country=de")
    assert book.add(fingerprint(7, 99), "größe".encode())
    assert book.add(fingerprint(255, 3), b"age")
    assert book.in_slot(7, 8) == ["country=de", "größe"]
    assert book.in_slot(255, 8) == ["age"]
    assert book.in_slot(8, 8) == []
    assert len(book) == 3


def test_the_same_names_are_found_by_slots_of_any_width() -> None:
    book = NameBook()
    book.add(0xDEADBEEF << 32 | 5, b"age")
    book.add(0xDEADBEE0 << 32 | 1, b"sex")
    assert book.in_slot(0xDEADBEEF, 32) == ["age"]
    assert book.in_slot(0xDEADBEE, 28) == ["age", "sex"]
    assert book.in_slot(1, 1) == ["age", "sex"]
    assert book.slots_with("", 32) == [0xDEADBEE0, 0xDEADBEEF]
    assert book.slots_with("a", 28) == [0xDEADBEE]


def test_a_name_is_kept_once() -> None:
    book = NameBook()
    assert book.add(fingerprint(7, 1), b"age")
    assert not book.add(fingerprint(7, 1), b"age")
    assert book.in_slot(7, 8) == ["age"]
    assert book.dropped == 0


def test_book_refuses_names_beyond_its_capacity_and_counts_them() -> None:
    book = NameBook(capacity=2)
    assert [book.add(fingerprint(i, i), f"f{i}".encode()) for i in range(5)] == [True, True, False, False, False]
    assert book.dropped == 3
    assert len(book) == 2
    assert book.in_slot(4, 8) == []


def test_slots_are_found_by_prefix() -> None:
    book = NameBook()
    for slot, name in ((9, b"user^age"), (3, b"user^sex"), (3, b"user^zip"), (4, b"item^age")):
        book.add(fingerprint(slot, sum(name)), name)
    assert book.slots_with("user^", 8) == [3, 9]
    assert book.slots_with("nobody", 8) == []
    assert book.slots_with("", 8) == [3, 4, 9]


def test_memory_grows_with_the_names() -> None:
    book = NameBook()
    empty = book.memory()
    for i in range(1000):
        book.add(fingerprint(i, i, 20), b"x" * 100)
    assert book.memory() > empty + 1000 * 100


def test_reading_while_names_are_added_sees_whole_names_only() -> None:
    book, done = NameBook(), threading.Event()
    failures: list[str] = []

    def read() -> None:
        while not done.is_set():
            names = [name for slot in book.slots_with("f", 4) for name in book.in_slot(slot, 4)]
            failures.extend(name for name in names if not name.startswith("f"))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(3000):
        book.add(fingerprint(i % 16, i, 4), f"f{i}".encode())
    done.set()
    reader.join()
    assert failures == []
    assert len(book) == 3000


@pytest.mark.parametrize("at_once", [64, 4096])
def test_names_added_at_once_are_found_as_if_added_one_by_one(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(name_book, "_AT_ONCE", at_once)
    rng = random.Random(31)
    book, slow, reported = NameBook(capacity=900), twin.NameBook(6, 900), 0
    for size in (1, 5, 400, 2, 2, 2, 60, 0, 700, 3):
        pairs = []
        for _ in range(size):
            name = rng.choice(("user^", "item^", "größe=")) + str(rng.randrange(1500))
            pairs.append((random.Random(name).randrange(2**64), name.encode()))
        reported += book.add_all(Names.of(pairs))
        slow.add_all(pairs)
        assert reported == len(book) == len(slow.names)
        for slot in range(64):
            assert book.in_slot(slot, 6) == slow.in_slot(slot)
        for prefix in ("", "u", "größe=1", "\ud800"):
            assert book.slots_with(prefix, 6) == slow.slots_with(prefix)
    assert len(book) == 900
    assert book.dropped == slow.dropped > 0


def test_prefixes_equal_the_twin() -> None:
    names = [b"", b"a", b"ab", b"abc", "é".encode(), b"b" * 300]
    book = NameBook()
    for number, name in enumerate(names):
        book.add(number << 32, name)
    for prefix in ("", "a", "ab", "b", "abcd", "é"):
        expected = [(name.decode(), i) for i, name in enumerate(names) if name.decode().startswith(prefix)]
        assert book.with_prefix(prefix) == expected
