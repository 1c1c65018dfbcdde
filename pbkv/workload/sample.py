"""A small generated sample of what the real data sets hold, so that everything runs without them.

It is synthetic and says so: claims are filled templates, call lengths are drawn from log-normal
fits to the published quantiles of the real traces. Use the real data for numbers that matter.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from pbkv.workload.hover import Claim
from pbkv.workload.swebench import CallLength

_PEOPLE = ("Ada Brandt", "Joon Park", "Mirela Costa", "Tomas Lind", "Nadia Okoye", "Hugo Ferrer")
_WORKS = ("The Glass Harbor", "Northern Signals", "A Quiet Orbit", "Paper Rivers", "Salt and Iron")
_PLACES = ("Lisbon", "Tromso", "Valparaiso", "Cork", "Sapporo", "Tbilisi")
_CLAIMS = (
    "{a} directed {w}, a film first shown in {p} in {y}.",
    "The author of {w} was born in {p} and worked with {a} until {y}.",
    "{w}, recorded by {a} in {y}, was followed by {v}, which was produced in {p}.",
    "The architect {a}, who moved to {p} in {y}, is the sibling of the writer of {v}.",
)
_HOPS = (2,) * 28 + (3,) * 46 + (4,) * 26


def sample_claims(count: int, seed: int = 0) -> list[Claim]:
    """``count`` claims of 2 to 4 hops, in about the proportion of HoVer's development set."""
    rng = random.Random(f"claims/{seed}")
    claims = []
    for index in range(count):
        work, sequel = rng.sample(_WORKS, 2)
        text = rng.choice(_CLAIMS).format(
            a=rng.choice(_PEOPLE),
            w=work,
            v=sequel,
            p=rng.choice(_PLACES),
            y=rng.randrange(1950, 2020),
        )
        claims.append(Claim(f"sample-{index}", text, rng.choice(_HOPS)))
    return claims


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Medians and 90th percentiles of one agent: output and calls in a row, and growth per call."""

    output: tuple[int, int]
    burst: tuple[int, int]
    first: int
    growth: tuple[int, int]


_AGENTS = {
    "Manager": _Lengths((223, 606), (1, 1), 2500, (250, 700)),
    "Reproducer": _Lengths((113, 310), (6, 19), 3100, (350, 1500)),
    "Debugger": _Lengths((163, 313), (8, 18), 3800, (500, 1400)),
    "Programmer": _Lengths((136, 294), (8, 19), 9600, (700, 1800)),
    "Tester": _Lengths((98, 219), (4, 14), 2800, (350, 1200)),
}
_NEXT = {
    "Manager": (("Reproducer", 0.45), ("Debugger", 0.15), ("Programmer", 0.4)),
    "Reproducer": (("Manager", 0.3), ("Debugger", 0.7)),
    "Debugger": (("Programmer", 0.85), ("Manager", 0.15)),
    "Programmer": (("Tester", 0.75), ("Manager", 0.25)),
    "Tester": (("Programmer", 0.35), ("Debugger", 0.25), ("Manager", 0.4)),
}


def sample_call_lengths(count: int, seed: int = 0) -> list[list[CallLength]]:
    """``count`` traces of the five agents: bursts of calls, retry loops, a Manager at the end."""
    rng = random.Random(f"calls/{seed}")
    return [_trace(rng) for _ in range(count)]


def _trace(rng: random.Random) -> list[CallLength]:
    target = max(6, round(_log_normal(rng, 28, 55)))
    history: dict[str, int] = {}
    calls: list[CallLength] = []
    agent = "Manager"
    while len(calls) < target:
        lengths = _AGENTS[agent]
        for _ in range(max(1, round(_log_normal(rng, *lengths.burst)))):
            grown = round(_log_normal(rng, *lengths.growth))
            prompt = history.get(agent, lengths.first - grown) + grown
            output = max(8, round(_log_normal(rng, *lengths.output)))
            calls.append(CallLength(agent, prompt, output))
            history[agent] = prompt + output
        agents, weights = zip(*_NEXT[agent], strict=True)
        agent = rng.choices(agents, weights)[0]
    return [*calls[: target - 1], CallLength("Manager", history["Manager"] + 250, 120)]


def _log_normal(rng: random.Random, median: float, p90: float) -> float:
    """A draw from the log-normal with this median and 90th percentile."""
    sigma = math.log(p90 / median) / 1.2816
    return median * math.exp(rng.gauss(0.0, sigma))
