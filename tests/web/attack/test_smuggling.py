"""Requests that two servers could read in two ways: one exact refusal, and nothing after it is read."""

from __future__ import annotations

import pytest

from tests.web.attack.conftest import Start, Target
from tests.web.attack.raw import ROW, get, post, talk

HEAD = b"POST /observe HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(ROW)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(ROW), ROW)
SMUGGLED = post(b'{"features":{"smuggled":1},"label":1}')
MALFORMED, HOST, CODING, FRAMING = "malformed_request", "bad_host", "bad_transfer_coding", "bad_chunks"


def without_host(method: bytes = b"POST") -> bytes:
    return method + b" /observe HTTP/1.1\r\nContent-Type: application/json\r\n"


REFUSED = {
    "both lengths": (HEAD + LENGTH + CHUNKED + b"\r\n" + CHUNKS, MALFORMED),
    "both lengths, chunks first": (HEAD + CHUNKED + LENGTH + b"\r\n" + CHUNKS, MALFORMED),
    "two lengths": (HEAD + LENGTH + b"Content-Length: 5\r\n\r\n" + ROW, MALFORMED),
    "the same length twice": (HEAD + LENGTH + LENGTH + b"\r\n" + ROW, MALFORMED),
    "a list of lengths": (HEAD + b"Content-Length: 30, 30\r\n\r\n" + ROW, MALFORMED),
    "a length with a sign": (HEAD + b"Content-Length: +30\r\n\r\n" + ROW, MALFORMED),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n" + ROW, MALFORMED),
    "a length in hexadecimal": (HEAD + b"Content-Length: 0x1e\r\n\r\n" + ROW, MALFORMED),
    "an empty length": (HEAD + b"Content-Length: \r\n\r\n" + ROW, MALFORMED),
    "a length of thirty digits": (HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n" + ROW, MALFORMED),
    "lines that end in LF": ((HEAD + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + ROW, MALFORMED),
    "one line that ends in LF": (HEAD + b"X: a\n" + LENGTH + b"\r\n" + ROW, MALFORMED),
    "an empty line of LF": (HEAD + LENGTH + b"\n" + ROW, MALFORMED),
    "a line that ends in CR": (HEAD + b"X: a\rY: b\r\n" + LENGTH + b"\r\n" + ROW, MALFORMED),
    "no host": (without_host() + LENGTH + b"\r\n" + ROW, HOST),
    "two hosts": (HEAD + b"Host: t\r\n" + LENGTH + b"\r\n" + ROW, HOST),
    "a host that is none": (without_host() + b"Host: a/b\r\n" + LENGTH + b"\r\n" + ROW, HOST),
    "an unknown coding": (HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS, CODING),
    "a coding before chunked": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS, CODING),
    "a coding after chunked": (HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS, CODING),
    "chunked twice": (HEAD + CHUNKED + CHUNKED + b"\r\n" + CHUNKS, MALFORMED),
    "chunked after a control character": (HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKS, MALFORMED),
    "a space before the colon": (HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS, MALFORMED),
    "chunks in HTTP/1.0": (HEAD.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n" + CHUNKS, CODING),
    "a folded line": (HEAD + b"X-A: b\r\n folded\r\n" + LENGTH + b"\r\n" + ROW, MALFORMED),
    "a folded coding": (HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS, MALFORMED),
    "NUL in a value": (HEAD + b"X-A: a\0b\r\n" + LENGTH + b"\r\n" + ROW, MALFORMED),
    "NUL in a name": (HEAD + b"X\0A: a\r\n" + LENGTH + b"\r\n" + ROW, MALFORMED),
    "a space in a name": (HEAD + b"X A: a\r\n" + LENGTH + b"\r\n" + ROW, MALFORMED),
    "a line without a colon": (HEAD + b"XA\r\n" + LENGTH + b"\r\n" + ROW, MALFORMED),
    "trailers": (HEAD + CHUNKED + b"\r\n%x\r\n%s\r\n0\r\nAuthorization: x\r\n\r\n" % (len(ROW), ROW), FRAMING),
    "an absurd chunk extension": (HEAD + CHUNKED + b"\r\n1e;a=" + b"b" * 2**20 + b"\r\n" + ROW + b"\r\n0\r\n\r\n", FRAMING),
    "a chunk size of 17 digits": (HEAD + CHUNKED + b"\r\n" + b"f" * 17 + b"\r\n" + ROW, MALFORMED),
    "a negative chunk size": (HEAD + CHUNKED + b"\r\n-1\r\n" + ROW, MALFORMED),
    "chunk lines that end in LF": (HEAD + CHUNKED + b"\r\n1e\n" + ROW + b"\n0\n\n", MALFORMED),
    "a chunk longer than it says": (HEAD + CHUNKED + b"\r\n1e\r\n" + ROW + b"XX0\r\n\r\n", MALFORMED),
    "another protocol and a body": (HEAD + LENGTH + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + ROW, "upgrade_with_body"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", MALFORMED),
    "a version that is none": (HEAD.replace(b"1.1", b"2.0") + LENGTH + b"\r\n" + ROW, MALFORMED),
    "no version": (b"GET /livez\r\n\r\n", MALFORMED),
    "a tunnel": (b"CONNECT t:1 HTTP/1.1\r\nHost: t\r\n\r\n", "bad_target"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", MALFORMED),
}
TAKEN = {
    "a length": HEAD + LENGTH + b"\r\n" + ROW,
    "a length and blanks": HEAD + b"Content-Length: \t30 \r\n\r\n" + ROW,
    "chunks": HEAD + CHUNKED + b"\r\n" + CHUNKS,
    "chunks in capitals": HEAD + CHUNKED.upper() + b"\r\n" + CHUNKS,
    "a chunk extension": HEAD + CHUNKED + b"\r\n1e;a=b\r\n" + ROW + b"\r\n0\r\n\r\n",
    "a host with a port": HEAD.replace(b"Host: t", b"Host: [::1]:8080") + LENGTH + b"\r\n" + ROW,
    "HTTP/1.0 without a host": without_host().replace(b"1.1", b"1.0") + LENGTH + b"\r\n" + ROW,
}


@pytest.mark.parametrize("shape", REFUSED)
def test_a_head_that_can_be_read_in_two_ways_is_refused(target: Target, shape: str) -> None:
    sent, code = REFUSED[shape]
    received = talk(target.port, sent + SMUGGLED)
    assert received.told == [(400, code)]
    assert received.closed
    assert received.replies[0].headers["connection"] == "close"
    assert target.appended == 0
    assert target.front.refused == {code: 1}


@pytest.mark.parametrize("shape", TAKEN)
def test_an_unambiguous_head_is_accepted(target: Target, shape: str) -> None:
    received = talk(target.port, TAKEN[shape], silence_s=0.3)
    assert received.told == [(202, "")]
    assert target.appended == 1


def test_a_refusal_waits_for_the_answers_that_are_owed(target: Target) -> None:
    received = talk(target.port, get(b"/livez") + get(b"/models") + b"BAD\r\n\r\n" + SMUGGLED)
    assert received.told == [(200, ""), (200, ""), (400, MALFORMED)]
    assert b"alive" in received.replies[0].body
    assert b"models" in received.replies[1].body
    assert received.closed


def test_a_bad_body_after__good_requests_is_refused_after_their_answers(target: Target) -> None:
    received = talk(target.port, get(b"/livez") + HEAD + CHUNKED + b"\r\nzz\r\n")
    assert received.told == [(200, ""), (400, MALFORMED)]
    assert received.closed
    assert target.appended == 0


def test_a_thousand_pipelined_requests_are_answered_in_order_up_to_it(target: Target) -> None:
    count = target.front.bounds.pipelined_max
    rows = [post(b'{"features":{"a":1},"label":1,"event_id":"%d"}' % i) for i in range(1000)]
    received = talk(target.port, b"".join(rows))
    assert received.told == [(202, "")] * (count + 1) + [(503, "pipeline_full")]
    assert [b'"seq":%d,' % (target.logged + i + 1) in reply.body for i, reply in enumerate(received.replies[:-1])] == [True] * (
        count + 1
    )
    assert received.closed
    assert target.appended == count + 1


def test_as_many_as_the_bound_are_answered_and_the_connection_is_kept(target: Target) -> None:
    count = target.front.bounds.pipelined_max
    received = talk(target.port, get(b"/livez") * (count + 1), silence_s=0.4, awaited=count + 1)
    assert received.told == [(200, "")] * (count + 1)
    assert not received.closed


def test_asking_for_another_protocol_without_a_body_is_answered_in_this_one(target: Target) -> None:
    received = talk(
        target.port, get(b"/livez", b"Connection: Upgrade", b"Upgrade: websocket") + get(b"/models"), silence_s=0.3, awaited=2
    )
    assert received.told == [(200, ""), (200, "")]


def test_the_body_of_a_request_that_was_answered_early_is_not_read_as_a_request(target: Target) -> None:
    received = talk(target.port, post(SMUGGLED, path=b"/models/none/observe") + get(b"/livez"), silence_s=0.3, awaited=2)
    assert received.told == [(404, "model_not_found"), (200, "")]
    assert target.appended == 0


def test_a_connection_closed_by_the_request_reads_no_further_one(target: Target) -> None:
    received = talk(target.port, get(b"/livez", b"Connection: close") + SMUGGLED)
    assert received.told == [(200, "")]
    assert received.closed
    assert target.appended == 0


def test_bytes_one_by_one_are_one_request(start: Start) -> None:
    target = start()
    received = talk(target.port, *(bytes([byte]) for byte in post(ROW)), silence_s=0.3)
    assert received.told == [(202, "")]
