"""``pbkv serve``: one part of the stack as a process in the foreground."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from services.cli.problem import named_values, refuse

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Run one part of the stack: router, replica, fleet or engine.",
)


@app.command()
def router(
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Redis of pins and replicas.")] = None,
    idle_timeout: Annotated[
        float | None, typer.Option(help="Seconds of silence that end a workflow.")
    ] = None,
    api_keys_file: Annotated[
        Path | None, typer.Option(help="JSON file of API keys and their tenants.")
    ] = None,
) -> None:
    """A router. Every other setting comes from PBKV_ROUTER_*; an option wins over it."""
    from router.errors import RouterError
    from router.server import run
    from router.settings import ENV_PREFIX, RouterSettings

    options = {
        "PORT": port,
        "HOST": host,
        "REDIS_URL": redis_url,
        "IDLE_TIMEOUT_S": idle_timeout,
        "API_KEYS_FILE": api_keys_file,
    }
    given = {ENV_PREFIX + name: str(value) for name, value in options.items() if value is not None}
    try:
        run(RouterSettings.from_env({**os.environ, **given}))
    except RouterError as problem:
        refuse(str(problem))


@app.command()
def replica(
    model: Annotated[str, typer.Option(help="smollm2, tiny, bench or a model folder.")],
    redis_url: Annotated[
        str, typer.Option(help="Redis of pins and replicas.")
    ] = "redis://127.0.0.1:6379/0",
    port: Annotated[
        int | None, typer.Option(help="Port of the engine; a free one if not given.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address that the engine binds.")] = "127.0.0.1",
    advertised_host: Annotated[
        str, typer.Option(help="Address that routers connect to, if another.")
    ] = "",
    replica_id: Annotated[
        str | None, typer.Option(help="A name; a random one if not given.")
    ] = None,
    served_model_name: Annotated[str, typer.Option(help="Name that clients ask for.")] = "",
    policy: Annotated[str, typer.Option(help="Eviction policy.")] = "pbkv",
    policy_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, a setting of the policy; repeat it.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            "--pbkv-queue",
            help="Order of waiting requests: pbkv (the default), fcfs ...",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    tp: Annotated[int, typer.Option(help="Tensor-parallel ranks.")] = 1,
    kv_tokens: Annotated[
        int | None, typer.Option(help="KV cache on the device, in tokens.")
    ] = None,
    context_length: Annotated[int | None, typer.Option(help="Longest prompt and answer.")] = None,
    host_ratio: Annotated[float, typer.Option(help="Host tier over device tier.")] = 0.0,
    idle_timeout: Annotated[float, typer.Option(help="Silence that ends a workflow.")] = 600.0,
    cpu_cores: Annotated[
        str | None, typer.Option(help="Cores of the ranks, such as 0-3|4-7.")
    ] = None,
    drain_limit: Annotated[
        float, typer.Option(help="Longest wait for workflows after SIGTERM, in seconds.")
    ] = 600.0,
    log_dir: Annotated[Path | None, typer.Option(help="Folder for the engine's log.")] = None,
    engine_arg: Annotated[
        list[str] | None, typer.Option(help="One more argument for SGLang; repeat it.")
    ] = None,
) -> None:
    """One engine with its entry in Redis, without Ray.

    SIGTERM drains it: it takes no new workflow and ends when those it has are over. A second
    SIGTERM, or Ctrl-C, ends it at once.
    """
    from services.bare_replica import run_replica
    from services.engine import EngineError
    from services.errors import ReplicaError
    from services.models.errors import ModelError
    from services.settings import replica_settings

    values = {
        "model": model,
        "served_model_name": served_model_name,
        "redis_url": redis_url,
        "host": host,
        "advertised_host": advertised_host,
        "policy": policy,
        "policy_options": named_values(policy_option),
        "schedule_policy": queue,
        "device": device,
        "tp": tp,
        "kv_tokens": kv_tokens,
        "context_length": context_length,
        "host_ratio": host_ratio,
        "idle_timeout_s": idle_timeout,
        "cpu_cores": (cpu_cores,) if cpu_cores else (),
        "drain_limit_s": drain_limit,
        "log_dir": log_dir,
        "extra_args": tuple(engine_arg or ()),
    }
    try:
        run_replica(replica_settings(values), port=port, replica_id=replica_id, now_s=time.time())
    except (ReplicaError, ModelError) as problem:
        refuse(str(problem))
    except EngineError as problem:
        typer.echo(f"pbkv: {problem}", err=True)
        raise typer.Exit(1) from None


@app.command()
def fleet(
    namespace: Annotated[str, typer.Option(help="Namespace of the engines' pods.")],
    selector: Annotated[str, typer.Option(help="Label selector of the engines' pods.")],
    redis_url: Annotated[
        str, typer.Option(help="Redis of pins and replicas.")
    ] = "redis://127.0.0.1:6379/0",
    lease: Annotated[str, typer.Option(help="Lease by which watchers agree.")] = "pbkv-fleet",
    identity: Annotated[
        str | None, typer.Option(help="A name unique among watchers; the host's if not given.")
    ] = None,
    nodes: Annotated[bool, typer.Option(help="Whether to watch nodes, too.")] = True,
    taint: Annotated[
        list[str] | None, typer.Option(help="One more taint that ends a node; repeat it.")
    ] = None,
    health_port: Annotated[int, typer.Option(help="Port of /health.")] = 8080,
    kubeconfig: Annotated[
        str, typer.Option(help="Outside of a cluster: the configuration to use.")
    ] = "",
) -> None:
    """The fleet watcher: replicas drain before their pod or node goes.

    Needs the rights of the chart's Role and ClusterRole.
    """
    import logging
    import socket

    from services.fleet.cluster import Cluster
    from services.fleet.errors import FleetError
    from services.fleet.run import FleetOptions, run_fleet, until_terminated

    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    options = FleetOptions(
        redis_url=redis_url,
        namespace=namespace,
        selector=selector,
        lease=lease,
        identity=identity or socket.gethostname(),
        watch_nodes=nodes,
        extra_taints=tuple(taint or ()),
        health_port=health_port,
    )
    try:
        run_fleet(options, Cluster.connect(kubeconfig), until_terminated())
    except (FleetError, ValueError) as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"cannot listen on port {health_port}: {problem.strerror}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def engine(
    context: typer.Context,
    pbkv_policy: Annotated[str | None, typer.Option(help="Eviction policy.")] = None,
    pbkv_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, a setting of the policy; repeat it.")
    ] = None,
) -> None:
    """SGLang with the pbkv cache; every other argument goes to sglang.launch_server.

    Settings of the policy come from PBKV_ENGINE_*; an option wins over it.
    """
    from pbkv.errors import SettingsError
    from pbkv.policy import make_policy
    from pbkv.settings import ENV_PREFIX, PolicySettings

    given = named_values(pbkv_option)
    if pbkv_policy is not None:
        given["policy"] = pbkv_policy
    environ = {**os.environ, **{ENV_PREFIX + name.upper(): given[name] for name in given}}
    try:
        make_policy(PolicySettings.from_env(environ))
    except SettingsError as problem:
        refuse(str(problem))
    argv = [sys.executable, "-m", "sglang.launch_server", "--radix-cache-backend", "pbkv"]
    os.execve(sys.executable, [*argv, *context.args], environ)
