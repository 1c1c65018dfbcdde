"""One engine replica, as its entry in Redis describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Replica(BaseModel):
    """What a replica says of itself. Fields as in ``pbkv:replica:{id}``; unknown ones are left out.

    Raises pydantic's ``ValidationError`` for an entry that cannot be routed to.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(min_length=1)
    url: str
    state: Literal["starting", "ready", "draining"]
    model: str = Field(min_length=1)
    epoch: int = 0
    kv_tokens_total: int = 0
    kv_tokens_used: int = 0
    kv_tokens_active: int = 0
    kv_tokens_retired: int = 0
    workflows: int = 0
    running_requests: int | None = None
    queued_requests: int | None = None
    forecast_accuracy: float | None = None
    """Top-1, of the next agent; None without a predictor."""
    hit_rate: float = 0.0
    updated_at: float = 0.0

    @field_validator("url")
    @classmethod
    def _base_url(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return url.rstrip("/")

    @classmethod
    def from_hash(cls, replica_id: str, fields: Mapping[str, str]) -> Replica:
        """Read the entry of ``replica_id``."""
        return cls.model_validate({**fields, "id": replica_id})

    @property
    def serving(self) -> bool:
        """Whether it answers requests: a draining one still does, for its own workflows."""
        return self.state in ("ready", "draining")

    @property
    def active_fraction(self) -> float:
        """Share of the KV pool that active workflows hold, 0 to 1."""
        if self.kv_tokens_total <= 0:
            return 0.0
        return min(1.0, max(0.0, self.kv_tokens_active / self.kv_tokens_total))
