"""Hidden states as a replica leaves them: Parquet shards, joined to traces by request id.

A shard is named ``hidden-{replica}-{started_ms}-{number}.parquet`` and appears whole. Its rows are
(request_id, workflow, hidden_state); ``workflow`` is the id that engines use, tenant included. The
metadata of a shard says which state of the model its rows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbkv.errors import InvalidTrace
from pbkv.hidden_source import POST_NORM
from pbkv.trace.call import TracedCall
from pbkv.trace.parquet import HIDDEN_STATE, SOURCE_KEY, pyarrow, read_source
from pbkv.trace.record import InvocationRecord, RecordKind
from pbkv.trace.whole_file import whole_file

MAX_SHARDS = 4_096
"""Shards that a replica keeps however small they are."""

_PATTERN = "hidden-*.parquet"
_COLUMNS = ["request_id", "workflow", HIDDEN_STATE]


@dataclass(frozen=True, slots=True, eq=False)
class StoredState:
    """One hidden state, (D,) float32, whose it is, and which state of the model."""

    request_id: str
    workflow_id: str
    hidden_state: NDArray[np.float32]
    source: str = POST_NORM


class ShardFolder:
    """The shards of one replica in a folder that others may share.

    The replica's shards together take at most ``max_bytes``: beyond that its oldest go, those of
    its earlier lives first. The newest always stays.
    """

    def __init__(
        self,
        folder: Path,
        replica: str,
        started_ms: int,
        *,
        max_bytes: int,
        source: str = POST_NORM,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        # Replica ids may hold what a file name or a pattern must not.
        self._replica = "".join(c if c.isalnum() or c in "._" else "_" for c in replica) or "local"
        self._started_ms = started_ms
        self._max_bytes = max_bytes
        self._source = source
        self._number = 0

    def add(self, states: Sequence[StoredState]) -> Path:
        """Write one shard and drop what is too much. Raises OSError."""
        pa = pyarrow()
        self._number += 1
        name = f"hidden-{self._replica}-{self._started_ms:013d}-{self._number:06d}.parquet"
        path = self._folder / name
        table = pa.table(
            {
                "request_id": [state.request_id for state in states],
                "workflow": [state.workflow_id for state in states],
                HIDDEN_STATE: pa.array(
                    [state.hidden_state for state in states], pa.list_(pa.float32())
                ),
            }
        )
        table = table.replace_schema_metadata({SOURCE_KEY: self._source.encode()})
        with whole_file(path) as partial:
            pa.parquet.write_table(table, partial, compression="zstd")
        self._shrink()
        return path

    def _shrink(self) -> None:
        shards = sorted(self._folder.glob(f"hidden-{self._replica}-*.parquet"), reverse=True)
        kept_bytes = 0
        for index, shard in enumerate(shards):
            kept_bytes += shard.stat().st_size
            if index >= MAX_SHARDS or (index > 0 and kept_bytes > self._max_bytes):
                shard.unlink()


def read_states(folder: Path) -> Iterator[StoredState]:
    """All hidden states in a folder, oldest shard of each replica first.

    Raises :class:`InvalidTrace` for a folder without shards and for a shard that cannot be read.
    """
    pa = pyarrow()
    shards = sorted(folder.glob(_PATTERN))
    if not shards:
        raise InvalidTrace(f"{folder} holds no hidden states ({_PATTERN})")
    for shard in shards:
        try:
            with pa.parquet.ParquetFile(shard) as file:
                source = read_source(file)
                for batch in file.iter_batches(batch_size=256, columns=_COLUMNS):
                    yield from _states(batch, source)
        except FileNotFoundError:
            # Its replica dropped it for a newer one.
            continue
        except (OSError, KeyError, pa.ArrowException):
            raise InvalidTrace(f"{shard} is not a shard of hidden states, or damaged") from None


def join(
    records: Iterable[InvocationRecord], states: Iterable[StoredState]
) -> Iterator[TracedCall]:
    """Every record once: with its hidden state in the order of ``states``, then those without.

    Records are held in memory, states are not. A state whose record is not there is left out.
    """
    waiting: dict[tuple[str, str], list[InvocationRecord]] = {}
    without: list[InvocationRecord] = []
    for record in records:
        if record.kind is RecordKind.CALL and record.request_id:
            waiting.setdefault((record.request_id, record.workflow_id), []).append(record)
        else:
            without.append(record)
    for state in states:
        for record in waiting.pop((state.request_id, state.workflow_id), ()):
            yield TracedCall(record, state.hidden_state, state.source)
    for unmatched in waiting.values():
        without += unmatched
    for record in without:
        yield TracedCall(record)


def _states(batch: Any, source: str) -> Iterator[StoredState]:
    column = batch.column(HIDDEN_STATE)
    names = zip(
        batch.column("request_id").to_pylist(), batch.column("workflow").to_pylist(), strict=True
    )
    for index, (request_id, workflow_id) in enumerate(names):
        values = column[index].values.to_numpy(zero_copy_only=False)
        yield StoredState(request_id, workflow_id, np.array(values, dtype=np.float32), source)
