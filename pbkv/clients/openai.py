"""The plain OpenAI client, which knows no workflows: the process is one, until its end.

Agents are told apart by their system messages, where :func:`pbkv.clients.agent` does not name them.
"""

from __future__ import annotations

import atexit

from pbkv.clients.ending import finish
from pbkv.clients.scope import Workflow, process_workflow
from pbkv.clients.transport import tag_clients

_attached: list[bool] = []


def attach() -> None:
    """Open the process's workflow."""
    if not _attached:
        _attached.append(True)
        tag_clients(agent_by_prompt=True)
        atexit.register(_end, process_workflow())


def _end(workflow: Workflow) -> None:
    workflow.end()
    finish()
