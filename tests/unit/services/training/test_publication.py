"""Publication of checkpoints: atomic, bounded, and reversible."""

import threading

import pytest

from pbkv.errors import InvalidCheckpoint
from pbkv.predict.publication import resolve_checkpoint
from services.training.errors import InvalidPublication
from services.training.publication import CheckpointFolder, fit_into


def publish(folder, text, **report):
    path = fit_into(folder, ".json", lambda path: path.write_text(text))
    return folder.publish(path, report)


def test_what_is_published_is_what_readers_find(tmp_path):
    folder = CheckpointFolder(tmp_path)
    assert folder.current() is None
    assert resolve_checkpoint(tmp_path) is None

    first = publish(folder, "one", mean_accuracy=0.5)
    second = publish(folder, "two", mean_accuracy=0.6)

    assert [first, second] == folder.versions() == ["000001.json", "000002.json"]
    assert resolve_checkpoint(tmp_path).read_text() == "two"
    assert folder.report(first) == {"mean_accuracy": 0.5}
    folder.point_to(first)
    assert resolve_checkpoint(tmp_path).read_text() == "one"
    assert folder.current() == first


def test_a_folder_may_be_a_version(tmp_path):
    folder = CheckpointFolder(tmp_path)

    def fit(path):
        path.mkdir()
        (path / "weights").write_text("w")

    folder.publish(fit_into(folder, "", fit), {})

    assert (resolve_checkpoint(tmp_path) / "weights").read_text() == "w"


def test_numbers_go_on_after_a_restart_and_a_rollback(tmp_path):
    folder = CheckpointFolder(tmp_path)
    first = publish(folder, "one")
    publish(folder, "two")
    folder.point_to(first)

    assert publish(CheckpointFolder(tmp_path), "three") == "000003.json"


def test_old_versions_go_but_never_the_one_in_use(tmp_path):
    folder = CheckpointFolder(tmp_path, keep=2)
    first = publish(folder, "1")
    for text in "234":
        publish(folder, text)
    assert folder.versions() == ["000003.json", "000004.json"]
    assert folder.report(first) == {}
    folder.point_to("000003.json")
    incoming = fit_into(folder, ".json", lambda path: path.write_text("5"))
    folder.discard(incoming)
    assert folder.versions() == ["000003.json", "000004.json"]
    assert folder.current() == "000003.json"


def test_a_fit_that_fails_leaves_nothing(tmp_path):
    folder = CheckpointFolder(tmp_path)

    def fit(path):
        path.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fit_into(folder, ".json", fit)
    assert folder.versions() == []
    assert not list((tmp_path / "incoming").iterdir())


def test_what_a_broken_off_publication_left_is_cleared(tmp_path):
    folder = CheckpointFolder(tmp_path)
    fit_into(folder, ".json", lambda path: path.write_text("half"))

    assert not list((CheckpointFolder(tmp_path).folder / "incoming").iterdir())


def test_a_version_that_is_not_there_cannot_be_pointed_to(tmp_path):
    folder = CheckpointFolder(tmp_path)
    with pytest.raises(InvalidPublication, match=r"has no version '000009\.json'"):
        folder.point_to("000009.json")


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidPublication, match="file"):
        CheckpointFolder(tmp_path / "file")


def test_a_reader_never_sees_a_part(tmp_path):
    folder = CheckpointFolder(tmp_path, keep=50)
    publish(folder, "x" * 100_000)
    done = threading.Event()
    problems = []

    def read():
        while not done.is_set():
            try:
                text = resolve_checkpoint(tmp_path).read_text()
                if len(text) != 100_000 or len(set(text)) != 1:
                    problems.append(text[:20])
            except (InvalidCheckpoint, OSError) as problem:
                problems.append(repr(problem))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(30):
        publish(folder, "abc"[i % 3] * 100_000)
    done.set()
    reader.join()

    assert problems == []
