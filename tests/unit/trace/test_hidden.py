"""Shards of hidden states: joined by request id, bounded in size."""

import numpy as np
import pytest

from pbkv.errors import InvalidTrace
from pbkv.trace import InvocationRecord, RecordKind, read_traces, write_traces
from pbkv.trace.hidden import ShardFolder, StoredState, join, read_states

pytest.importorskip("pyarrow", reason="shards are Parquet")


def state(request_id, value, workflow="t:w", size=4):
    return StoredState(request_id, workflow, np.full(size, value, dtype=np.float32))


def record(request_id, seq=1, workflow="w", kind=RecordKind.CALL):
    return InvocationRecord(kind, "t", workflow, seq, 1.0, 2.0, request_id=request_id)


def folder(tmp_path, replica="r", started_ms=1, max_bytes=1 << 20):
    return ShardFolder(tmp_path, replica, started_ms, max_bytes=max_bytes)


def test_states_of_several_replicas_are_joined_by_request_id(tmp_path):
    folder(tmp_path, "one").add([state("r1", 1.0), state("r2", 2.0)])
    folder(tmp_path, "two/b").add([state("r3", 3.0), state("nobody", 9.0)])
    records = [record("r3"), record("r1"), record("r2"), record("absent"), record("")]
    records.append(record("", 9, kind=RecordKind.END))

    joined = list(join(records, read_states(tmp_path)))

    found = {c.record.request_id: c.hidden_state for c in joined if c.hidden_state is not None}
    assert {name: values.tolist() for name, values in found.items()} == {
        "r1": [1.0] * 4,
        "r2": [2.0] * 4,
        "r3": [3.0] * 4,
    }
    assert len(joined) == len(records), "nothing is lost"


def test_a_request_id_of_another_workflow_is_another_request(tmp_path):
    folder(tmp_path).add([state("r1", 1.0, workflow="t:other")])

    (call,) = join([record("r1")], read_states(tmp_path))

    assert call.hidden_state is None


def test_old_shards_go_when_the_folder_is_full(tmp_path):
    rng = np.random.default_rng(1)

    def noise(i):
        return StoredState(f"r{i}", "t:w", rng.random(1000, dtype=np.float32))

    others = folder(tmp_path, "other")
    others.add([noise(1000)])
    before = folder(tmp_path, started_ms=1, max_bytes=20_000)
    earlier = before.add([noise(0)])
    after = folder(tmp_path, started_ms=2, max_bytes=20_000)
    shards = [after.add([noise(i)]) for i in range(1, 9)]

    kept = sorted(path.name for path in tmp_path.glob("hidden-r-*"))
    assert not earlier.exists()
    assert shards[-1].exists() and not shards[0].exists()
    assert sum((tmp_path / name).stat().st_size for name in kept) <= 20_000
    assert len(list(tmp_path.glob("hidden-other-*"))) == 1, "another replica's stay"


def test_there_are_never_too_many_shards(tmp_path, monkeypatch):
    monkeypatch.setattr("pbkv.trace.hidden.MAX_SHARDS", 3)
    shards = folder(tmp_path)
    for i in range(5):
        shards.add([state(f"r{i}", float(i))])

    assert [s.request_id for s in read_states(tmp_path)] == ["r2", "r3", "r4"]


def test_the_newest_shard_stays_however_large(tmp_path):
    path = folder(tmp_path, max_bytes=1).add([state("r", 1.0)])

    assert path.exists()


def test_folders_and_files_that_are_none(tmp_path):
    with pytest.raises(InvalidTrace, match="holds no hidden states"):
        list(read_states(tmp_path))
    (tmp_path / "hidden-r-1-1.parquet").write_bytes(b"broken")
    with pytest.raises(InvalidTrace, match="is not a shard"):
        list(read_states(tmp_path))


def test_shards_say_which_layer_they_are_of_and_so_does_what_is_joined(tmp_path):
    hidden = ShardFolder(tmp_path, "r", 1, max_bytes=1 << 20, source="layer 15")
    hidden.add([state("r1", 1.0)])
    joined = tmp_path / "joined.parquet"

    write_traces(joined, join([record("r1"), record("r2", 2)], read_states(tmp_path)))

    found = {call.record.request_id: call for call in read_traces(joined)}
    assert found["r1"].hidden_source == "layer 15"
    assert found["r2"].hidden_state is None


def test_states_of_two_layers_do_not_go_into_one_file(tmp_path):
    for replica, source in (("a", "layer 15"), ("b", "post-norm")):
        shards = ShardFolder(tmp_path, replica, 1, max_bytes=1 << 20, source=source)
        shards.add([state(f"r-{replica}", 1.0)])
    records = [record("r-a"), record("r-b", 2)]

    with pytest.raises(InvalidTrace, match="two sources, layer 15 and post-norm"):
        write_traces(tmp_path / "joined.parquet", join(records, read_states(tmp_path)))
    assert not (tmp_path / "joined.parquet").exists()
