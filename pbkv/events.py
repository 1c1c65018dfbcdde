"""Lifecycle events of workflows and their form on the wire (a Redis stream per replica)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pbkv.errors import InvalidEvent
from pbkv.invocation import MAX_NAME_CHARS, Invocation


class EventKind(StrEnum):
    """What happened to a workflow."""

    START = "start"
    INVOKE = "invoke"
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class WorkflowEvent:
    """One lifecycle event.

    ``seq`` is on the same axis as :attr:`Invocation.seq`: of two events of one workflow the larger
    was issued later, whatever order they arrive in. None means "now", after all that is known.
    ``at_s`` is in seconds. On the wire it is the issuer's wall clock and only informative; whoever
    applies an event first stamps it with its own clock, since silence is measured on one clock.
    """

    kind: EventKind
    workflow_id: str
    at_s: float
    agent: str = ""
    seq: int | None = None

    @classmethod
    def invoke(cls, invocation: Invocation) -> WorkflowEvent:
        """The event that a request itself is."""
        return cls(
            kind=EventKind.INVOKE,
            workflow_id=invocation.workflow_id,
            at_s=invocation.at_s,
            agent=invocation.agent,
            seq=invocation.seq,
        )

    def to_fields(self) -> dict[str, str]:
        """Fields of the stream entry."""
        fields = {
            "kind": self.kind.value,
            "workflow": self.workflow_id,
            "agent": self.agent,
            "at": repr(self.at_s),
        }
        if self.seq is not None:
            fields["seq"] = str(self.seq)
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> WorkflowEvent:
        """Read a stream entry. Raises :class:`InvalidEvent` with a one-line reason."""
        try:
            kind = EventKind(fields["kind"])
            workflow_id = fields["workflow"]
            at_s = float(fields.get("at", "0"))
            seq = int(fields["seq"]) if "seq" in fields else None
        except KeyError as missing:
            raise InvalidEvent(f"event has no field {missing}") from None
        except ValueError as bad:
            raise InvalidEvent(f"event has a malformed field: {str(bad)[:80]}") from None
        if not workflow_id or len(workflow_id) > MAX_NAME_CHARS:
            raise InvalidEvent(
                f"event has a workflow id of {len(workflow_id)} characters; 1 to {MAX_NAME_CHARS}"
            )
        return cls(kind, workflow_id, at_s, fields.get("agent", ""), seq)
