"""Pins and lifecycle of workflows in Redis, each change by one atomic script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import orjson
from redis.asyncio import Redis

from pbkv.events import WorkflowEvent
from pbkv.keys import PREFIX, events_key, workflow_key

MAX_AGENTS = 64
"""Distinct agents that are remembered by name of one workflow."""

_SCAN_COUNT = 250
_SUMMARY = ("state", "replica", "agents", "last_seen")
_GLOB_SPECIAL = str.maketrans({c: f"\\{c}" for c in "*?[]^\\-"})


def pins_key(replica_id: str) -> str:
    """Sorted set: active workflows pinned to a replica, by the time at which silence ends them."""
    return f"{PREFIX}pins:{replica_id}"


@dataclass(frozen=True, slots=True)
class WorkflowKey:
    """A workflow of a tenant. ``engine_id`` is how engines and event streams call it."""

    tenant: str
    workflow_id: str

    @property
    def engine_id(self) -> str:
        return f"{self.tenant}:{self.workflow_id}"


@dataclass(slots=True)
class LocalPin:
    """What one router remembers of one workflow; ``replicas`` maps a model to the pinned replica.

    ``seq``, ``epoch`` and ``step`` never go back.
    """

    replicas: dict[str, str] = field(default_factory=dict)
    replica: str = ""
    epoch: int = 0
    state: str = "active"
    agent: str = ""
    step: int = 0
    seq: int = 0
    created_at_s: float = 0.0
    last_seen_s: float = 0.0
    agents: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PinRequest:
    """A call (or with ``counts`` False an explicit start or a second try) that needs a replica.

    ``down`` are replicas out of reach, ``trusted`` those that serve without an entry in Redis.
    """

    key: WorkflowKey
    agent: str
    model: str
    down: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()
    counts: bool = True
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class PinAnswer:
    """Where the call goes. ``moved_for`` is the reason of a move, "" without one.

    ``url``, ``state`` and ``model`` are the replica's, empty when its entry is not in Redis.
    """

    replica_id: str
    url: str
    state: str
    model: str
    epoch: int
    step: int
    seq: int
    pinned_now: bool
    moved_for: str


class PinStore:
    """The scripts of this package, and what they wrote. Raises redis-py's errors."""

    def __init__(self, client: Redis, *, idle_timeout_s: float, max_stream_events: int) -> None:
        self._client = client
        self._idle_ms = int(idle_timeout_s * 1000)
        self._max_events = max_stream_events
        self._pin = client.register_script(_script("pin"))
        self._end = client.register_script(_script("end"))
        self._usage = client.register_script(_script("usage"))
        self._merge = client.register_script(_script("merge"))

    async def pin(
        self, request: PinRequest, candidates: Sequence[str], known: LocalPin | None
    ) -> PinAnswer | None:
        """Take a step; ``candidates`` are replicas for a new pin, best first.

        None when no replica is usable, nothing is written then.
        """
        argument = {
            "prefix": PREFIX,
            "workflow": request.key.engine_id,
            "agent": request.agent,
            "model": request.model,
            "calls": int(request.counts),
            "idle_ms": self._idle_ms,
            "max_events": self._max_events,
            "candidates": list(candidates),
            "known": known.replicas.get(request.model, "") if known else "",
            "floor_seq": known.seq if known else 0,
            "floor_step": known.step if known else 0,
            "floor_epoch": known.epoch if known else 0,
            "created_at": f"{known.created_at_s:.6f}" if known else "",
            "down": dict.fromkeys(request.down, True),
            "trusted": dict.fromkeys(request.trusted, True),
            "metadata": request.metadata,
        }
        answer: Any = await self._pin(keys=[_key(request.key)], args=[orjson.dumps(argument)])
        if not answer:
            return None
        replica_id, url, state, model, epoch, step, seq, pinned_now, moved_for = answer
        return PinAnswer(
            replica_id, url, state, model, epoch, step, int(seq), bool(pinned_now), moved_for
        )

    async def end(
        self, key: WorkflowKey, agent: str, known: LocalPin | None, *, call_seq: int = 0
    ) -> int | None:
        """Terminate; the event's seq, or None when there was nothing to end.

        ``call_seq`` is the seq of the call that ends the workflow: a later call keeps it alive.
        """
        argument = {
            "prefix": PREFIX,
            "workflow": key.engine_id,
            "agent": agent,
            "idle_ms": self._idle_ms,
            "max_events": self._max_events,
            "call_seq": call_seq,
            "floor_seq": known.seq if known else 0,
            "known": sorted(set(known.replicas.values())) if known else [],
        }
        seq: Any = await self._end(keys=[_key(key)], args=[orjson.dumps(argument)])
        return int(seq) if seq else None

    async def add_usage(
        self, key: WorkflowKey, prompt_tokens: int, cached_tokens: int, completion_tokens: int
    ) -> None:
        """Add the tokens of one finished answer."""
        counts = [prompt_tokens, cached_tokens, completion_tokens]
        await self._usage(keys=[_key(key)], args=[*counts, self._idle_ms, PREFIX, key.engine_id])

    async def merge(self, key: WorkflowKey, pin: LocalPin) -> None:
        """Tell what was decided while Redis was away; a later word in Redis stands."""
        argument = {
            "prefix": PREFIX,
            "workflow": key.engine_id,
            "agent": pin.agent,
            "pins": pin.replicas,
            "replica": pin.replica,
            "epoch": pin.epoch,
            "state": pin.state,
            "step": pin.step,
            "seq": str(pin.seq),
            "created_at": f"{pin.created_at_s:.6f}",
            "last_seen": f"{pin.last_seen_s:.6f}",
            "agents": pin.agents,
            "idle_ms": self._idle_ms,
        }
        await self._merge(keys=[_key(key)], args=[orjson.dumps(argument)])

    async def publish(self, replica_id: str, event: WorkflowEvent) -> None:
        """Append one event to a replica's stream."""
        stream = events_key(replica_id)
        async with self._client.pipeline(transaction=True) as pipe:
            fields: dict[Any, Any] = dict(event.to_fields())
            pipe.xadd(stream, fields, maxlen=self._max_events, approximate=True)
            pipe.pexpire(stream, 2 * self._idle_ms)
            await pipe.execute()

    async def ping(self) -> None:
        """Whether Redis answers."""
        await self._client.execute_command("PING")

    async def read(self, key: WorkflowKey) -> dict[str, str] | None:
        """The workflow's hash, None for one that is not known."""
        fields: Any = await self._client.hgetall(_key(key))
        return fields or None

    async def read_many(self, keys: Sequence[WorkflowKey]) -> list[dict[str, str]]:
        """The hashes of ``keys``, empty for what is not known any more."""
        async with self._client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hgetall(_key(key))
            found: list[dict[str, str]] = await pipe.execute()
        return found

    async def scan(self, tenant: str) -> AsyncIterator[tuple[WorkflowKey, Mapping[str, str]]]:
        """A tenant's workflows in no order, each with what is needed to choose among them.

        Reading whole hashes of thousands would hold up every stream of this router.
        """
        prefix = workflow_key(tenant, "")
        pattern = prefix.translate(_GLOB_SPECIAL) + "*"
        cursor = 0
        seen: set[str] = set()
        while True:
            found: Any = await self._client.scan(cursor, match=pattern, count=_SCAN_COUNT)
            cursor, keys = found
            fresh: list[str] = [key for key in keys if key not in seen]
            seen.update(fresh)
            async with self._client.pipeline(transaction=False) as pipe:
                for key in fresh:
                    pipe.hmget(key, _SUMMARY)
                for key, values in zip(fresh, await pipe.execute(), strict=True):
                    if values[0] is not None:
                        summary = {n: v for n, v in zip(_SUMMARY, values, strict=True) if v}
                        yield WorkflowKey(tenant, key.removeprefix(prefix)), summary
            if cursor == 0:
                return


def _key(key: WorkflowKey) -> str:
    return workflow_key(key.tenant, key.workflow_id)


def _script(name: str) -> str:
    return resources.files("router").joinpath("lua", f"{name}.lua").read_text("utf-8")
