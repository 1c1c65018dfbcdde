"""``pbkv up``: the whole stack on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.problem import named_values

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def up(
    port: Annotated[int, typer.Option(help="Port of the first router.")] = 8000,
    host: Annotated[str, typer.Option(help="Address that routers bind.")] = "127.0.0.1",
    replicas: Annotated[int, typer.Option(help="Engine replicas.")] = 2,
    routers: Annotated[int, typer.Option(help="Router processes, on consecutive ports.")] = 1,
    model: Annotated[
        str, typer.Option(help="smollm2, tiny, bench or the path of a model folder.")
    ] = "smollm2",
    policy: Annotated[str, typer.Option(help="Eviction policy.")] = "pbkv",
    policy_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, a setting of the policy; repeat it.")
    ] = None,
    redis_url: Annotated[
        str | None, typer.Option(help="A Redis to use instead of an embedded one.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    kv_tokens: Annotated[
        int | None, typer.Option(min=1, help="KV cache of each replica on the device, in tokens.")
    ] = None,
    context_length: Annotated[
        int | None, typer.Option(min=1, help="Longest prompt and answer, in tokens.")
    ] = None,
    host_ratio: Annotated[
        float | None, typer.Option(min=0, help="Host tier over device tier, 0 for none.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(help="Order of waiting requests: pbkv (the default), fcfs, lpm ..."),
    ] = None,
    idle_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds of silence that end a workflow.")
    ] = 600.0,
    engine_arg: Annotated[
        list[str] | None, typer.Option(help="One more argument for SGLang; repeat it.")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="Folder for logs and the embedded Redis.")
    ] = None,
) -> None:
    """Start the whole stack on this machine; Ctrl-C stops it.

    Redis, Ray Serve, engine replicas and routers, in that order. Ends with a line that begins
    with "ready:" and tells where to point an OpenAI client.
    """
    from services.stack.launch import launch
    from services.stack.settings import StackSettings

    settings = StackSettings(
        port=port,
        host=host,
        replicas=replicas,
        routers=routers,
        model=model,
        policy=policy,
        policy_options=named_values(policy_option),
        redis_url=redis_url,
        device=device,
        kv_tokens=kv_tokens,
        context_length=context_length,
        host_ratio=host_ratio,
        schedule_policy=queue,
        idle_timeout_s=idle_timeout,
        engine_args=tuple(engine_arg or ()),
        state_dir=state_dir,
    )
    raise typer.Exit(launch(settings))
