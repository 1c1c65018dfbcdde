"""Predictors of the benchmark, made by their names as an engine makes them."""

import numpy as np
import pytest

from pbkv.errors import SettingsError
from pbkv.forecast import RemainingCallsPredictor
from pbkv.predict import make_predictor
from pbkv.predict.worker import ForecastRequest, ForecastWorker
from pbkv.settings import PolicySettings
from pbkv.workload import make_workflows
from services.bench.oracle import OraclePredictor, make_oracle
from services.bench.predictors import PredictorFiles, training_workflows
from tests.waiting import wait_until

NOTHING = np.empty((1, 0), dtype=np.float32)


def agents(workflow):
    return [call.agent for call in workflow.calls]


def files(folder, scripts, workload="hover"):
    return PredictorFiles(folder, workload, scripts, scale=0.3, seed=1, data_dir=None)


def accuracy(predictor, workflows, step=1):
    """Share of the calls that the likeliest agent ``step`` steps ahead foretold."""
    hits = []
    for workflow in workflows:
        script = agents(workflow)
        for done in range(1, len(script) - step + 1):
            if hasattr(predictor, "forecast_workflows"):
                (forecast,) = predictor.forecast_workflows(
                    [workflow.workflow_id], [script[:done]], NOTHING
                )
            else:
                (forecast,) = predictor.forecast([script[:done]], NOTHING)
            names = (*predictor.agents, None)
            hits.append(names[forecast[step - 1].argmax()] == script[done + step - 1])
    return sum(hits) / len(hits)


def test_the_oracle_is_always_right(tmp_path):
    scripts = make_workflows("hover", 20, seed=1, scale=0.3)
    settings = files(tmp_path, scripts).resolve(PolicySettings(policy="he", predictor="oracle"))

    oracle = make_predictor(settings)

    assert accuracy(oracle, scripts) == accuracy(oracle, scripts, step=3) == 1.0


def test_the_oracle_sees_the_end_and_nothing_beyond():
    oracle = OraclePredictor({"w": ["A", "B"]}, steps=3)

    (after_first,) = oracle.forecast_workflows(["w"], [["A"]], NOTHING)

    assert oracle.agents == ("A", "B")
    assert after_first.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]


def test_the_oracle_knows_how_many_calls_are_left_beyond_its_steps():
    oracle = OraclePredictor({"w": ["A", "B", "A", "B"]}, steps=1)

    oracle.forecast_workflows(["w", "w", "other"], [["A"], ["A", "B", "A", "B"], ["A"]], NOTHING)

    assert isinstance(oracle, RemainingCallsPredictor)
    assert oracle.remaining_calls.tolist() == [3, 0, 0]


@pytest.mark.parametrize(("workflow", "prefix"), [("other", ["A"]), ("w", ["B"]), ("w", ["A"] * 9)])
def test_off_script_the_oracle_foresees_nothing(workflow, prefix):
    oracle = OraclePredictor({"w": ["A", "B"]}, steps=2)

    (forecast,) = oracle.forecast_workflows([workflow], [prefix], NOTHING)

    assert forecast.tolist() == [[0, 0, 1], [0, 0, 1]]


def test_the_oracle_refuses_to_start_without_scripts():
    with pytest.raises(SettingsError, match="scripts"):
        make_oracle(PolicySettings())


def test_a_worker_tells_the_oracle_which_workflow_it_is_about():
    worker = ForecastWorker(OraclePredictor({"w": ["A", "B"], "v": ["A", "C"]}, steps=1))
    worker.start()
    try:
        worker.submit(ForecastRequest("v", (0, 1), ("A",)))
        finished = []
        wait_until(lambda: finished.extend(worker.collect()) or finished)
    finally:
        worker.stop()

    (stamped,) = finished
    column = stamped.forecast.step_probabilities[0].argmax()
    assert stamped.forecast.agents[column] == "C"


def test_the_trained_predictor_knows_more_than_the_untrained(tmp_path):
    scripts = make_workflows("hover", 40, seed=1, scale=0.3)
    settings = files(tmp_path, scripts).resolve(PolicySettings(policy="he", predictor="trained"))

    trained, untrained = make_predictor(settings), make_predictor(PolicySettings())

    assert settings.predictor == "markov"
    assert accuracy(trained, scripts) > 0.6 > accuracy(untrained, scripts)


def test_training_leaves_out_what_is_measured():
    measured = make_workflows("swebench", 60, seed=1, scale=0.06)
    known = {tuple(agents(workflow)) for workflow in measured}

    training = training_workflows("swebench", measured, scale=0.06, seed=1, data_dir=None)

    assert len(training) > 50
    assert not known & {tuple(agents(workflow)) for workflow in training}


def test_other_predictors_stay_as_they_are(tmp_path):
    settings = PolicySettings(predictor="none")

    assert files(tmp_path, []).resolve(settings) is settings
