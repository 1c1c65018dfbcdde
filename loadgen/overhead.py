"""What the load generator itself costs: its lateness and its error, against known times."""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from loadgen.arrivals import ArrivalKind, Arrivals
from loadgen.errors import TargetUnusable
from loadgen.measure import LoadPlan, measure
from loadgen.open_files import allow_streams
from loadgen.records import RunRecords
from loadgen.run import Pace
from loadgen.source import Source
from loadgen.target import Target
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment

CALLS = 4
"""Calls of one workflow."""

TARGET_LAG_MS = 50.0

_TTFT_SHARE = 0.1
_CHUNKS = 8
_PROMPT_TOKENS = 1000


async def measure_overhead(concurrency: int, rate: float, duration_s: float) -> dict[str, Any]:
    """One row. ``concurrency`` workflows stream at a time at ``rate`` calls a second, because each
    call lasts ``concurrency / rate`` seconds; ``duration_s`` is how long workflows keep arriving.

    Raises :class:`TargetUnusable` if the endpoint did not start, or for too few open files.
    """
    if missing := allow_streams(concurrency):
        raise TargetUnusable(
            f"{concurrency} streams need {missing} more open files than the limit (ulimit -n)"
        )
    call_s = concurrency / rate
    ttft_s = _TTFT_SHARE * call_s
    gap_s = (call_s - ttft_s) / (_CHUNKS - 1)
    count = round(rate / CALLS * duration_s)
    async with _endpoint(ttft_s, gap_s) as url:
        plan = LoadPlan(
            source=Source("overhead", tuple(_script(index) for index in range(count))),
            target=Target.of(url, model="calibration"),
            pace=Pace(None),
            arrivals=Arrivals(ArrivalKind.POISSON, rate=rate / CALLS),
            prefix="overhead",
        )
        before = resource.getrusage(resource.RUSAGE_SELF)
        measured = await measure(plan)
        after = resource.getrusage(resource.RUSAGE_SELF)
    if not measured.records.calls:
        raise TargetUnusable("stopped before a call was made")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _row(measured.records, concurrency, rate, duration_s, ttft_s, cpu_s)


def verdict(row: Mapping[str, Any]) -> str:
    """What the row says, for someone who sees it for the first time."""
    lag_ms = row["lag_p99_ms"]
    said = (
        f"99 % of the calls left within {lag_ms:.1f} ms of the time they were due (lag p99); the "
        f"target is {TARGET_LAG_MS:.0f} ms"
    )
    if row["steady_calls_per_s"] is None:
        said += f". The run was too short for {row['concurrency']} streams at a time"
    if lag_ms > TARGET_LAG_MS:
        return (
            f"{said}. So the machine is too busy or too small for {row['rate']:g} calls a second."
        )
    share = f"{row['cpu_share']:.0%} of one core".replace("%", " %")
    return f"{said}. So times measured at this rate are the endpoint's own; it took {share}."


def _row(
    records: RunRecords,
    concurrency: int,
    rate: float,
    duration_s: float,
    ttft_s: float,
    cpu_s: float,
) -> dict[str, Any]:
    lags_ms = 1000 * np.array([call.lag_s for call in records.calls])
    # Full once the first workflows end, until no more arrive; a short run is never full.
    full_s = CALLS * concurrency / rate
    steady_s = duration_s - full_s
    in_steady = sum(full_s <= call.sent_s < duration_s for call in records.calls)
    errors_ms = [1000 * (call.ttft_s - ttft_s) for call in records.calls if call.ttft_s is not None]
    return {
        "concurrency": concurrency,
        "rate": rate,
        "calls": len(records.calls),
        "errors": sum(call.error is not None for call in records.calls),
        "peak_streams": _peak(records),
        "steady_calls_per_s": in_steady / steady_s if steady_s > 0 else None,
        "lag_p50_ms": float(np.quantile(lags_ms, 0.5)),
        "lag_p99_ms": float(np.quantile(lags_ms, 0.99)),
        "lag_max_ms": float(lags_ms.max()),
        "ttft_error_mean_ms": statistics.mean(errors_ms) if errors_ms else None,
        "cpu_share": cpu_s / records.duration_s,
    }


def _peak(records: RunRecords) -> int:
    changes = sorted(
        [(call.sent_s, 1) for call in records.calls]
        + [(call.finished_s, -1) for call in records.calls]
    )
    level = peak = 0
    for _, change in changes:
        level += change
        peak = max(peak, level)
    return peak


def _script(index: int) -> ScriptedWorkflow:
    call = ScriptedCall("Agent", "c", (Segment("overhead/added", 50),), (), _CHUNKS)
    held = (Segment("overhead/system", 100), Segment("overhead/held", _PROMPT_TOKENS))
    return ScriptedWorkflow(f"w{index}", {"c": held}, (call,) * CALLS)


@asynccontextmanager
async def _endpoint(ttft_s: float, gap_s: float) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "loadgen.calibration",
        str(ttft_s),
        str(gap_s),
        str(_CHUNKS),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        if not url:
            raise TargetUnusable("the calibration endpoint did not start")
        yield url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
