"""A replica's entry."""

import pytest
from pydantic import ValidationError

from router.replica import Replica

ENTRY = {
    "url": "http://10.0.0.1:30000/",
    "state": "ready",
    "model": "m",
    "epoch": "1700000000000",
    "kv_tokens_total": "1000",
    "kv_tokens_active": "250",
    "hit_rate": "0.5000",
    "updated_at": "1700000000.125",
    "of_a_later_version": "x",
}


def test_reads_an_entry():
    replica = Replica.from_hash("r", ENTRY)
    assert (replica.id, replica.url, replica.epoch) == ("r", "http://10.0.0.1:30000", 1700000000000)
    assert replica.active_fraction == 0.25
    assert replica.serving


def test_states():
    assert Replica.from_hash("r", {**ENTRY, "state": "draining"}).serving
    assert not Replica.from_hash("r", {**ENTRY, "state": "starting"}).serving


@pytest.mark.parametrize(
    "wrong", [{"url": "ftp://x"}, {"state": "odd"}, {"model": ""}, {"kv_tokens_total": "many"}]
)
def test_malformed_entries(wrong):
    with pytest.raises(ValidationError):
        Replica.from_hash("r", {**ENTRY, **wrong})


def test_an_unknown_pool_is_not_full():
    entry = {**ENTRY, "kv_tokens_total": "0"}
    assert Replica.from_hash("r", entry).active_fraction == 0.0
