"""The states of a connection, and which may follow which."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class State(IntEnum):
    """What a connection is doing."""

    IDLE = 0  # no request is being received or answered
    HEAD = 1  # a part of a head has arrived
    BODY = 2  # a head has arrived and a part of its body is still to come; an answer is owed
    ANSWERING = 3  # a request has arrived; an answer is owed
    UNREAD = 4  # a request was answered before its body had arrived, which is read and dropped
    LINGERING = 5  # no further request is answered: EOF was sent, and what the client still sends is dropped
    CLOSING = 6  # the transport closes once everything written was sent
    LOST = 7  # the transport is closed


IDLE, HEAD, BODY, ANSWERING, UNREAD, LINGERING, CLOSING, LOST = State

MOVES: Final[dict[State, frozenset[State]]] = {
    IDLE: frozenset({HEAD, BODY, ANSWERING, LINGERING, CLOSING, LOST}),
    HEAD: frozenset({IDLE, LINGERING, CLOSING, LOST}),
    BODY: frozenset({ANSWERING, UNREAD, LINGERING, CLOSING, LOST}),
    ANSWERING: frozenset({IDLE, CLOSING, LOST}),
    UNREAD: frozenset({IDLE, LINGERING, CLOSING, LOST}),
    LINGERING: frozenset({CLOSING, LOST}),
    CLOSING: frozenset({LOST}),
    LOST: frozenset(),
}
INCOMPLETE: Final = frozenset({HEAD, BODY, UNREAD})  # a part of a request is still to come
