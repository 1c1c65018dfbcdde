"""SWE-bench traces: which agent called, from recorded call lengths. They hold no text.

So a predictor of this workload learns from the agents alone. With real data there are about 260
traces; the generated sample is synthetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from pbkv.predict.data.prompted import PromptedCall, PromptedWorkflow
from pbkv.workload.swebench import CallLength


def swebench_trace(trace: Sequence[CallLength], index: int) -> PromptedWorkflow:
    """The agents of one recorded workflow."""
    calls = tuple(PromptedCall(call.agent, "", "") for call in trace)
    return PromptedWorkflow(f"swebench-{index}", "", "", calls, has_text=False)
