"""The runs of an evaluation, and its page."""

import numpy as np
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
    choose_layer,
    choose_variants,
    execute,
    plan_runs,
)
from services.predict.page import evaluation_report, main_table, summary, verdict
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


def test_a_run_that_is_cut_short_has_the_main_table_first():
    two = plan(sources=("layer 1", "post-norm"), curve_seeds=2)

    runs = plan_runs(two, ("layer 1", "layer 2", "post-norm"))

    first = [run for run in runs if run.part == MAIN and run.source == "layer 1"]
    assert runs[: len(first)] == first
    assert [run.seed for run in first] == sorted(run.seed for run in first)
    assert {run.seed for run in first} == {0, 1, 2, 3}
    assert {run.seed for run in runs[len(first) :]} == {0, 1}


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
    table = table_markdown(main_table(rows, "post-norm", with_paper=True))
    assert "| 0.935 | 0.848 | 0.771 |" in table
    assert verdict(rows, "post-norm").startswith("Ahead at s1: ")


def test_a_second_source_gets_a_table_of_its_own_and_the_sizes_are_run_on_the_first():
    traces, states = planted_traces(30)
    blank = [np.zeros_like(s) for s in states]
    traced = TracedStates(
        traces,
        ("layer 1", "layer 2", "post-norm"),
        [np.stack([no, s, no], axis=1) for no, s in zip(blank, states, strict=True)],
    )
    two = plan(chosen=choose_variants("markov/n=1,knn/k=5"), sources=("layer 2", "post-norm"))

    runs = plan_runs(two, traced.sources)
    rows = [row for _, row in execute(runs, two, traced)]

    main = [row["source"] for row in rows if row["part"] == MAIN]
    assert main == ["layer 2"] * 2 + ["post-norm"] * 2
    assert {row["source"] for row in rows if row["part"] == SIZES} == {"layer 2"}
    printed = summary(rows, with_paper=False)
    assert [part for part in printed if isinstance(part, str)][::2] == [
        "Hidden states: layer 2",
        "Hidden states: post-norm",
    ]


def test_the_layer_is_chosen_where_the_states_say_most_and_never_on_test_traces():
    traces, states = planted_traces(300)
    blank = [np.zeros_like(s) for s in states]
    seen = [np.stack([no, s, no], axis=1) for no, s in zip(blank, states, strict=True)]
    traced = TracedStates(traces, ("layer 1", "layer 2", "post-norm"), seen)
    unseen = TracedStates(traces[:250], traced.sources, seen[:250])

    accuracy = dict(choose_layer(traced, train=250))

    assert max(accuracy, key=accuracy.get) == "layer 2"
    assert accuracy["layer 2"] > accuracy["layer 1"]
    assert dict(choose_layer(unseen, train=250)) == accuracy


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
