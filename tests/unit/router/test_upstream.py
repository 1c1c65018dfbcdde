"""Headers on their way to the replica."""

import pytest

from router.errors import InvalidRequest
from router.upstream import forwarded_headers


def test_hop_by_hop_headers_stay():
    headers = forwarded_headers(
        [
            (b"host", b"router"),
            (b"connection", b"keep-alive, X-Mine"),
            (b"x-mine", b"1"),
            (b"transfer-encoding", b"chunked"),
            (b"content-length", b"7"),
            (b"content-type", b"text/plain"),
            (b"accept-encoding", b"gzip"),
            (b"authorization", b"Bearer k"),
            (b"x-kept", "ü".encode()),
            (b"x-kept", b"twice"),
        ],
        drop=frozenset({"authorization"}),
    )
    assert dict(headers) == {
        "x-kept": "ü",
        "content-type": "application/json",
        "accept-encoding": "identity",
    }
    assert headers.getall("x-kept") == ["ü", "twice"]


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InvalidRequest, match="x-odd is not UTF-8"):
        forwarded_headers([(b"x-odd", b"\xff")])
