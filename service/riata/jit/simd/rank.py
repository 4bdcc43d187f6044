"""Ranks of a few keys by comparing each with all: no branch, no counters, and the same time for every order of keys.

Keys are the upper 16 bits of words, as signed numbers. The highest bit of the saturated difference of two of them says which is
less. So 32 ranks grow by a subtraction, a shift and an addition, which is fast on every instruction set. Words that agree in
16 bits share a rank, so the sum of all ranks shows whether there are two such words. Compiled, this runs in registers;
interpreted, in equivalent loops.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from riata.base.arrays import U32, U64
from riata.jit.raw.memory import element
from riata.jit.simd.f64x8 import everywhere, indices

RANK_KEYS: Final = 32  # keys side by side
RANKED_MAX: Final = 128  # a multiple of RANK_KEYS; at this size, buckets are about as fast
KEY_SHIFT: Final = 48  # from a word to its key
KEY_SIGN: Final = 2**15
KEY_LAST: Final = 2**16 - 1  # above every key but itself
_STEP: Final = 8  # keys that are compared with all before the loop checks for the end
_SIGN: Final = 15

ir: Final = cgutils.ir
_WORD: Final = ir.IntType(64)
_KEY: Final = ir.IntType(16)
_WORDS: Final = ir.VectorType(_WORD, RANK_KEYS)
_KEYS: Final = ir.VectorType(_KEY, RANK_KEYS)
_RANKS: Final = ir.VectorType(ir.IntType(32), RANK_KEYS)
_WORD_ALIGN, _KEY_ALIGN, _RANK_ALIGN = 8, 2, 4


def _slow_make_keys(words: U64, n: int, at: int, keys: U32) -> None:
    pairs = keys.view(np.uint16)
    for i in range(at, at + RANK_KEYS):
        pairs[i] = (int(words[i]) >> KEY_SHIFT if i < n else KEY_LAST) ^ KEY_SIGN


def _slow_rank_keys(keys: U32, n: int, ranks: U32) -> None:
    signed = keys.view(np.int16)
    for i in range(-(-n // RANK_KEYS) * RANK_KEYS):
        ranks[i] = (signed[:n] < signed[i]).sum()


def _constant(value: int) -> Any:
    return ir.Constant(_KEYS, [value] * RANK_KEYS)


@intrinsic  # type: ignore[untyped-decorator]
def _make_keys(_typing_context: Any, words: Any, _n: Any, _at: Any, keys: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        words_value, n, at, keys_value = args
        place = builder.bitcast(element(context, builder, words, words_value, at), _WORDS.as_pointer())
        left = everywhere(builder, builder.trunc(builder.sub(n, at), ir.IntType(32)), RANK_KEYS)
        there = builder.icmp_signed("<", indices(*range(RANK_KEYS)), left)
        nothing = ir.Constant(_WORDS, [2**64 - 1] * RANK_KEYS)
        kind = ir.FunctionType(_WORDS, [place.type, ir.IntType(32), there.type, _WORDS])
        load = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{RANK_KEYS}i64.p0")
        found = builder.call(load, [place, ir.IntType(32)(_WORD_ALIGN), there, nothing])
        found = builder.trunc(builder.lshr(found, ir.Constant(_WORDS, [KEY_SHIFT] * RANK_KEYS)), _KEYS)
        _store(builder, builder.xor(found, _constant(KEY_SIGN)), _key(context, builder, keys, keys_value, at), _KEY_ALIGN)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64, keys), codegen


def _key(context: Any, builder: Any, keys: Any, value: Any, at: Any) -> Any:
    """Pointer to key `at`: each element of `keys` has two keys."""
    return builder.gep(builder.bitcast(element(context, builder, keys, value, _WORD(0)), _KEY.as_pointer()), [at])


def _store(builder: Any, found: Any, place: Any, align: int) -> None:
    builder.store(found, builder.bitcast(place, found.type.as_pointer())).align = align


def _one_more(builder: Any, rank: Any, other: Any, own: Any) -> Any:
    """Add one to each rank whose key is above the other key."""
    kind = ir.FunctionType(_KEYS, [_KEYS, _KEYS])
    difference = cgutils.get_or_insert_function(builder.module, kind, f"llvm.ssub.sat.v{RANK_KEYS}i16")
    return builder.add(rank, builder.lshr(builder.call(difference, [other, own]), _constant(_SIGN)))


@intrinsic  # type: ignore[untyped-decorator]
def _rank_keys(_typing_context: Any, keys: Any, _n: Any, ranks: Any) -> Any:
    def rank(context: Any, builder: Any, args: Any, groups: int) -> None:
        """Compare the keys in `groups` registers, all at once, with one key after another."""
        keys_value, n, ranks_value = args
        own = []
        for group in range(groups):
            place = _key(context, builder, keys, keys_value, _WORD(group * RANK_KEYS))
            own.append(builder.load(builder.bitcast(place, _KEYS.as_pointer())))
            own[-1].align = _KEY_ALIGN
        start = builder.block
        body, done = builder.append_basic_block("others"), builder.append_basic_block("ranked")
        builder.branch(body)
        builder.position_at_end(body)
        i, before = builder.phi(_WORD), [builder.phi(_KEYS) for _ in range(groups)]
        first, after = _key(context, builder, keys, keys_value, i), list(before)
        for k in range(_STEP):
            other = everywhere(builder, builder.load(builder.gep(first, [_WORD(k)])), RANK_KEYS)
            after = [_one_more(builder, found, other, mine) for found, mine in zip(after, own, strict=True)]
        following = builder.add(i, _WORD(_STEP))
        builder.cbranch(builder.icmp_signed("<", following, n), body, done)
        for phi, none, found in ((i, _WORD(0), following), *zip(before, [_constant(0)] * groups, after, strict=True)):
            phi.add_incoming(none, start)
            phi.add_incoming(found, body)
        builder.position_at_end(done)
        for group, found in enumerate(after):
            place = element(context, builder, ranks, ranks_value, _WORD(group * RANK_KEYS))
            _store(builder, builder.zext(found, _RANKS), place, _RANK_ALIGN)

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        end = builder.append_basic_block("all_ranked")
        most = RANKED_MAX // RANK_KEYS
        for groups in range(1, most):
            few, more = builder.append_basic_block("few"), builder.append_basic_block("more")
            builder.cbranch(builder.icmp_signed("<=", args[1], _WORD(groups * RANK_KEYS)), few, more)
            builder.position_at_end(few)
            rank(context, builder, args, groups)
            builder.branch(end)
            builder.position_at_end(more)
        rank(context, builder, args, most)
        builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(keys, types.int64, ranks), codegen


def _slow_keys_below(keys: U32, i: int) -> int:
    signed = keys.view(np.int16)
    return int((signed[:RANK_KEYS] < signed[i]).sum())


@intrinsic  # type: ignore[untyped-decorator]
def _keys_below(_typing_context: Any, keys: Any, _i: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        first = _key(context, builder, keys, args[0], _WORD(0))
        held = builder.load(builder.bitcast(first, _KEYS.as_pointer()))
        held.align = _KEY_ALIGN
        other = everywhere(builder, builder.load(builder.gep(first, [args[1]])), RANK_KEYS)
        mask = builder.bitcast(builder.icmp_signed("<", held, other), ir.IntType(RANK_KEYS))
        return builder.zext(builder.ctpop(mask), _WORD)

    return types.int64(keys, types.int64), codegen


_PLAIN: Final = bool(numba.config.DISABLE_JIT)
# make_keys(words, n, at, keys): the keys of words[at:at + 32] as keys at to at + 31, two in each element; KEY_LAST from n on,
# where the words need not exist.
make_keys = _slow_make_keys if _PLAIN else _make_keys
# rank_keys(keys, n, ranks): for each of n keys the number of keys below it, and the same up to the next multiple of 32, where
# keys are KEY_LAST. n is 1 to RANKED_MAX.
rank_keys = _slow_rank_keys if _PLAIN else _rank_keys
# keys_below(keys, i): how many of the first 32 keys are below key i. If there are only a few keys, ranking them one by one takes
# less time than 32 at once.
keys_below = _slow_keys_below if _PLAIN else _keys_below
