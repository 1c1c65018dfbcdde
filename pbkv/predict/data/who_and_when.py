"""Who&When: real logs of Magentic-One, a team led by an orchestrator. Real agents, real text.

An agent's prompt is the transcript so far, cut to the beginning of each message, since the logs
are long and a small model is short-sighted. There are few logs: read a result with that in mind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pbkv.predict.data.prompted import PromptedCall, PromptedWorkflow
from pbkv.workload.data import WorkloadDataError

LOGS_FILE = "who_and_when/who_and_when_hand_crafted.jsonl"

_SYSTEM = "You work in a team that is led by an orchestrator."
_MESSAGE_CHARACTERS = 160
_MAX_CALLS = 40


def load_logs(data_dir: Path) -> list[PromptedWorkflow]:
    """All logs of at least two calls. Raises :class:`WorkloadDataError`."""
    path = data_dir / LOGS_FILE
    try:
        lines = path.read_text().splitlines()
        logs = [_workflow(json.loads(line), index) for index, line in enumerate(lines)]
    except OSError as problem:
        raise WorkloadDataError(f"cannot read {path}: {problem.strerror}") from None
    except (KeyError, TypeError, ValueError) as problem:
        raise WorkloadDataError(f"{path}: not a Who&When log: {problem!r}") from None
    return [log for log in logs if len(log.calls) >= 2]


def _workflow(record: dict[str, Any], index: int) -> PromptedWorkflow:
    history = record["history"]
    question = _cut(history[0]["content"])
    calls: list[PromptedCall] = []
    said = ""
    for message in history[1:]:
        # "Orchestrator (thought)" and "Orchestrator (-> WebSurfer)" are calls of one agent.
        agent = str(message["role"]).partition(" (")[0]
        calls.append(PromptedCall(agent, said, f"{agent}:"))
        said = f"{agent}: {_cut(message['content'])}\n"
    return PromptedWorkflow(
        f"who-and-when-{index}", _SYSTEM, f"Task: {question}\n", tuple(calls[:_MAX_CALLS])
    )


def _cut(text: str) -> str:
    return " ".join(text.split())[:_MESSAGE_CHARACTERS]
