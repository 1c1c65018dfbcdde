"""A served checkpoint against itself: live accuracy of its forecasts, and accuracy offline.

An engine serves the checkpoint, a few workflows at a time send it their prompts, call after call,
and its own metrics say how good the forecasts were. The same network then forecasts the same
prefixes from the hidden states that :mod:`services.predict.encoder` computes. What parts the two is
the service: states taken from the engine's batches, forecasts that came late, calls answered blind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from pbkv.predict.accuracy import WINDOW
from pbkv.predict.data.prompted import PromptedWorkflow
from pbkv.predict.dataset import make_examples
from pbkv.predict.network_checkpoint import load_network
from pbkv.predict.network_predictor import network_forecasts
from pbkv.predict.scores import score_steps
from pbkv.predict.vocabulary import Vocabulary
from pbkv.settings import PolicySettings
from services.engine import EngineOptions, EngineProcess
from services.ports import free_port

READY_TIMEOUT_S = 600.0
ANSWER_TOKENS = 16
_REQUEST_TIMEOUT_S = 600.0
_POLL_S = 0.5
_QUIET_POLLS = 6
"""Reads of unchanged metrics after which the last forecasts are taken to be judged."""

_ACCURACY = "pbkv_forecast_accuracy"
_FORECASTS = "pbkv_forecasts_total"


@dataclass(frozen=True, slots=True)
class LiveAccuracies:
    """Accuracy per step, and what became of the forecasts, by outcome."""

    live: tuple[float, ...]
    offline: tuple[float, ...]
    calls: int
    outcomes: dict[str, int]

    @property
    def largest_difference(self) -> float:
        return max(abs(a - b) for a, b in zip(self.live, self.offline, strict=True))


def offline_accuracy(
    checkpoint: Path,
    workflows: Sequence[PromptedWorkflow],
    states: Sequence[NDArray[np.float16]] | None,
) -> tuple[float, ...]:
    """Per step, of the network in ``checkpoint``; ``states`` (calls, D) per workflow."""
    network, content, _ = load_network(checkpoint)
    vocabulary = Vocabulary(content.agents, max_agents=len(content.agents))
    traces = [workflow.agents for workflow in workflows]
    examples = make_examples(traces, states, vocabulary, steps=content.steps)
    probabilities, _ = network_forecasts(network, examples.prefixes)
    return tuple(step.accuracy for step in score_steps(probabilities, examples.targets))


async def live_accuracy(
    checkpoint: Path,
    workflows: Sequence[PromptedWorkflow],
    model_path: Path,
    *,
    at_a_time: int = 4,
    answer_tokens: int = ANSWER_TOKENS,
    progress: Callable[[int], None] = lambda calls: None,
) -> tuple[tuple[float, ...], dict[str, int]]:
    """Accuracy per step as the engine reports it, and its forecasts by outcome.

    Raises an engine's error and :class:`aiohttp.ClientError`.
    """
    waiting = iter(workflows)
    done = 0
    async with _serving(checkpoint, model_path) as session:

        async def client() -> None:
            nonlocal done
            for workflow in waiting:
                for step in range(len(workflow.calls)):
                    await _call(session, workflow, step, answer_tokens)
                    done += 1
                    progress(done)

        async with asyncio.TaskGroup() as clients:
            for _ in range(at_a_time):
                clients.create_task(client())
        metrics = await _settled_metrics(session)
    steps = sorted(
        (int(step), value) for (name, step), value in metrics.items() if name == _ACCURACY
    )
    outcomes = {label: int(value) for (name, label), value in metrics.items() if name == _FORECASTS}
    return tuple(value for _, value in steps), outcomes


async def compare(
    checkpoint: Path,
    workflows: Sequence[PromptedWorkflow],
    states: Sequence[NDArray[np.float16]] | None,
    model_path: Path,
    *,
    answer_tokens: int = ANSWER_TOKENS,
    progress: Callable[[int], None] = lambda calls: None,
) -> LiveAccuracies:
    """Both accuracies. The engine reports its last forecasts: at most that many calls compare.

    A forecast that comes after the next call is none, so answers must take as long as forecasts do.
    """
    calls = sum(len(workflow.calls) for workflow in workflows)
    if calls > WINDOW:
        raise ValueError(f"{calls} calls; live accuracy is that of the last {WINDOW}")
    live, outcomes = await live_accuracy(
        checkpoint, workflows, model_path, answer_tokens=answer_tokens, progress=progress
    )
    offline = offline_accuracy(checkpoint, workflows, states)
    return LiveAccuracies(live, offline, calls, outcomes)


@asynccontextmanager
async def _serving(checkpoint: Path, model_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """An engine under the lookahead policy, ready, and a session to it."""
    policy = PolicySettings(
        policy="he", predictor="checkpoint", predictor_checkpoint=str(checkpoint)
    )
    with TemporaryDirectory(prefix="pbkv-live-") as folder:
        engine = EngineProcess(
            EngineOptions(
                model_path,
                "served",
                free_port("127.0.0.1"),
                policy=policy,
                kv_tokens=32_768,
                log_path=Path(folder) / "engine.log",
                extra_args=("--skip-server-warmup",),
            )
        )
        try:
            engine.start()
            await asyncio.to_thread(engine.wait_ready, READY_TIMEOUT_S)
            timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
            async with aiohttp.ClientSession(engine.url, timeout=timeout) as session:
                yield session
        finally:
            engine.stop(grace_s=0.0)


async def _call(
    session: aiohttp.ClientSession, workflow: PromptedWorkflow, step: int, answer_tokens: int
) -> None:
    """One call of a workflow; what it answers does not matter, the script goes on."""
    last = step == len(workflow.calls) - 1
    invocation = {"workflow": workflow.workflow_id, "agent": workflow.calls[step].agent}
    body = {
        "model": "served",
        "messages": [
            {"role": "system", "content": workflow.system},
            {"role": "user", "content": workflow.user_message(step)},
        ],
        "max_tokens": answer_tokens,
        "ignore_eos": True,
        "custom_params": {"pbkv": invocation | ({"end": True} if last else {})},
    }
    async with session.post("/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        await answer.read()


async def _settled_metrics(session: aiohttp.ClientSession) -> dict[tuple[str, str], float]:
    """(metric, step or outcome) -> value, once the engine has judged what it is going to judge."""
    seen: list[dict[tuple[str, str], float]] = []
    while len(seen) < _QUIET_POLLS or any(each != seen[-1] for each in seen[-_QUIET_POLLS:]):
        async with session.get("/metrics") as answer:
            answer.raise_for_status()
            seen.append(_forecast_metrics(await answer.text()))
        await asyncio.sleep(_POLL_S)
    return seen[-1]


def _forecast_metrics(exposition: str) -> dict[tuple[str, str], float]:
    labels = {_ACCURACY: "k", _FORECASTS: "outcome"}
    return {
        (sample.name, sample.labels[labels[sample.name]]): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name in labels
    }
