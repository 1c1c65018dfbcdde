"""A served checkpoint against itself: live accuracy of its forecasts, and accuracy offline.

An engine serves the checkpoint, a few workflows at a time send it their prompts, call after call,
and its own metrics say how good the forecasts were. The same network then forecasts the same
prefixes from the hidden states that :mod:`services.predict.encoder` computes. What parts the two is
the service: states taken from the engine's batches, forecasts that came late, calls answered blind.

So the engine also writes the states that it took, and the network forecasts from those as well,
call by call. Live against that is what lateness costs; that against offline is what the states
differ by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from pbkv.hidden_source import NO_SOURCE
from pbkv.predict.accuracy import WINDOW
from pbkv.predict.checkpoint import read_hidden_source
from pbkv.predict.data.prompted import PromptedWorkflow
from pbkv.predict.dataset import make_examples
from pbkv.predict.network_checkpoint import load_network
from pbkv.predict.network_predictor import network_forecasts
from pbkv.predict.paired import PairedStep, paired_steps
from pbkv.predict.scores import score_steps
from pbkv.predict.vocabulary import Vocabulary
from pbkv.settings import PolicySettings
from pbkv.trace.hidden import read_states
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
    """Accuracy per step, and what became of the forecasts, by outcome.

    ``paired`` is per step the forecasts from the engine's own hidden states against those offline,
    on the ``paired_calls`` calls whose state the engine wrote; empty if the network reads none.
    """

    live: tuple[float, ...]
    offline: tuple[float, ...]
    calls: int
    outcomes: dict[str, int]
    paired: tuple[PairedStep, ...] = ()
    paired_calls: int = 0

    @property
    def largest_difference(self) -> float:
        return max(abs(a - b) for a, b in zip(self.live, self.offline, strict=True))


@dataclass(frozen=True, slots=True)
class ServedRun:
    """What an engine said of its forecasts, and the hidden states that it took.

    ``states`` has per workflow one entry a call, (D,), None where the engine wrote none.
    """

    accuracy: tuple[float, ...]
    outcomes: dict[str, int]
    states: list[list[NDArray[np.float32] | None]]


async def serve_and_drive(
    checkpoint: Path,
    workflows: Sequence[PromptedWorkflow],
    model_path: Path,
    *,
    at_a_time: int = 4,
    answer_tokens: int = ANSWER_TOKENS,
    progress: Callable[[int], None] = lambda calls: None,
) -> ServedRun:
    """Send every call of every workflow to an engine that serves ``checkpoint``.

    Raises an engine's error and :class:`aiohttp.ClientError`.
    """
    waiting = iter(enumerate(workflows))
    request_ids: dict[str, tuple[int, int]] = {}
    with TemporaryDirectory(prefix="pbkv-live-") as name:
        folder = Path(name)
        async with _serving(checkpoint, model_path, folder) as session:

            async def client() -> None:
                for index, workflow in waiting:
                    for step in range(len(workflow.calls)):
                        request_id = await _call(session, workflow, step, answer_tokens)
                        request_ids[request_id] = (index, step)
                        progress(len(request_ids))

            async with asyncio.TaskGroup() as clients:
                for _ in range(at_a_time):
                    clients.create_task(client())
            # Longer than it takes the engine to write the states that it still holds.
            metrics = await _settled_metrics(session)
        states = await asyncio.to_thread(_written_states, folder, request_ids, workflows)
    steps = sorted(
        (int(step), value) for (name, step), value in metrics.items() if name == _ACCURACY
    )
    outcomes = {label: int(value) for (name, label), value in metrics.items() if name == _FORECASTS}
    return ServedRun(tuple(value for _, value in steps), outcomes, states)


async def compare(
    checkpoint: Path,
    workflows: Sequence[PromptedWorkflow],
    states: Sequence[NDArray[np.float16]] | None,
    model_path: Path,
    *,
    answer_tokens: int = ANSWER_TOKENS,
    progress: Callable[[int], None] = lambda calls: None,
) -> LiveAccuracies:
    """Live and offline accuracy; ``states`` holds (calls, D) per workflow.

    The engine reports its last forecasts: at most that many calls compare. A forecast that comes
    after the next call is none, so answers must take as long as forecasts do.
    """
    calls = sum(len(workflow.calls) for workflow in workflows)
    if calls > WINDOW:
        raise ValueError(f"{calls} calls; live accuracy is that of the last {WINDOW}")
    served = await serve_and_drive(
        checkpoint, workflows, model_path, answer_tokens=answer_tokens, progress=progress
    )
    network, content, _ = load_network(checkpoint)
    vocabulary = Vocabulary(content.agents, max_agents=len(content.agents))
    traces = [workflow.agents for workflow in workflows]
    examples = make_examples(traces, states, vocabulary, steps=content.steps)
    offline, _ = network_forecasts(network, examples.prefixes)
    found = LiveAccuracies(
        served.accuracy,
        tuple(step.accuracy for step in score_steps(offline, examples.targets)),
        calls,
        served.outcomes,
    )
    taken = [state for workflow in served.states for state in workflow]
    rows = np.flatnonzero([state is not None for state in taken])
    if states is None or len(rows) == 0:
        return found
    hidden = np.stack([state for state in taken if state is not None])
    from_engine, _ = network_forecasts(network, examples.rows(rows).with_hidden(hidden).prefixes)
    paired = paired_steps(from_engine, offline[rows], examples.targets[rows])
    return replace(found, paired=paired, paired_calls=len(rows))


def _written_states(
    folder: Path,
    request_ids: Mapping[str, tuple[int, int]],
    workflows: Sequence[PromptedWorkflow],
) -> list[list[NDArray[np.float32] | None]]:
    """As :attr:`ServedRun.states`; ``request_ids`` says which call of which workflow each is."""
    states: list[list[NDArray[np.float32] | None]] = [[None] * len(w.calls) for w in workflows]
    if any(folder.glob("hidden-*")):
        for state in read_states(folder):
            index, step = request_ids[state.request_id]
            states[index][step] = state.hidden_state
    return states


@asynccontextmanager
async def _serving(
    checkpoint: Path, model_path: Path, folder: Path
) -> AsyncIterator[aiohttp.ClientSession]:
    """An engine under the lookahead policy, ready, and a session to it.

    It writes its log to ``folder``, and the hidden states of prompts if the checkpoint reads any.
    """
    reads = read_hidden_source(checkpoint) != NO_SOURCE
    policy = PolicySettings(
        policy="he",
        predictor="checkpoint",
        predictor_checkpoint=str(checkpoint),
        trace_hidden_dir=str(folder) if reads else "",
        trace_hidden_flush_s=_POLL_S,
    )
    engine = EngineProcess(
        EngineOptions(
            model_path,
            "served",
            free_port("127.0.0.1"),
            policy=policy,
            kv_tokens=32_768,
            log_path=folder / "engine.log",
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
) -> str:
    """One call of a workflow; the engine's id of it. The script goes on, whatever it answers."""
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
        return str((await answer.json())["id"])


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
