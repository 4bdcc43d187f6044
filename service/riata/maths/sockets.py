"""What kernels ask the system themselves: where bytes have come, and these. The only place that calls it from compiled code."""

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
CAN_HEAR: Final = _NOT_WAITING != 0 and hasattr(select, "epoll")  # whether the system can be asked so
# Words (i32) of what `epoll_wait` says of one socket, and which of them is its number: Linux packs them on one kind of machine.
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
    """Take at most `size` bytes of what has come on socket `number`, without waiting, to `address`: how many; 0 where nothing
    will come any more, and -1 where nothing has come yet or something is wrong. Source: POSIX, `recv`."""
    return int(_receive(np.int32(number), address, size, np.int32(_NOT_WAITING)))


@inline_kernel
def ready(epoll: int, address: int, most: int) -> int:
    """Which sockets of `epoll` have something to be taken, without waiting: how many, at most `most`, each READY_WORDS at
    `address`; -1 where something is wrong. Source: the manual of Linux, `epoll_wait`."""
    return int(_wait(np.int32(epoll), address, np.int32(most), np.int32(0)))
