"""Each workload's application, with the framework's client for the endpoint in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from loadgen.errors import BadLoad
from loadgen.programs.plan import Plan
from loadgen.programs.wire import ProgramPlan
from pbkv.workload import ScriptedWorkflow

Application = Callable[[ScriptedWorkflow, Plan], Awaitable[str]]

_NO_KEY = "none"
"""OpenAI's library refuses to start without one."""


def application(given: ProgramPlan) -> Application:
    """The program of ``given.workload``; only its framework is imported."""
    make = _APPLICATIONS.get(given.workload)
    if make is None:
        raise BadLoad(f"no program for the workload {given.workload!r}")
    return make(given)


def _hover(given: ProgramPlan) -> Application:
    import httpx
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    from loadgen.programs.hover import verify
    from loadgen.tools.retriever import CORPUS_FILE, Retriever, read_corpus, sample_corpus
    from pbkv.workload.data import load_claims
    from pbkv.workload.sample import sample_claims

    folder = Path(given.data_dir) if given.data_dir else None
    corpus_file = folder / CORPUS_FILE if folder else None
    if corpus_file is not None and corpus_file.is_file():
        corpus = read_corpus(corpus_file)
    else:
        corpus = sample_corpus(load_claims(folder) if folder else sample_claims(200))
    retriever = Retriever(corpus)
    llm = ChatOpenAI(
        model=given.model,
        base_url=f"{given.url}/v1",
        api_key=SecretStr(given.api_key or _NO_KEY),
        streaming=True,
        stream_usage=True,
        temperature=0,
        max_retries=2,
        timeout=given.request_timeout_s,
        http_async_client=httpx.AsyncClient(**_options(given)),
    )

    async def run(script: ScriptedWorkflow, plan: Plan) -> str:
        claim = next(s.text for held in script.contexts.values() for s in held if s.text)
        return await verify(claim, plan, llm, retriever)

    return run


def _swebench(given: ProgramPlan) -> Application:
    import httpx
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    from loadgen.programs.swebench import repair
    from loadgen.tools.repository import sample_repository

    client = OpenAIChatCompletionClient(
        model=given.model,
        base_url=f"{given.url}/v1",
        api_key=given.api_key or _NO_KEY,
        include_name_in_message=False,
        stream_options={"include_usage": True},
        temperature=0,
        max_retries=2,
        timeout=given.request_timeout_s,
        http_client=httpx.AsyncClient(**_options(given)),
        model_info={
            "vision": False,
            "function_calling": False,
            "json_output": False,
            "family": "unknown",
            "structured_output": False,
            "multiple_system_messages": True,
        },
    )

    async def run(script: ScriptedWorkflow, plan: Plan) -> str:
        return await repair(sample_repository(script.workflow_id), plan, client)

    return run


def _financebench(given: ProgramPlan) -> Application:
    from crewai import LLM

    from loadgen.programs.finance import analyse
    from loadgen.tools.documents import (
        DOCUMENTS_DIR,
        read_documents,
        sample_document,
        sample_question,
    )

    folder = Path(given.data_dir) / DOCUMENTS_DIR if given.data_dir else None
    documents = read_documents(folder) if folder is not None and folder.is_dir() else []
    llm = LLM(
        model=f"openai/{given.model}",
        base_url=f"{given.url}/v1",
        api_key=given.api_key or _NO_KEY,
        stream=True,
        temperature=0,
        timeout=given.request_timeout_s,
    )

    async def run(script: ScriptedWorkflow, plan: Plan) -> str:
        seed = _document_seed(script)
        document = (
            documents[crc32(seed.encode()) % len(documents)] if documents else sample_document(seed)
        )
        return await analyse(sample_question(document, script.workflow_id), document, plan, llm)

    return run


def _document_seed(script: ScriptedWorkflow) -> str:
    """Workflows whose scripts share a page share a document."""
    segments = [segment for held in script.contexts.values() for segment in held]
    return next(s.seed for s in segments if s.seed.startswith("finance/page/"))


def _options(given: ProgramPlan) -> dict[str, Any]:
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return {"limits": limits, "timeout": given.request_timeout_s}


_APPLICATIONS: dict[str, Callable[[ProgramPlan], Application]] = {
    "hover": _hover,
    "swebench": _swebench,
    "financebench": _financebench,
}
