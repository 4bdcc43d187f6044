from __future__ import annotations

import threading

from riata.predict.name_book import NameBook


def fingerprint(slot: int, rest: int, bits: int = 8) -> int:
    return (slot << (64 - bits)) | rest


def test_names_are_found_by_slot_oldest_first() -> None:
    book = NameBook(bits=8)
    assert book.add(fingerprint(7, 1), b"country=de")
    assert book.add(fingerprint(7, 99), "größe".encode())
    assert book.add(fingerprint(255, 3), b"age")
    assert book.in_slot(7) == ["country=de", "größe"]
    assert book.in_slot(255) == ["age"]
    assert book.in_slot(8) == []
    assert len(book) == 3


def test_a_name_is_kept_once() -> None:
    book = NameBook(bits=8)
    assert book.add(fingerprint(7, 1), b"age")
    assert not book.add(fingerprint(7, 1), b"age")
    assert book.in_slot(7) == ["age"]
    assert book.dropped == 0


def test_book_refuses_names_beyond_its_capacity_and_counts_them() -> None:
    book = NameBook(bits=8, capacity=2)
    assert [book.add(fingerprint(i, i), f"f{i}".encode()) for i in range(5)] == [True, True, False, False, False]
    assert book.dropped == 3
    assert len(book) == 2
    assert book.in_slot(4) == []


def test_slots_are_found_by_prefix() -> None:
    book = NameBook(bits=8)
    for slot, name in ((9, b"user^age"), (3, b"user^sex"), (3, b"user^zip"), (4, b"item^age")):
        book.add(fingerprint(slot, len(name)), name)
    assert book.slots_with("user^") == [3, 9]
    assert book.slots_with("nobody") == []
    assert book.slots_with("") == [3, 4, 9]


def test_memory_grows_with_the_names() -> None:
    book = NameBook(bits=20)
    empty = book.memory()
    for i in range(1000):
        book.add(fingerprint(i, i, 20), b"x" * 100)
    assert book.memory() > empty + 1000 * 100


def test_reading_while_names_are_added_sees_whole_names_only() -> None:
    book, done = NameBook(bits=4), threading.Event()
    failures: list[str] = []

    def read() -> None:
        while not done.is_set():
            names = [name for slot in book.slots_with("f") for name in book.in_slot(slot)]
            failures.extend(name for name in names if not name.startswith("f"))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(3000):
        book.add(fingerprint(i % 16, i, 4), f"f{i}".encode())
    done.set()
    reader.join()
    assert failures == []
    assert len(book) == 3000
