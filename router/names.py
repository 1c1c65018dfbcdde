"""What a workflow id and an agent name may look like."""

from __future__ import annotations

MAX_WORKFLOW_CHARS = 256
MAX_AGENT_CHARS = 128


def name_problem(value: str, limit: int) -> str | None:
    """Why ``value`` is no name, in words that follow the field's name; None if it is one."""
    if not value:
        return "is empty"
    if len(value) > limit:
        return f"has {len(value)} characters; the limit is {limit}"
    if not value.isprintable():
        return "has characters that cannot be printed"
    if value[0].isspace() or value[-1].isspace():
        # HTTP strips them from header values, so such a name could not be sent back.
        return "begins or ends with a space"
    return None
