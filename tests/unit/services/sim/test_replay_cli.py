"""What ``pbkv replay`` refuses before it starts an engine, and what the simulator answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pbkv.settings import PolicySettings
from pbkv.workload import make_workflows
from services.cli.replay import app
from services.sim.replay import ReplaySetup, ReplayWorkload, simulated_rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "session"], "unknown policy 'session'; choose from: lru, "),
        (["--workload", "chess"], "unknown workload 'chess'"),
        (["--model", "gpt-9"], "unknown model 'gpt-9'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, words)

    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_simulator_gives_a_row_per_policy_and_workload() -> None:
    workloads = tuple(
        ReplayWorkload(name, tuple(make_workflows(name, 6, seed=1, scale=0.2)))
        for name in ("hover", "financebench")
    )
    setup = ReplaySetup(
        workloads=workloads,
        policies=("lru", "kvflow"),
        at_a_time=4,
        kv_tokens=1024,
        host_ratio=1.0,
        model_path=Path("unused"),
        context_length=1000,
        settings=PolicySettings(queue_knowledge=False),
    )
    rows = simulated_rows(setup)

    assert [(row["policy"], row["workload"]) for row in rows] == [
        ("lru", "hover"),
        ("lru", "financebench"),
        ("kvflow", "hover"),
        ("kvflow", "financebench"),
    ]
    assert all(row["engine"] == "sim" and 0 < row["hit_rate"] < 1 for row in rows)
    calls = sum(len(script.calls) for script in workloads[0].scripts)
    assert rows[0]["calls"] == calls
