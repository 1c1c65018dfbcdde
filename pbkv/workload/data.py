"""Reads the real data behind the workloads from a folder that the user names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pbkv.errors import PbkvError
from pbkv.workload.hover import Claim
from pbkv.workload.swebench import SYSTEM_TOKENS, CallLength

HOVER_FILE = "hover/hover_dev_release_v1.1.json"
SWEBENCH_FILE = "swebench/call_lengths.json"

_AGENT_OF_INITIAL = {agent[0]: agent for agent in SYSTEM_TOKENS}
_MIN_CALLS = 6


class WorkloadDataError(PbkvError):
    """A data file is missing or not what it should be."""


def load_claims(data_dir: Path) -> list[Claim]:
    """HoVer's development set (``hover/hover_dev_release_v1.1.json``)."""
    records = _read(data_dir / HOVER_FILE)
    try:
        return [Claim(str(r["uid"]), str(r["claim"]), int(r["num_hops"])) for r in records]
    except (KeyError, TypeError, ValueError) as problem:
        raise WorkloadDataError(f"{data_dir / HOVER_FILE}: no HoVer claims: {problem!r}") from None


def load_call_lengths(data_dir: Path) -> list[list[CallLength]]:
    """Call lengths of real multi-agent runs on SWE-bench (``swebench/call_lengths.json``).

    Runs of fewer than six calls, which failed at once, are left out.
    """
    content = _read(data_dir / SWEBENCH_FILE)
    try:
        traces = [
            [CallLength(_AGENT_OF_INITIAL[a], int(p), int(o)) for a, p, o in trace]
            for trace in content["traces"].values()
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise WorkloadDataError(
            f"{data_dir / SWEBENCH_FILE}: no call lengths: {problem!r}"
        ) from None
    whole = [trace for trace in traces if len(trace) >= _MIN_CALLS]
    if not whole:
        raise WorkloadDataError(f"{data_dir / SWEBENCH_FILE}: no run of {_MIN_CALLS} calls or more")
    return whole


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as problem:
        raise WorkloadDataError(f"cannot read {path}: {problem.strerror}") from None
    except ValueError as problem:
        raise WorkloadDataError(f"{path} is not JSON: {problem}") from None
