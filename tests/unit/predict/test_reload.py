"""New checkpoints are taken into use while the old predictor serves, or refused."""

import os
import threading

import numpy as np
import pytest

from pbkv.errors import InvalidCheckpoint
from pbkv.predict import MarkovPredictor
from pbkv.predict.publication import CURRENT, VERSIONS, resolve_checkpoint
from pbkv.predict.reload import CheckpointWatch, PredictorReload, check_fit
from pbkv.predict.worker import ForecastRequest, ForecastWorker
from tests.waiting import wait_until


def markov(following):
    """After A it says ``following``."""
    predictor = MarkovPredictor(steps=1, agents=("A", "B", "C"))
    for _ in range(20):
        predictor.observe(("A",), following)
    return predictor


def load(path):
    return MarkovPredictor.load(path, steps=1)


def likeliest(predictor):
    (row,) = predictor.forecast([("A",)], np.empty((1, 0), dtype=np.float32))[0]
    return (*predictor.agents, None)[row.argmax()]


class Served:
    """A reload without a thread, whose looks are the test's."""

    def __init__(self, path, load=load):
        self.used = []
        self.outcomes = []
        self.reload = PredictorReload(
            CheckpointWatch(path),
            load,
            self.used.append,
            every_s=60.0,
            on_outcome=self.outcomes.append,
        )

    def looked(self):
        self.reload.look()
        return [likeliest(predictor) for predictor in self.used]


def test_a_checkpoint_that_is_written_again_is_taken_into_use_once(tmp_path):
    path = tmp_path / "markov.json"
    markov("B").save(path)
    served = Served(path)

    assert served.looked() == []
    markov("C").save(path)
    assert served.looked() == ["C"]
    assert served.looked() == ["C"]
    assert served.outcomes == [True]


def test_a_checkpoint_of_equal_size_and_time_is_still_another(tmp_path):
    path = tmp_path / "markov.json"
    markov("B").save(path)
    status = path.stat()
    served = Served(path)
    markov("C").save(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert path.stat().st_size == status.st_size
    assert served.looked() == ["C"]


@pytest.mark.parametrize("content", ["", "{", '{"format": 1, "family": "other"}'])
def test_what_cannot_be_read_is_refused_once_and_the_next_one_taken(tmp_path, content, caplog):
    path = tmp_path / "markov.json"
    markov("B").save(path)
    served = Served(path)
    path.write_text(content)

    assert served.looked() == []
    assert served.looked() == []
    assert served.outcomes == [False]
    assert "kept the served predictor in use" in caplog.text
    markov("C").save(path)
    assert served.looked() == ["C"]


def test_a_predictor_that_breaks_while_it_is_loaded_is_refused(tmp_path):
    path = tmp_path / "markov.json"
    markov("B").save(path)

    def broken(path):
        raise RuntimeError("out of memory")

    served = Served(path, broken)
    markov("C").save(path)

    assert served.looked() == []
    assert served.outcomes == [False]


def test_a_checkpoint_that_disappears_changes_nothing_until_it_is_back(tmp_path):
    path = tmp_path / "markov.json"
    markov("B").save(path)
    served = Served(path)
    path.unlink()
    assert served.looked() == []
    markov("C").save(path)

    assert served.looked() == ["C"]


def publish(folder, name, predictor):
    (folder / VERSIONS).mkdir(parents=True, exist_ok=True)
    predictor.save(folder / VERSIONS / name)
    (folder / CURRENT).write_text(f"{name}\n")


def test_a_published_version_is_followed_back_and_forth(tmp_path):
    publish(tmp_path, "1.json", markov("B"))
    served = Served(tmp_path)
    publish(tmp_path, "2.json", markov("C"))
    assert served.looked() == ["C"]
    (tmp_path / CURRENT).write_text("1.json")

    assert served.looked() == ["C", "B"]


def test_the_first_publication_in_an_empty_folder_is_taken(tmp_path):
    (tmp_path / VERSIONS).mkdir()
    assert resolve_checkpoint(tmp_path) is None
    served = Served(tmp_path)
    publish(tmp_path, "1.json", markov("B"))

    assert served.looked() == ["B"]


def test_files_and_folders_that_are_no_publication_are_checkpoints_themselves(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert resolve_checkpoint(tmp_path) == tmp_path
    assert resolve_checkpoint(tmp_path / "absent.json") == tmp_path / "absent.json"


def test_in_an_empty_folder_something_may_still_be_published(tmp_path):
    assert resolve_checkpoint(tmp_path) is None


@pytest.mark.parametrize("name", ["", "absent.json", "../outside.json"])
def test_a_pointer_to_nowhere_is_an_error(tmp_path, name):
    publish(tmp_path, "1.json", markov("B"))
    markov("C").save(tmp_path / "outside.json")
    (tmp_path / CURRENT).write_text(name)

    with pytest.raises(InvalidCheckpoint, match="which is not there"):
        resolve_checkpoint(tmp_path)


def test_the_thread_hands_over_while_forecasts_are_asked_for_and_loses_none(tmp_path):
    path = tmp_path / "markov.json"
    markov("B").save(path)
    failures = []
    worker = ForecastWorker(load(path), on_failure=failures.append)
    worker.start()
    reload = PredictorReload(CheckpointWatch(path), load, worker.replace, every_s=0.001)
    reload.start()
    answers = []
    asked = 0

    def ask():
        nonlocal asked
        worker.submit(ForecastRequest(f"w{asked}", (asked, 1), ("A",)))
        asked += 1
        answers.extend(worker.collect())
        return [
            (*a.forecast.agents, None)[a.forecast.step_probabilities[0].argmax()] for a in answers
        ]

    wait_until(lambda: "B" in ask(), every_s=0.001)
    markov("C").save(path)
    wait_until(lambda: ask()[-1] == "C", every_s=0.001)
    wait_until(lambda: answers.extend(worker.collect()) or len(answers) == asked)
    reload.stop()
    worker.stop()

    named = ask()
    assert set(named) == {"B", "C"}
    assert named == sorted(named), "the old one until the new one, and no further"
    assert failures == []
    assert not [t for t in threading.enumerate() if t.name.startswith("pbkv-reload")]


class NeedsHiddenStates(MarkovPredictor):
    wants_hidden_states = True
    hidden_size = 128


def test_a_checkpoint_for_another_hidden_size_is_refused_in_one_line():
    predictor = NeedsHiddenStates(steps=1)
    check_fit(predictor, 128)
    check_fit(MarkovPredictor(steps=1), 64)

    with pytest.raises(InvalidCheckpoint, match=r"hidden states of 128 .* this model's have 64$"):
        check_fit(predictor, 64)


def test_a_checkpoint_for_another_layer_is_refused_in_one_line():
    predictor = NeedsHiddenStates(steps=1)
    check_fit(predictor, 128, "layer 15")
    predictor.hidden_source = "post-norm"
    check_fit(predictor, 128, "post-norm")

    with pytest.raises(InvalidCheckpoint, match=r"of post-norm; this engine .* of layer 15$"):
        check_fit(predictor, 128, "layer 15")
