"""What the server refuses, as the ``Status`` that clients expect."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """Answered with ``code`` and a ``Status`` of ``reason``."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    def status(self) -> dict[str, Any]:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


def not_found(what: str) -> Refusal:
    return Refusal(404, "NotFound", f"{what} not found")


def conflict(what: str) -> Refusal:
    return Refusal(
        409, "Conflict", f"Operation cannot be fulfilled on {what}: the object has been modified"
    )


def expired() -> Refusal:
    return Refusal(410, "Expired", "too old resource version")
