"""Small plans for the tests of this folder."""

from loadgen.arrivals import Arrivals
from loadgen.measure import LoadPlan
from loadgen.run import Pace
from loadgen.source import Source, load_source
from loadgen.target import Target
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment


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
