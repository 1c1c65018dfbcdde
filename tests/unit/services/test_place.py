"""What a replica fills in where it runs."""

from __future__ import annotations

import pytest

from services.errors import InvalidReplicaSettings
from services.place import settle
from services.settings import replica_settings


def no_address() -> str:
    raise AssertionError("nobody asked for an address")


def test_the_url_takes_its_secret_from_the_environment() -> None:
    settings = replica_settings({"model": "tiny", "redis_url": "$(PBKV_REDIS_URL)"})
    settled = settle(settings, {"PBKV_REDIS_URL": "redis://:s@r:6379/0"}, no_address)
    assert settled.redis_url == "redis://:s@r:6379/0"


def test_a_variable_that_is_not_set_is_named() -> None:
    settings = replica_settings({"model": "tiny", "redis_url": "redis://:$(SECRET)@r"})
    with pytest.raises(InvalidReplicaSettings, match=r"no SECRET$"):
        settle(settings, {}, no_address)


@pytest.mark.parametrize(
    ("hosts", "advertised"),
    [
        ({"host": "0.0.0.0"}, "10.1.2.3"),
        ({"host": "::"}, "10.1.2.3"),
        ({"host": "0.0.0.0", "advertised_host": "front"}, "front"),
        ({"host": "127.0.0.1"}, ""),
    ],
)
def test_an_engine_on_every_interface_advertises_its_node(
    hosts: dict[str, str], advertised: str
) -> None:
    settings = replica_settings({"model": "tiny", **hosts})
    assert settle(settings, {}, lambda: "10.1.2.3").advertised_host == advertised
