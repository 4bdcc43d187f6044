"""Runs the scripts of the store on `MiniRedis` with the Lua that the server embeds: neither copied nor translated.

What the server adds to the language is here: `redis`, `struct`, and how replies become values and back.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
from lupa import lua51

from riata.store.redis.link import script_text
from tests.simulation.mini_redis import MiniRedis, RedisError

_BOOT: Final = b"""
local call, sha1hex, pack, msgpack, msgunpack, decode = ...
redis = {}
local function run(...)
  local ok, reply = call(...)
  if ok then return reply end
  return nil, reply
end
function redis.call(...)
  local reply, wrong = run(...)
  if wrong then error({err = wrong}, 0) end
  return reply
end
function redis.pcall(...)
  local reply, wrong = run(...)
  if wrong then return {err = wrong} end
  return reply
end
function redis.error_reply(text) return {err = text} end
function redis.status_reply(text) return {ok = text} end
redis.sha1hex = sha1hex
function redis.log() end
function redis.replicate_commands() return true end
function redis.set_repl() end
redis.LOG_WARNING, redis.LOG_NOTICE, redis.LOG_VERBOSE, redis.LOG_DEBUG = 3, 2, 1, 0
struct = {}
function struct.pack(format, ...) return pack(format, ...) end
cmsgpack = {pack = msgpack, unpack = msgunpack}
cjson = {decode = decode}
function guarded(script)
  return function(keys, argv)
    KEYS, ARGV = keys, argv
    local ok, reply = pcall(script)
    if ok then return reply end
    if type(reply) == 'table' and reply.err then return reply end
    return {err = 'ERR ' .. tostring(reply) .. ' script: simulated, on @user_script:1.'}
  end
end
"""

Script = Callable[[list[bytes], list[bytes]], Any]


class Status(bytes):
    """A status reply."""


class LuaHost:
    """One interpreter. `redis` may be exchanged: the next script runs on the new one."""

    def __init__(self) -> None:
        self.redis: MiniRedis | None = None
        self._lua: Any = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True, register_eval=False)
        self._table: Callable[..., Any] = self._lua.table_from
        boot = self._lua.execute(b"return function(...) " + _BOOT + b" end")
        boot(self._call, _sha1hex, _pack, self._msgpack, self._msgunpack, self._json)
        self._guarded = self._lua.globals()[b"guarded"]

    def compile(self, text: str) -> Script:
        """Compile a script from its text, with or without the line of its flags."""
        body = re.sub(r"\A#![^\n]*", "", text).encode()
        run = self._guarded(self._lua.execute(b"return function() " + body + b"\nend"))

        def script(keys: list[bytes], arguments: list[bytes]) -> Any:
            return plain(run(self._table(keys), self._table(arguments)))

        return script

    def _call(self, command: bytes, *arguments: Any) -> tuple[bool, Any]:
        assert self.redis is not None
        try:
            reply = self.redis.call(command.decode().upper(), *arguments)
        except RedisError as error:
            return False, str(error).encode()
        if reply is None:
            return True, False
        if type(reply) is list:
            return True, self._tabled(reply)
        return True, reply

    def _tabled(self, reply: list[Any]) -> Any:
        return self._table([False if part is None else self._tabled(part) if type(part) is list else part for part in reply])

    def _msgpack(self, value: Any) -> bytes:
        return msgspec.msgpack.encode(_native(value))

    def _msgunpack(self, packed: bytes) -> Any:
        return self._value(msgspec.msgpack.decode(packed))

    def _json(self, text: bytes) -> Any:
        return self._value(json.loads(text))

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, list):
            return self._table([False if part is None else self._value(part) for part in value])
        if isinstance(value, dict):
            return self._table({key.encode(): self._value(part) for key, part in value.items()})
        return value


@dataclass(frozen=True, slots=True)
class Loaded:
    """A script, and whether a full server refuses it."""

    run: Script
    needs_room: bool


class Scripts:
    """The scripts of the store by name, each compiled once. `changed` replaces text in some of them, for mutants."""

    def __init__(self, changed: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})) -> None:
        self.host = LuaHost()
        self._changed = changed
        self._loaded: dict[str, Loaded] = {}

    def of(self, name: str) -> Loaded:
        """Compile, or return the compiled script. Raises `ValueError` if a replacement finds no text to replace."""
        if name not in self._loaded:
            text = script_text(name).decode()
            for old, new in self._changed.get(name, ()):
                if old not in text:
                    raise ValueError(f"{name}.lua has no {old!r}")
                text = text.replace(old, new)
            flags = text.partition("\n")[0]
            needs_room = "allow-oom" not in flags and "no-writes" not in flags
            self._loaded[name] = Loaded(self.host.compile(text), needs_room)
        return self._loaded[name]


def plain(reply: Any) -> Any:
    """The reply of a client for the value that a script returns. Raises `RedisError`."""
    kind = type(reply)
    if kind is bytes or kind is int:
        return reply
    if reply is None or reply is False:
        return None
    if reply is True:
        return 1
    if kind is float:
        return int(reply)
    size = len(reply)
    if size == 0:
        if (wrong := reply[b"err"]) is not None:
            raise RedisError(wrong.decode())
        if (status := reply[b"ok"]) is not None:
            return Status(status)
    parts = []
    for i in range(1, size + 1):
        part = reply[i]
        if part is None:
            break
        parts.append(part if type(part) is bytes else plain(part))
    return parts


def _native(value: Any) -> Any:
    """A value of Lua, or of nested lists, as a Python value."""
    if lua51.lua_type(value) == "table":
        return [_native(value[i]) for i in range(1, len(value) + 1)]
    return value


def _sha1hex(text: Any) -> bytes:
    data = text if isinstance(text, bytes) else b"%d" % text
    return hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()


def _python_format(form: bytes) -> str:
    """The Python `struct` format for one of Lua's, for integers and floats of fixed size and strings of given length."""
    found, order = "", "<"
    for sign, size in re.findall(r"([<>=!bBhHiIlLfdcsxT])(\d*)", form.decode()):
        if sign in "<>":
            order = sign
        elif sign in "iI":
            code = {"1": "b", "2": "h", "4": "i", "": "i", "8": "q"}[size]
            found += code if sign == "i" else code.upper()
        elif sign == "c":
            found += f"{size}s"
        else:
            found += {"l": "q", "L": "Q"}.get(sign, sign)
    return order + found


def _pack(form: bytes, *values: Any) -> bytes:
    python = _python_format(form)
    codes: list[str] = re.findall(r"\d*[a-zA-Z]", python)
    ready = [value if code[-1] in "sfd" else int(value) for code, value in zip(codes, values, strict=True)]
    return struct.pack(python, *ready)
