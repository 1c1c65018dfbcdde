"""The checkpoint of a Markov predictor: its vocabulary and its counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pbkv.predict.checkpoint import Checkpoint

FAMILY = "markov"
MAX_ORDER = 3

START = -1
"""Stands before the first call, so that the begin of a workflow is a context of its own."""

Column = Annotated[int, Field(ge=0)]
Count = Annotated[float, Field(gt=0)]
Mean = Annotated[float, Field(ge=0)]


class ContextCounts(BaseModel):
    """What came after one context: per step, the counts of the columns that have any.

    ``context`` holds columns of the vocabulary, where 0 is the unknown agent, or :data:`START`.
    In ``steps`` column 0 is END and the agents follow, one further on.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    context: list[Annotated[int, Field(ge=START)]]
    steps: list[list[tuple[Column, Count]]]


class MarkovCheckpoint(Checkpoint):
    """``agents`` are the columns of the vocabulary from 1 on.

    ``calls_to_come`` holds, by column, how many calls were seen and how many came after one.
    """

    order: Annotated[int, Field(ge=1, le=MAX_ORDER)]
    steps: Annotated[int, Field(ge=1)]
    smoothing: Annotated[float, Field(gt=0)]
    agents: list[str]
    counts: list[ContextCounts]
    calls_to_come: list[tuple[Column, Count, Annotated[float, Field(ge=0)]]] = Field(
        default_factory=list
    )

    @model_validator(mode="after")
    def _fits_together(self) -> MarkovCheckpoint:
        if len(set(self.agents)) != len(self.agents):
            raise ValueError("an agent is named twice")
        agents = len(self.agents) + 1
        if any(column >= agents for column, _, _ in self.calls_to_come):
            raise ValueError("calls_to_come tells of an agent that is not named")
        for entry in self.counts:
            if len(entry.context) > self.order or any(call >= agents for call in entry.context):
                raise ValueError(f"context {entry.context} does not fit order and agents")
            if len(entry.steps) != self.steps:
                raise ValueError(f"context {entry.context} has counts of another number of steps")
            if any(column > agents for step in entry.steps for column, _ in step):
                raise ValueError(f"context {entry.context} counts an agent that is not named")
        return self
