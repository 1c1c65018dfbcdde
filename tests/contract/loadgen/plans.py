"""Small plans for the tests of this folder."""

import pytest

from loadgen.arrivals import Arrivals
from loadgen.measure import LoadPlan
from loadgen.programs.runner import open_programs
from loadgen.programs.wire import ProgramPlan
from loadgen.run import Pace
from loadgen.source import Source, load_source
from loadgen.target import Target
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment
from tests.contract.clients.conftest import PYTHON


def small_plan(url, workload="hover", count=6, **changes) -> LoadPlan:
    """A closed loop without pauses on small prompts."""
    settings = {
        "source": load_source(workload, count, seed=3, scale=0.05),
        "target": Target.of(url),
        "pace": Pace(concurrency=3),
        "arrivals": Arrivals(),
        "prefix": "t",
        "pause_scale": 0.0,
    }
    return LoadPlan(**{**settings, **changes})


def one_call_source(count=1) -> Source:
    call = ScriptedCall("solo", "c", (Segment("x", 3),), (), 2)
    return Source(
        "one-call", tuple(ScriptedWorkflow(f"w{i}", {"c": ()}, (call,)) for i in range(count))
    )


def programs(plan, workload, url, scale=0.05):
    """Opens the framework's program of ``workload`` for the scripts of ``plan``."""
    if not PYTHON.exists():
        pytest.skip("the agent frameworks are not installed: make agents")

    def opened(session, target, clock):
        wire = program_plan(plan, workload, target, scale=scale, url=url)
        return open_programs(str(PYTHON), wire, clock)

    return opened


def program_plan(plan, workload, target, *, scale=0.05, url="") -> ProgramPlan:
    return ProgramPlan(
        workload=workload,
        count=len(plan.source.scripts),
        seed=3,
        scale=scale,
        data_dir="",
        decisions="workload",
        url=url or target.url,
        model=target.model,
        api_key="",
        prefix=plan.prefix,
        pause_scale=0.0,
        exact_lengths=True,
        request_timeout_s=200.0,
    )
