"""Where a new workflow goes: filter, score in [0, 1], pick."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from router.replica import Replica

_PINS_WEIGHT = 0.5
_KV_WEIGHT = 0.5

_FEW_PINS = 8
"""Counts below this are compared with it, not with each other: 1 pin against 0 is no imbalance."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A replica and the number of active workflows pinned to it."""

    replica: Replica
    pinned: int


def rank(
    candidates: Iterable[Candidate], *, model: str, workflow: str, exclude: frozenset[str]
) -> list[Replica]:
    """Replicas that may take the new ``workflow``, best first.

    Deterministic; equal scores are ordered by rendezvous hashing, which spreads workflows and on
    which routers agree without talking.
    """
    fit = [c for c in candidates if _fits(c.replica, model, exclude)]
    most_pins = max((c.pinned for c in fit), default=0)
    fit.sort(key=lambda c: (-score(c, most_pins), -rendezvous(workflow, c.replica.id)))
    return [c.replica for c in fit]


def rank_by_hash(
    replicas: Iterable[Replica], *, model: str, workflow: str, exclude: frozenset[str]
) -> list[Replica]:
    """The same by rendezvous hashing alone: while Redis is away, routers see different loads and
    would disagree on a score.
    """
    fit = [replica for replica in replicas if _fits(replica, model, exclude)]
    fit.sort(key=lambda replica: -rendezvous(workflow, replica.id))
    return fit


def score(candidate: Candidate, most_pins: int) -> float:
    """1 for an empty replica, 0 for one with the most pins and all its KV pool active."""
    pins = candidate.pinned / max(most_pins, _FEW_PINS)
    return 1.0 - _PINS_WEIGHT * min(1.0, pins) - _KV_WEIGHT * candidate.replica.active_fraction


def rendezvous(workflow: str, replica_id: str) -> int:
    """Weight of a replica for a workflow (highest random weight hashing)."""
    digest = blake2b(f"{workflow}\0{replica_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def _fits(replica: Replica, model: str, exclude: frozenset[str]) -> bool:
    return replica.state == "ready" and replica.model == model and replica.id not in exclude
