"""``pbkv evaluate`` and ``pbkv train`` from the command line, on a workload without text."""

import json

import pytest
from typer.testing import CliRunner

from pbkv.predict import make_predictor
from pbkv.predict.checkpoint import read_hidden_source
from pbkv.settings import PolicySettings
from services.cli import evaluate, train

SMALL = ("--workload", "swebench")
TINY = ("--model", "tiny", "--train", "4", "--test", "1")


def run(app, *arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_evaluate_writes_rows_and_a_page_and_prints_the_table(tmp_path):
    rows_file, page = tmp_path / "rows.json", tmp_path / "page.html"

    ended = run(
        evaluate.app,
        *(*SMALL, "--family", "markov", "--train", 20, "--test", 10, "--sizes", "5"),
        *("--json", rows_file, "--html", page),
    )

    assert ended.exit_code == 0, ended.output
    content = json.loads(rows_file.read_text())
    assert content["schema"] == 1
    assert content["environment"]["finished"] is True
    sizes = [(row["variant"], row["train_traces"]) for row in content["rows"]]
    assert sizes == [(f"n={n}", size) for size in (20, 5) for n in (1, 2, 3)]
    assert all(0.0 < row["s1"] < 1.0 for row in content["rows"])
    assert "| markov n=3 | 1 |" in ended.output
    assert "Training size" in page.read_text()


def test_train_writes_a_checkpoint_that_an_engine_can_load(tmp_path):
    folder = tmp_path / "checkpoint"

    ended = run(
        train.app,
        *(folder, *SMALL, "--family", "mlp/tiny", "--traces", 10, "--test", 5, "--epochs", 1),
    )

    assert ended.exit_code == 0, ended.output
    assert "epoch 1 of 1; s1 0." in ended.output
    settings = PolicySettings(predictor="checkpoint", predictor_checkpoint=str(folder))
    assert "Manager" in make_predictor(settings).agents


def test_a_layer_gets_a_second_table_and_its_checkpoint_names_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PBKV_CACHE_DIR", str(tmp_path / "cache"))
    folder, model = tmp_path / "checkpoint", ("--model", "tiny", "--test", 3)

    ended = run(
        evaluate.app,
        *(*model, "--train", 10, "--family", "markov/n=1", "--layers", "1", "--layer", "auto"),
        *("--sizes", ""),
    )
    trained = run(
        train.app,
        *(folder, *model, "--traces", 10, "--layer", 1, "--family", "mlp/small", "--epochs", 1),
    )

    assert ended.exit_code == 0, ended.output
    assert "layer 1, chosen by mean accuracy on held-out training traces: 1 0." in ended.output
    assert ended.output.count("| markov n=1 | 1 |") == 2
    assert trained.exit_code == 0, trained.output
    assert read_hidden_source(folder) == "layer 1"


@pytest.mark.parametrize(
    ("app", "arguments", "word"),
    [
        (evaluate.app, ("--family", "gcn"), "unknown family 'gcn'"),
        (evaluate.app, ("--workload", "hoover"), "unknown workload 'hoover'"),
        (evaluate.app, (*SMALL, "--sizes", "many"), "--sizes must be whole numbers"),
        (evaluate.app, ("--workload", "who-and-when"), "--data"),
        (evaluate.app, (*SMALL, "--train", "5000", "--data", "/nonexistent"), "cannot read"),
        (train.app, ("out", *SMALL, "--family", "mlp/huge", "--traces", "5"), "mlp/huge"),
        (evaluate.app, (*SMALL, "--layer", "3"), "--layer needs a workload with text"),
        (evaluate.app, (*TINY, "--layer", "2"), "the model has layers 1 to 1"),
        (evaluate.app, (*TINY, "--layers", "", "--layer", "auto"), "chooses among --layers"),
        (evaluate.app, (*SMALL, "--live", "/nonexistent"), "--live needs a workload with text"),
        (evaluate.app, (*TINY, "--live", "/nonexistent"), "No such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(app, arguments, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    ended = run(app, *arguments)

    assert ended.exit_code == 2
    assert ended.stderr.startswith("pbkv: ")
    assert word in ended.stderr
    assert ended.stderr.count("\n") == 1
