"""One agent invocation: what a request says of the workflow it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pbkv.errors import InvalidInvocation

PARAMS_KEY = "pbkv"
"""Key inside the engine's ``custom_params`` under which an invocation rides."""

MAX_NAME_CHARS = 512
"""Longest workflow id (with its tenant) or agent name that is accepted, in characters."""

UNNAMED_AGENT = "default"
"""Agent of a request that names a workflow and no agent."""

_FIELDS = frozenset({"workflow", "agent", "step", "seq", "end"})


@dataclass(frozen=True, slots=True)
class Invocation:
    """One LLM call of one agent in one workflow.

    ``step`` counts the calls of the workflow from 1, 0 when unknown. ``seq`` orders calls and
    lifecycle events of one workflow: a request or event with a larger ``seq`` was issued later.
    It is None for a client that talks to the engine directly; such a call counts as the newest.
    ``end`` says that the workflow terminates with this call.
    """

    workflow_id: str
    agent: str
    at_s: float
    step: int = 0
    seq: int | None = None
    end: bool = False

    def to_params(self) -> dict[str, str | int | bool]:
        """The form that rides in ``custom_params[PARAMS_KEY]``: a dict of scalars."""
        params: dict[str, str | int | bool] = {
            "workflow": self.workflow_id,
            "agent": self.agent,
            "step": self.step,
            "end": self.end,
        }
        if self.seq is not None:
            params["seq"] = self.seq
        return params

    @classmethod
    def from_params(cls, params: Any, *, at_s: float) -> Invocation:
        """Read what :meth:`to_params` wrote.

        Raises :class:`InvalidInvocation` with a one-line reason; unknown fields are an error, so
        that a misspelt one is seen.
        """
        if not isinstance(params, Mapping):
            raise InvalidInvocation(f"{PARAMS_KEY} must be an object, got {_kind(params)}")
        unknown = sorted(str(name)[:40] for name in params if name not in _FIELDS)
        if unknown:
            raise InvalidInvocation(
                f"{PARAMS_KEY} has unknown fields {unknown}; known: {sorted(_FIELDS)}"
            )
        return cls(
            workflow_id=_name(params, "workflow"),
            agent=_name(params, "agent", default=UNNAMED_AGENT),
            at_s=at_s,
            step=_count(params, "step", default=0) or 0,
            seq=_count(params, "seq", default=None),
            end=_flag(params, "end"),
        )


def _kind(value: Any) -> str:
    return type(value).__name__


def _name(params: Mapping[str, Any], field: str, default: str | None = None) -> str:
    value = params.get(field, default)
    if value is None:
        raise InvalidInvocation(f"{PARAMS_KEY}.{field} is missing")
    if not isinstance(value, str) or not value:
        raise InvalidInvocation(
            f"{PARAMS_KEY}.{field} must be a non-empty string, got {_kind(value)}"
        )
    if len(value) > MAX_NAME_CHARS:
        raise InvalidInvocation(
            f"{PARAMS_KEY}.{field} has {len(value)} characters; the limit is {MAX_NAME_CHARS}"
        )
    return value


def _count(params: Mapping[str, Any], field: str, default: int | None) -> int | None:
    value = params.get(field, default)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInvocation(f"{PARAMS_KEY}.{field} must be a non-negative integer")
    return value


def _flag(params: Mapping[str, Any], field: str) -> bool:
    value = params.get(field, False)
    if not isinstance(value, bool):
        raise InvalidInvocation(f"{PARAMS_KEY}.{field} must be true or false, got {_kind(value)}")
    return value
