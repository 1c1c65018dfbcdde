"""The results file: rows for other tools, and the samples that ``compare`` draws from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from loadgen.errors import BadLoad
from loadgen.records import CallRecord, ErrorKind, RunRecords, WorkflowRecord, WorkflowState
from loadgen.summary import rows, transitions, ttfts

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Results:
    """What ``compare`` needs of one file: samples of the measured part, and how they were made."""

    name: str
    workload: str
    workflow_latencies_s: tuple[float, ...]
    ttfts_s: tuple[float, ...]
    tokens: tuple[tuple[int, int], ...]
    """(cached, prompt) of every workflow."""
    records: RunRecords
    """All of the run, its warm-up included."""
    environment: Mapping[str, Any]
    command: tuple[str, ...]


def write_results(
    path: Path,
    records: RunRecords,
    *,
    command: Sequence[str],
    environment: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> None:
    """Write it whole or not at all. Raises OSError."""
    content = {
        "schema": SCHEMA,
        "command": list(command),
        "environment": dict(environment),
        "rows": rows(records),
        "transitions": transitions(records),
        "notes": list(notes),
        "workflows": [asdict(workflow) for workflow in records.workflows],
        "calls": [asdict(call) for call in records.calls],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    partial.replace(path)


def read_results(path: Path) -> Results:
    """Read what :func:`write_results` wrote. Raises :class:`BadLoad`."""
    try:
        content = orjson.loads(path.read_bytes())
        if content["schema"] != SCHEMA:
            raise BadLoad(f"{path}: schema {content['schema']}; this version reads {SCHEMA}")
        return _results(path, content)
    except OSError as problem:
        raise BadLoad(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BadLoad(f"{path} holds no results of pbkv load run: {problem!r}"[:200]) from None


def _results(path: Path, content: Mapping[str, Any]) -> Results:
    records = RunRecords(
        [_call(fields) for fields in content["calls"]],
        [_workflow(fields) for fields in content["workflows"]],
        float(content["rows"][0]["duration_s"]),
    )
    measured = records.measured()
    tokens: dict[str, list[int]] = {}
    for call in measured.calls:
        if call.error is None and call.prompt_tokens is not None and call.cached_tokens is not None:
            sums = tokens.setdefault(call.workflow_id, [0, 0])
            sums[0] += call.cached_tokens
            sums[1] += call.prompt_tokens
    finished = [w for w in measured.workflows if w.state is WorkflowState.FINISHED]
    environment = content["environment"]
    return Results(
        name=str(environment.get("name") or path.stem),
        workload=str(environment.get("workload", "")),
        workflow_latencies_s=tuple(workflow.latency_s for workflow in finished),
        ttfts_s=tuple(ttfts(measured.calls)),
        tokens=tuple((cached, prompt) for cached, prompt in tokens.values()),
        records=records,
        environment=environment,
        command=tuple(str(word) for word in content["command"]),
    )


def _call(fields: Mapping[str, Any]) -> CallRecord:
    error = fields["error"]
    return CallRecord(**{**fields, "error": None if error is None else ErrorKind(error)})


def _workflow(fields: Mapping[str, Any]) -> WorkflowRecord:
    return WorkflowRecord(**{**fields, "state": WorkflowState(fields["state"])})
