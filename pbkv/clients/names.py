"""Names as a router takes them: printable, no space at their ends, not too long."""

from __future__ import annotations

MAX_WORKFLOW_CHARS = 256
MAX_AGENT_CHARS = 128


def sendable(text: str, limit: int) -> str:
    """``text`` made a name; empty if nothing of it is left."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.strip()[:limit].strip()
