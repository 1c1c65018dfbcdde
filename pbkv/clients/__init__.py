"""Workflow and agent on every call of an agent application, without a change to it.

::

    python -m pbkv.clients app.py           # any of the frameworks below, found by itself

    import pbkv.clients                     # or one line at the start of the application
    pbkv.clients.install()

From then on calls of OpenAI clients carry ``X-Workflow-ID`` and ``X-Agent-Name``, and a PBKV router
is told when a workflow is over. LangGraph: a workflow is one run of a graph, an agent a node.
AutoGen: a run of a team, and its agents. CrewAI: a kick-off, and the roles of its agents. Without a
framework, :func:`workflow` and :func:`agent` name both.
"""

from __future__ import annotations

from pbkv.clients.install import FRAMEWORKS, install
from pbkv.clients.scope import agent, workflow

__all__ = ["FRAMEWORKS", "agent", "install", "workflow"]
