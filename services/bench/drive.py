"""Replays scripted workflows against one engine, closed loop, and records every call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
import orjson

from pbkv.invocation import PARAMS_KEY, Invocation
from pbkv.workload import ScriptedCall, ScriptedWorkflow
from services.bench.render import SegmentRenderer


class BenchError(Exception):
    """The benchmark could not be run to its end; the text is one line."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What one call took. Tokens are counts, times are seconds."""

    workflow_id: str
    agent: str
    step: int
    prompt_tokens: int
    cached_device_tokens: int
    cached_host_tokens: int
    output_tokens: int
    ttft_s: float
    latency_s: float


@dataclass(slots=True)
class Replay:
    """One replay: its calls, the time of every workflow from its first send to its end, and that
    of the whole."""

    calls: list[CallRecord] = field(default_factory=list)
    workflow_latency_s: dict[str, float] = field(default_factory=dict)
    duration_s: float = 0.0


class Lifecycle(Protocol):
    """How an engine is told which workflow a call belongs to, and that a workflow is over."""

    def request_fields(self, workflow_id: str, call: ScriptedCall, last: bool) -> dict[str, Any]:
        """Fields to add to the body of ``/generate``."""
        ...

    async def ended(self, session: aiohttp.ClientSession, url: str, workflow_id: str) -> None:
        """The last call of the workflow returned."""
        ...


class Anonymous:
    """Tells the engine nothing: stock SGLang as most clients use it."""

    def request_fields(self, workflow_id: str, call: ScriptedCall, last: bool) -> dict[str, Any]:
        return {}

    async def ended(self, session: aiohttp.ClientSession, url: str, workflow_id: str) -> None:
        return None


class Invocations(Anonymous):
    """The plug-in's way: the invocation rides on the request, the last one carries the end."""

    def request_fields(self, workflow_id: str, call: ScriptedCall, last: bool) -> dict[str, Any]:
        invocation = Invocation(workflow_id, call.agent, at_s=0.0, end=last)
        return {"sampling_params": {"custom_params": {PARAMS_KEY: invocation.to_params()}}}


class Sessions(Anonymous):
    """Stock session-aware caching: a session per workflow, closed at its end."""

    def request_fields(self, workflow_id: str, call: ScriptedCall, last: bool) -> dict[str, Any]:
        return {"session_id": workflow_id}

    async def ended(self, session: aiohttp.ClientSession, url: str, workflow_id: str) -> None:
        body = {"session_id": workflow_id}
        async with session.post(f"{url}/close_session", json=body) as answer:
            if answer.status != 200:
                raise BenchError(f"close_session answered {answer.status}")


async def replay(
    url: str,
    workflows: Sequence[ScriptedWorkflow],
    renderer: SegmentRenderer,
    lifecycle: Lifecycle,
    *,
    concurrency: int,
) -> Replay:
    """Run ``workflows`` in order, ``concurrency`` at a time. Raises :class:`BenchError`."""
    result = Replay()
    began_s = time.perf_counter()
    waiting = iter(workflows)
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=600)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def work() -> None:
            for workflow in waiting:
                runner = _WorkflowRun(session, url, workflow, renderer, lifecycle)
                await runner.run(result)

        with _one_line_errors():
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())
    result.duration_s = time.perf_counter() - began_s
    return result


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except ExceptionGroup as group:
        first = group.exceptions[0]
        if isinstance(first, BenchError):
            raise first from None
        if isinstance(first, aiohttp.ClientError | TimeoutError):
            raise BenchError(f"the engine went away: {first!r}") from None
        raise


@dataclass(slots=True)
class _WorkflowRun:
    session: aiohttp.ClientSession
    url: str
    workflow: ScriptedWorkflow
    renderer: SegmentRenderer
    lifecycle: Lifecycle

    async def run(self, result: Replay) -> None:
        workflow = self.workflow
        held = {name: self.renderer.ids(kept) for name, kept in workflow.contexts.items()}
        started_s = time.perf_counter()
        for step, call in enumerate(workflow.calls):
            context = held[call.context]
            context += self.renderer.ids(call.added)
            prompt = context + self.renderer.ids(call.instruction)
            last = step == len(workflow.calls) - 1
            record, output = await self._call(prompt, call, step, last)
            result.calls.append(record)
            if call.keep_output:
                context += output
            if not last:
                await asyncio.sleep(call.pause_s)
        result.workflow_latency_s[workflow.workflow_id] = time.perf_counter() - started_s
        await self.lifecycle.ended(self.session, self.url, workflow.workflow_id)

    async def _call(
        self, prompt: list[int], call: ScriptedCall, step: int, last: bool
    ) -> tuple[CallRecord, list[int]]:
        workflow_id = self.workflow.workflow_id
        fields = self.lifecycle.request_fields(workflow_id, call, last)
        sampling = {
            "max_new_tokens": call.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            **fields.pop("sampling_params", {}),
        }
        body = {"input_ids": prompt, "sampling_params": sampling, "stream": True, **fields}
        sent_s = time.perf_counter()
        first_s = 0.0
        final: dict[str, Any] = {}
        async with self.session.post(
            f"{self.url}/generate", data=orjson.dumps(body), headers=_JSON
        ) as answer:
            if answer.status != 200:
                text = (await answer.text())[:200]
                raise BenchError(f"the engine answered {answer.status}: {text}")
            async for line in answer.content:
                if not line.startswith(b"data: {"):
                    continue
                first_s = first_s or time.perf_counter()
                final = orjson.loads(line[6:])
        if "error" in final or "meta_info" not in final:
            raise BenchError(f"the engine broke off a stream: {str(final)[:200]}")
        meta = final["meta_info"]
        tiers = meta.get("cached_tokens_details") or {"device": meta["cached_tokens"]}
        record = CallRecord(
            workflow_id=workflow_id,
            agent=call.agent,
            step=step,
            prompt_tokens=meta["prompt_tokens"],
            cached_device_tokens=tiers.get("device", 0),
            cached_host_tokens=tiers.get("host", 0),
            output_tokens=meta["completion_tokens"],
            ttft_s=first_s - sent_s,
            latency_s=time.perf_counter() - sent_s,
        )
        return record, final["output_ids"]


_JSON = {"Content-Type": "application/json"}
