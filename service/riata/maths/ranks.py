"""Ranks of a few keys, found by comparing each with all: no branch, no counters, and no order of keys slower than another.

Keys are the upper halves of words, less one bit: the difference of two keys of 31 bits has in its highest bit whether it is
negative, so sixteen ranks grow by a subtraction, a shift and an addition, whatever the machine calls a comparison.
Compiled, that is done in registers; interpreted, in loops that say the same.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from riata.base.arrays import U32, U64
from riata.maths.lanes import everywhere, indices
from riata.maths.raw import LINE_KEYS, element

RANKED_MAX: Final = 128  # a multiple of LINE_KEYS; with so many, buckets are about as fast
KEY_SHIFT: Final = 33  # from a word to its key
KEY_LAST: Final = 2**31 - 1  # above every key but itself
_SIGN: Final = 31

ir: Final = cgutils.ir
_WORD: Final = ir.IntType(64)
_WORDS: Final = ir.VectorType(_WORD, LINE_KEYS)
_KEYS: Final = ir.VectorType(ir.IntType(32), LINE_KEYS)
_WORD_ALIGN, _KEY_ALIGN = 8, 4


def _slow_make_keys(words: U64, n: int, at: int, keys: U32) -> None:
    for i in range(at, at + LINE_KEYS):
        keys[i] = words[i] >> KEY_SHIFT if i < n else KEY_LAST


def _slow_rank_16(keys: U32, n: int, at: int, ranks: U32) -> None:
    for i in range(at, at + LINE_KEYS):
        ranks[i] = sum(keys[j] < keys[i] for j in range(n))


def _constant(value: int, count: int = LINE_KEYS) -> Any:
    return indices(*[value] * count)


@intrinsic  # type: ignore[untyped-decorator]
def _make_keys(_typing_context: Any, words: Any, _n: Any, _at: Any, keys: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        words_value, n, at, keys_value = args
        place = builder.bitcast(element(context, builder, words, words_value, at), _WORDS.as_pointer())
        left = everywhere(builder, builder.trunc(builder.sub(n, at), ir.IntType(32)), LINE_KEYS)
        there = builder.icmp_signed("<", indices(*range(LINE_KEYS)), left)
        nothing = ir.Constant(_WORDS, [2**64 - 1] * LINE_KEYS)
        kind = ir.FunctionType(_WORDS, [place.type, ir.IntType(32), there.type, _WORDS])
        load = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{LINE_KEYS}i64.p0")
        found = builder.call(load, [place, ir.IntType(32)(_WORD_ALIGN), there, nothing])
        found = builder.trunc(builder.lshr(found, ir.Constant(_WORDS, [KEY_SHIFT] * LINE_KEYS)), _KEYS)
        target = builder.bitcast(element(context, builder, keys, keys_value, at), _KEYS.as_pointer())
        builder.store(found, target).align = _KEY_ALIGN
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64, keys), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _rank_16(_typing_context: Any, keys: Any, _n: Any, _at: Any, ranks: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        keys_value, n, at, ranks_value = args
        own = builder.load(builder.bitcast(element(context, builder, keys, keys_value, at), _KEYS.as_pointer()))
        own.align = _KEY_ALIGN
        start = builder.block
        body, done = builder.append_basic_block("others"), builder.append_basic_block("ranked")
        builder.branch(body)
        builder.position_at_end(body)
        i, even, odd = builder.phi(_WORD), builder.phi(_KEYS), builder.phi(_KEYS)
        first, sums = element(context, builder, keys, keys_value, i), [even, odd]
        for k in range(LINE_KEYS):  # two sums, so that an addition need not wait for the one before it
            other = everywhere(builder, builder.load(builder.gep(first, [_WORD(k)])), LINE_KEYS)
            sums[k % 2] = builder.add(sums[k % 2], builder.lshr(builder.sub(other, own), _constant(_SIGN)))
        following = builder.add(i, _WORD(LINE_KEYS))
        builder.cbranch(builder.icmp_signed("<", following, n), body, done)
        for phi, before, after in ((i, _WORD(0), following), (even, _constant(0), sums[0]), (odd, _constant(0), sums[1])):
            phi.add_incoming(before, start)
            phi.add_incoming(after, body)
        builder.position_at_end(done)
        target = builder.bitcast(element(context, builder, ranks, ranks_value, at), _KEYS.as_pointer())
        builder.store(builder.add(*sums), target).align = _KEY_ALIGN
        return context.get_dummy_value()

    return types.void(keys, types.int64, types.int64, ranks), codegen


_PLAIN: Final = bool(numba.config.DISABLE_JIT)
# make_keys(words, n, at, keys): the keys of words[at:at + 16] into keys[at:]; KEY_LAST from n on, where words need not be there.
make_keys = _slow_make_keys if _PLAIN else _make_keys
# rank_16(keys, n, at, ranks): for each of keys[at:at + 16], how many of keys[:n] are below it, into ranks[at:]. n is at least 1;
# up to the next multiple of 16 there are KEY_LAST behind.
rank_16 = _slow_rank_16 if _PLAIN else _rank_16
