"""The process of the programs: ``python -m loadgen.programs.child``, driven over its pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

# Before any framework is imported: a load test reports to no one but its user.
os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
    LANGSMITH_TRACING="false",
)

from loadgen.programs.applications import application
from loadgen.programs.observe import observe_clients
from loadgen.programs.plan import Decisions, Plan, current_plan
from loadgen.programs.wire import ProgramPlan
from loadgen.records import CallRecord, WorkflowState
from pbkv import clients
from pbkv.clients.ending import finish
from pbkv.errors import PbkvError
from pbkv.workload import ScriptedWorkflow, make_workflows

Tell = Callable[[dict[str, Any]], None]
# CrewAI works in threads: as many workflows at a time as there are.
_THREADS = 256

Application = Callable[[ScriptedWorkflow, Plan], Awaitable[str]]


async def serve(tell: Tell, lines: asyncio.StreamReader) -> None:
    """Run what is asked for until the other side closes the pipe."""
    given = ProgramPlan(**json.loads(await lines.readline()))
    try:
        scripts = make_workflows(
            given.workload,
            given.count,
            seed=given.seed,
            scale=given.scale,
            data_dir=Path(given.data_dir) if given.data_dir else None,
        )
        run_one = application(given)
    except (PbkvError, ImportError) as problem:
        tell({"problem": str(problem)[:300]})
        return
    clients.install(origins=[given.url])
    indices: dict[str, int] = {}

    def record(call: CallRecord) -> None:
        tell({"call": asdict(call), "index": indices.get(call.workflow_id, -1)})

    observe_clients(record, exact_lengths=given.exact_lengths)
    tasks: dict[int, asyncio.Task[None]] = {}
    tell({"ready": True})
    while line := await lines.readline():
        asked = json.loads(line)
        if "start" in asked:
            index = asked["start"]
            workflow_id = f"{given.prefix}-{scripts[index].workflow_id}"
            indices[workflow_id] = index
            one = _run(index, workflow_id, scripts[index], given, run_one, tell)
            tasks[index] = asyncio.create_task(one)
            tasks[index].add_done_callback(partial(_forget, tasks, index))
        elif asked["cancel"] in tasks:
            tasks[asked["cancel"]].cancel()
    for task in list(tasks.values()):
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


def _forget(tasks: dict[int, asyncio.Task[None]], index: int, task: asyncio.Task[None]) -> None:
    tasks.pop(index, None)


async def _run(
    index: int,
    workflow_id: str,
    script: ScriptedWorkflow,
    given: ProgramPlan,
    run_one: Application,
    tell: Tell,
) -> None:
    plan = Plan(script, Decisions(given.decisions), given.pause_scale)
    current_plan.set(plan)
    state, detail = WorkflowState.FINISHED, ""
    try:
        with clients.workflow(workflow_id):
            await run_one(script, plan)
    except asyncio.CancelledError:
        state = WorkflowState.CUT
    except Exception as problem:
        # Any failure of a program is a sample, not the end of the run. Its text may quote prompts.
        state, detail = WorkflowState.FAILED, type(problem).__name__
    plan.settle()
    tell({"ended": index, "state": str(state), "detail": detail})


async def main() -> None:
    """On the pipes that the load generator made."""
    # Its Ctrl-C reaches the whole group of the terminal; it tells what to cancel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # What frameworks print must not get between the lines.
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)

    loop.set_default_executor(ThreadPoolExecutor(_THREADS))
    lock = threading.Lock()

    def tell(message: dict[str, Any]) -> None:
        with lock, contextlib.suppress(BrokenPipeError):
            answers.write(json.dumps(message) + "\n")

    await serve(tell, lines)
    finish()


if __name__ == "__main__":
    asyncio.run(main())
