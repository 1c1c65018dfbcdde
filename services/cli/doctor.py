"""``pbkv doctor``: checks with a fix for each."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.problem import refuse

if TYPE_CHECKING:
    from services.doctor.finding import Finding

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_COLOURS = {"ok": "green", "skipped": "bright_black", "warning": "yellow", "failed": "red"}
_MODES = ("ray", "cpu")


@app.command()
def doctor(
    cluster: Annotated[bool, typer.Option(help="Check the Kubernetes cluster.")] = True,
    namespace: Annotated[str, typer.Option(help="Namespace of the release.")] = "pbkv",
    mode: Annotated[str, typer.Option(help="engine.mode of the chart: ray or cpu.")] = "ray",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs that all replicas take.")] = 1,
    kubeconfig: Annotated[str, typer.Option(help="Default: as kubectl finds it.")] = "",
    context: Annotated[str, typer.Option(help="Context of the kubeconfig.")] = "",
    url: Annotated[str, typer.Option(help="Check the running router at this address.")] = "",
    api_key: Annotated[
        str, typer.Option(envvar="OPENAI_API_KEY", help="Key of the router, where it wants one.")
    ] = "",
    redis_url: Annotated[str, typer.Option(help="Check this Redis.")] = "",
    json: Annotated[Path | None, typer.Option(help="Write rows to this file.")] = None,
) -> None:
    """Check a cluster and a running stack; every problem comes with a fix.

    Exit code 1 if something failed. Nothing is changed.
    """
    from services.doctor.finding import healthy

    if mode not in _MODES:
        refuse(f"--mode is {mode[:20]!r}; choose one of: {', '.join(_MODES)}")
    findings: list[Finding] = []
    if cluster:
        findings += _cluster_findings(namespace, mode, gpus, kubeconfig, context)
    if url and not url.startswith(("http://", "https://")):
        refuse(f"--url is {url[:80]!r}; it must start with http:// or https://")
    try:
        if url:
            from services.doctor.stack import check_router

            findings += check_router(url, api_key)
        if redis_url:
            from services.doctor.stack import check_redis

            findings += check_redis(redis_url)
    except ValueError as problem:
        refuse(str(problem))
    if not findings:
        refuse("nothing to check: give --url or --redis-url, or leave out --no-cluster")
    _show(findings)
    if json is not None:
        from services.bench.report import environment, write_json

        rows = [{**asdict(finding), "verdict": finding.verdict.value} for finding in findings]
        try:
            write_json(json, sys.argv[1:], environment(), rows)
        except OSError as problem:
            refuse(f"cannot write {json}: {problem.strerror}")
    if not healthy(findings):
        raise typer.Exit(1)


def _cluster_findings(
    namespace: str, mode: str, gpus: int, kubeconfig: str, context: str
) -> list[Finding]:
    try:
        from services.fleet.cluster import Cluster
    except ImportError:
        refuse("the Kubernetes client is not installed: pip install 'pbkv[cluster]'")
    from services.doctor.cluster import Plan, check_cluster
    from services.fleet.errors import NoCluster

    try:
        api = Cluster.connect(kubeconfig, context)
    except NoCluster as problem:
        refuse(f"{problem}; give --kubeconfig, or --no-cluster to check only a running stack")
    return check_cluster(api, Plan(namespace, mode, gpus))


def _show(findings: list[Finding]) -> None:
    """One line each and one for its fix, never wrapped: a fix is there to be copied."""
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        verdict = finding.verdict.value
        coloured = typer.style(f"{verdict:<7}", fg=_COLOURS[verdict])
        typer.echo(f"{coloured}  {finding.check:<{width}}  {finding.detail}")
        if finding.fix:
            typer.echo(f"{'':<9}{'':<{width}}  {typer.style(f'fix: {finding.fix}', bold=True)}")
