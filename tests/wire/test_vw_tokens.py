from __future__ import annotations

import random

import numpy as np

from riata.wire import codes
from riata.wire.readers.vw import features as vw_tokens
from tests.twins import vw_tokens as twin
from tests.wire.compiled_reader import bytes_of


def test_the_parts_of_the_reader_agree_with_their_twins() -> None:
    rng = random.Random(31)
    for _ in range(3000):
        text = bytes(rng.choice(b"ab:| \t19.-+einf\x01\xc3\xa9\x85") for _ in range(rng.randrange(0, 14)))
        data = bytes_of(text + b"\n")
        stop = len(text)
        start = rng.randrange(stop + 1)
        for colon in (True, False):
            assert vw_tokens.take_name(data, start, stop, colon) == twin.take_name(data, start, stop, colon)
        assert vw_tokens.is_word(data, start, stop) == twin.is_word(data, start, stop)
        assert vw_tokens.same_word(data, start, stop, bytes_of("inf")) == twin.same_word(data, start, stop, bytes_of("inf"))
        found, expected = vw_tokens.read_namespace(data, start, stop), twin.read_namespace(data, start, stop)
        assert found == expected
        found_feature = vw_tokens.read_feature(data, start, stop, np.uint64(5))
        expected_feature = twin.read_feature(data, start, stop, np.uint64(5))
        assert found_feature[4] == expected_feature[4]
        if found_feature[4] == codes.OK:
            assert found_feature[:2] == expected_feature[:2]
            assert repr(found_feature[2]) == repr(expected_feature[2])
            assert found_feature[3] == expected_feature[3]
