"""Figure 6: the hit rate in the course of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pbkv.report import Section, Series, Text, line_chart
from services.experiments.claim import Claim, verdict
from services.experiments.measured import Measured, Row
from services.experiments.scope import Scope
from services.sim.grid import GridCell

POLICIES = ("lru", "lae", "he", "pbkv")
_BIN_S = 10.0
_WARM_PERCENT = 80.0


def _cell(scope: Scope, policy: str) -> GridCell:
    return replace(scope.cell("hover", policy, "qwen3-14b"), timeline_bin_s=_BIN_S)


def cells(scope: Scope) -> list[GridCell]:
    return [_cell(scope, policy) for policy in POLICIES]


def section(scope: Scope, measured: Measured) -> Section:
    rows = {policy: measured.row(_cell(scope, policy)) for policy in POLICIES}
    lines = [Series(policy, *_curve(row)) for policy, row in rows.items()]
    marks = {
        "first eviction": rows["pbkv"]["first_eviction_s"],
        "first workflow ends": rows["pbkv"]["first_end_s"],
        "last workflow starts": rows["pbkv"]["last_start_s"],
    }
    lines += [
        Series(f"{what} (pbkv)", (at_s, at_s), (0.0, 100.0), dashed=True)
        for what, at_s in marks.items()
        if at_s is not None
    ]
    figure = line_chart(
        [("HoVer, qwen3-14b, one seed", lines)],
        x_label="time, s",
        y_label="hit rate, %",
        alt="Hit rate of each policy over time, with the times of key events",
        caption=f"Of the calls admitted in each {_BIN_S:.0f} s.",
        y_range=(0.0, 100.0),
    )
    steady = {
        policy: _rate(row, _between(row, row["first_end_s"] or 0.0, row["last_start_s"]))
        for policy, row in rows.items()
    }
    warm = {
        policy: _rate(row, _between(row, 0.0, row["first_eviction_s"] or _BIN_S))
        for policy, row in rows.items()
    }
    tail = _rate(rows["pbkv"], _between(rows["pbkv"], rows["pbkv"]["last_start_s"], float("inf")))
    ends = {policy: row["duration_s"] for policy, row in rows.items()}
    claims = [
        Claim(
            "before memory is full all policies exceed 80 %",
            min(warm.values()) > _WARM_PERCENT,
            f"{min(warm.values()):.0f} to {max(warm.values()):.0f} % over the calls admitted "
            f"before the first eviction",
        ),
        Claim(
            "in steady state pbkv and he are far above lae, and lae above LRU",
            min(steady["pbkv"], steady["he"]) > steady["lae"] + 5.0
            and steady["lae"] >= steady["lru"],
            ", ".join(f"{policy} {hit:.0f} %" for policy, hit in steady.items()),
        ),
        Claim(
            "steady state is about 10 % for LRU and 50 % for pbkv",
            abs(steady["lru"] - 10.0) <= 10.0 and abs(steady["pbkv"] - 50.0) <= 10.0,
            f"{steady['lru']:.0f} % and {steady['pbkv']:.0f} %",
        ),
        Claim(
            "hit rates recover when the pool of requests drains",
            tail > steady["pbkv"],
            f"pbkv {tail:.0f} % after the last workflow started",
        ),
        Claim(
            "pbkv is the first to finish",
            ends["pbkv"] <= min(ends.values()),
            ", ".join(f"{policy} {end_s:.0f} s" for policy, end_s in ends.items()),
        ),
    ]
    note = Text("Steady state: from the first workflow's end to the last one's start.")
    return Section("Figure 6: hit rate over time", (figure, note, *verdict(claims)))


def _curve(row: Row) -> tuple[tuple[float, ...], tuple[float, ...]]:
    filled = [place for place, prompt in enumerate(row["timeline_prompt_tokens"]) if prompt]
    return (
        tuple((place + 0.5) * _BIN_S for place in filled),
        tuple(_rate(row, (place,)) for place in filled),
    )


def _between(row: Row, start_s: float, end_s: float) -> list[int]:
    bins = range(len(row["timeline_prompt_tokens"]))
    return [place for place in bins if start_s <= place * _BIN_S < end_s]


def _rate(row: Row, bins: Iterable[int]) -> float:
    """Percent of prompt tokens found on the device in these bins; 0 without any."""
    bins = list(bins)
    prompt: int = sum(row["timeline_prompt_tokens"][place] for place in bins)
    found: int = sum(row["timeline_device_tokens"][place] for place in bins)
    return 100.0 * found / max(1, prompt)
