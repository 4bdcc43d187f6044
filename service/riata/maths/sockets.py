"""What kernels ask the system themselves: bytes that have come. The only place that calls it from compiled code."""

from __future__ import annotations

import ctypes
import socket
from typing import Any, Final

import numba
import numpy as np
from numba import types

from riata.maths.kernel import inline_kernel

_NOT_WAITING: Final = int(getattr(socket, "MSG_DONTWAIT", 0))
CAN_HEAR: Final = _NOT_WAITING != 0  # whether the system can be asked without waiting


def _slow_receive(number: int, address: int, size: int, flags: int) -> int:
    return int(ctypes.CDLL(None).recv(int(number), ctypes.c_void_p(address), ctypes.c_size_t(size), int(flags)))


_receive: Any = _slow_receive
if not numba.config.DISABLE_JIT:
    _receive = types.ExternalFunction("recv", types.int64(types.int32, types.int64, types.int64, types.int32))


@inline_kernel
def receive(number: int, address: int, size: int) -> int:
    """Take at most `size` bytes of what has come on socket `number`, without waiting, to `address`: how many; 0 where nothing
    will come any more, and -1 where nothing has come yet or something is wrong. Source: POSIX, `recv`."""
    return int(_receive(np.int32(number), address, size, np.int32(_NOT_WAITING)))
