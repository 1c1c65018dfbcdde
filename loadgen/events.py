"""Server-sent events out of a byte stream that is cut anywhere."""

from __future__ import annotations

DONE = b"[DONE]"


class EventReader:
    """Feed it bytes, take the data of whole events. Lines end with LF or CRLF."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, received: bytes) -> list[bytes]:
        """The data lines that are whole now; chat completions have one per event."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]
