"""Sockets from compiled code: `recv` and `epoll_wait`. The only module that makes system calls from kernels."""

from __future__ import annotations

import ctypes
import platform
import select
import socket
from typing import Any, Final

import numba
import numpy as np
from numba import types

from riata.jit.kernel import inline_kernel

_NOT_WAITING: Final = int(getattr(socket, "MSG_DONTWAIT", 0))
CAN_HEAR: Final = _NOT_WAITING != 0 and hasattr(select, "epoll")  # whether the system supports these calls
# Words (i32) of an event of `epoll_wait`, and the index of the socket's number: Linux packs the struct on x86-64.
READY_WORDS, READY_SOCKET = (3, 1) if platform.machine() == "x86_64" else (4, 2)


def _slow_receive(number: int, address: int, size: int, flags: int) -> int:
    return int(ctypes.CDLL(None).recv(int(number), ctypes.c_void_p(address), ctypes.c_size_t(size), int(flags)))


def _slow_wait(epoll: int, address: int, most: int, millis: int) -> int:
    return int(ctypes.CDLL(None).epoll_wait(int(epoll), ctypes.c_void_p(address), int(most), int(millis)))


_receive: Any = _slow_receive
_wait: Any = _slow_wait
if not numba.config.DISABLE_JIT:
    _wait = types.ExternalFunction("epoll_wait", types.int32(types.int32, types.int64, types.int32, types.int32))
    _receive = types.ExternalFunction("recv", types.int64(types.int32, types.int64, types.int64, types.int32))


@inline_kernel
def receive(number: int, address: int, size: int) -> int:
    """Receive at most `size` bytes of socket `number`, without waiting, to `address`. Returns the number of bytes; 0 at the end
    of the stream; -1 if nothing has arrived yet or an error occurred. Source: POSIX, `recv`."""
    return int(_receive(np.int32(number), address, size, np.int32(_NOT_WAITING)))


@inline_kernel
def ready(epoll: int, address: int, most: int) -> int:
    """The readable sockets of `epoll`, without waiting. Returns how many, at most `most`, each READY_WORDS at `address`; -1 if an
    error occurred. Source: the manual of Linux, `epoll_wait`."""
    return int(_wait(np.int32(epoll), address, np.int32(most), np.int32(0)))
