"""Runs workflows in the process of the programs and takes their calls from it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from loadgen.errors import BadLoad
from loadgen.programs.wire import FRAMEWORKS, ProgramPlan
from loadgen.records import CallRecord, ErrorKind, WorkflowState

_MODULES = {"langgraph": "langgraph", "autogen": "autogen_agentchat", "crewai": "crewai"}
_ROOT = Path(__file__).parents[2]
_END_S = 15.0
_MAX_LINE = 2**20
_KEPT_BYTES = 2000
_GONE = {"state": "failed", "detail": "the programs' process ended"}


def agents_python(workload: str, named: str = "") -> str:
    """The Python in which the workload's framework is installed: the one that is named, this one,
    or that of ``.venv-agents``. Raises :class:`BadLoad`."""
    if workload not in FRAMEWORKS:
        raise BadLoad(f"the workload {workload!r} is no program; leave --framework out")
    if named:
        return named
    if importlib.util.find_spec(_MODULES[FRAMEWORKS[workload]]) is not None:
        return sys.executable
    python = _ROOT / ".venv-agents" / "bin" / "python"
    if python.exists():
        return str(python)
    raise BadLoad(
        f"{FRAMEWORKS[workload]} is not installed: make agents, or name a Python that has it with "
        "--agents-python"
    )


class ProgramRunner:
    """A :class:`loadgen.run.WorkflowRunner`; made by :func:`open_programs`."""

    def __init__(
        self, process: asyncio.subprocess.Process, prefix: str, clock: Callable[[], float]
    ) -> None:
        self._process = process
        self._prefix = prefix
        self._clock = clock
        self._records: dict[int, Callable[[CallRecord], None]] = {}
        self._ended: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._gone = False

    async def __call__(
        self, index: int, due_s: float, record: Callable[[CallRecord], None]
    ) -> tuple[str, WorkflowState]:
        ended = self._ended[index] = asyncio.get_running_loop().create_future()
        seen: list[CallRecord] = []

        def noted(call: CallRecord) -> None:
            seen.append(call)
            record(call)

        self._records[index] = noted
        if self._gone:
            self._settle(index, _GONE)
        self._tell({"start": index})
        try:
            told = await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._tell({"cancel": index})
            with suppress(TimeoutError):
                await asyncio.wait_for(ended, _END_S)
            told = {"state": "cut", "detail": ""}
        state = WorkflowState(told["state"])
        workflow_id = seen[0].workflow_id if seen else f"{self._prefix}-{index}"
        if state is WorkflowState.FAILED and not any(call.error for call in seen):
            record(self._program_failure(workflow_id, len(seen) + 1, due_s, told["detail"]))
        return workflow_id, state

    async def listen(self) -> None:
        """Take what the programs tell until they are gone."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            if "call" in told:
                record = self._records.get(told["index"])
                if record is not None:
                    record(self._call(told["call"]))
            elif "ended" in told:
                self._settle(told["ended"], told)
        # Workflows that start from now on would wait for ever.
        self._gone = True
        for index in list(self._ended):
            self._settle(index, _GONE)

    def _settle(self, index: int, told: dict[str, Any]) -> None:
        ended = self._ended.pop(index, None)
        if ended is not None and not ended.done():
            ended.set_result(told)

    def _call(self, fields: dict[str, Any]) -> CallRecord:
        """Its times on the clock of the run."""
        shift_s = self._clock() - time.perf_counter()
        call = CallRecord(**fields)
        first_s = call.first_token_s
        return replace(
            call,
            due_s=call.due_s + shift_s,
            sent_s=call.sent_s + shift_s,
            finished_s=call.finished_s + shift_s,
            first_token_s=None if first_s is None else first_s + shift_s,
            error=None if call.error is None else ErrorKind(call.error),
        )

    def _program_failure(
        self, workflow_id: str, step: int, due_s: float, detail: str
    ) -> CallRecord:
        now_s = self._clock()
        return CallRecord(
            workflow_id, "", step, due_s, now_s, now_s, error=ErrorKind.PROGRAM, detail=detail
        )

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        _write_line(self._process.stdin, message)


@asynccontextmanager
async def open_programs(
    python: str, plan: ProgramPlan, clock: Callable[[], float], ca_file: Path | None = None
) -> AsyncIterator[ProgramRunner]:
    """The process, ready to run workflows. Raises :class:`BadLoad` if it cannot be."""
    trusted = {"SSL_CERT_FILE": str(ca_file)} if ca_file else {}
    try:
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            "loadgen.programs.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **trusted, "PYTHONPATH": str(_ROOT)},
            limit=_MAX_LINE,
        )
    except OSError as problem:
        raise BadLoad(f"cannot run {python}: {problem.strerror}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = asyncio.create_task(_last_line(process.stderr))
    listening: asyncio.Task[None] | None = None
    try:
        _write_line(process.stdin, asdict(plan))
        first = await process.stdout.readline()
        if not first.startswith(b"{"):
            _close(process.stdin)
            why = await complaints or "it said nothing"
            raise BadLoad(f"{python} cannot run the programs: {why}")
        told = json.loads(first)
        if "problem" in told:
            raise BadLoad(f"{FRAMEWORKS[plan.workload]}: {told['problem']}")
        runner = ProgramRunner(process, plan.prefix, clock)
        listening = asyncio.create_task(runner.listen())
        yield runner
    finally:
        _close(process.stdin)
        try:
            await asyncio.wait_for(process.wait(), _END_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        await complaints
        if listening is not None:
            await listening


async def _last_line(errors: asyncio.StreamReader) -> str:
    """What a process said last before it ended. The rest is dropped: frameworks say a lot."""
    last = b""
    while received := await errors.read(2**16):
        last = (last + received)[-_KEPT_BYTES:]
    lines = last.decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""


def _write_line(pipe: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    # A process that is gone is noticed where its answers are read.
    with suppress(OSError, RuntimeError):
        if not pipe.is_closing():
            pipe.write(json.dumps(message).encode() + b"\n")


def _close(pipe: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeError):
        pipe.close()
