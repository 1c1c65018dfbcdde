"""The runs of an evaluation, and its page."""

import pytest

from pbkv.errors import SettingsError
from pbkv.predict.training import TrainingPlan
from pbkv.report import render_html, table_markdown
from services.predict.grid import (
    LAYERS,
    MAIN,
    SIZES,
    EvaluationPlan,
    TracedStates,
    choose_variants,
    execute,
    plan_runs,
)
from services.predict.page import evaluation_report, main_table, verdict
from tests.unit.predict.planted import planted_traces

KEYS = {
    *("family", "variant", "seed", "train_traces", "parameters", "infer_1024_ms"),
    *(f"{name}{k}" for name in ("s", "ece") for k in (1, 2, 3)),
}


def plan(**changes):
    values = {"chosen": choose_variants("all"), "train": 20, "test": 10, "seeds": 4, "sizes": (10,)}
    return EvaluationPlan(**values | changes, training=TrainingPlan(epochs=1))


def test_what_no_seed_changes_runs_once():
    runs = plan_runs(plan(), ("layer 1", "post-norm"))

    seeds = [run.seed for run in runs if run.part == MAIN and run.family == "markov"]
    assert seeds == [0, 0, 0]
    assert sum(run.part == MAIN and run.family == "rgcn" for run in runs) == 4


def test_curves_take_fewer_seeds_and_layers_only_graphsage():
    runs = plan_runs(plan(), ("layer 1", "post-norm"))

    sizes = [run for run in runs if run.part == SIZES and run.family == "rgcn"]
    layers = [run for run in runs if run.part == LAYERS]
    assert [(run.train, run.seed) for run in sizes] == [(10, 0), (10, 1), (10, 2)]
    assert {(run.family, run.source) for run in layers} == {("graphsage", "layer 1")}


def test_without_text_nobody_reads_it():
    families = {run.family for run in plan_runs(plan(), ())}

    assert families == {"graphsage", "rgcn", "transformer", "tcn", "mlp", "markov"}


def test_rows_have_the_keys_that_others_read_and_make_a_page():
    traces, states = planted_traces(30)
    traced = TracedStates(
        traces, ("layer 1", "post-norm"), [s[:, None].repeat(2, 1) for s in states]
    )
    short = plan(chosen=choose_variants("graphsage,knn/k=5,markov/n=1"), seeds=1)

    rows = [row for _, row in execute(plan_runs(short, traced.sources), short, traced)]

    assert all(row.keys() >= KEYS for row in rows)
    assert {row["part"] for row in rows} == {MAIN, SIZES, LAYERS}
    page = render_html(evaluation_report(rows, ["evaluate"], workload="hover", origin="planted"))
    assert page.count("<svg") == 3
    table = table_markdown(main_table(rows, with_paper=True))
    assert "| 0.935 | 0.848 | 0.771 |" in table
    assert verdict(rows).startswith("Ahead at s1: ")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("graphsage", [("graphsage", ""), ("graphsage", "ordered")]),
        ("mlp/deep, mlp", [("mlp", "deep"), ("mlp", "tiny"), ("mlp", "small")]),
    ],
)
def test_families_by_name(asked, found):
    assert choose_variants(asked) == tuple(found)


def test_an_unknown_family_lists_the_choices():
    with pytest.raises(SettingsError, match=r"unknown family 'gcn'; .*graphsage"):
        choose_variants("graphsage,gcn")
