"""An ordinary LangGraph application: it knows nothing of workflows. URL, how to run it, fault."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

URL, HOW = sys.argv[1:3]
llm = ChatOpenAI(model="fake-model", base_url=f"{URL}/v1", api_key="sk-test")


class State(TypedDict, total=False):
    claim: str
    text: str


def retriever(state: State) -> State:
    return {"text": llm.invoke(f"find {state['claim']}").content}


async def aretriever(state: State) -> State:
    return {"text": (await llm.ainvoke(f"find {state['claim']}")).content}


def verifier(state: State) -> State:
    return {"text": "".join(chunk.content for chunk in llm.stream("verify"))}


def failing(state: State) -> State:
    raise KeyboardInterrupt if HOW == "interrupt" else RuntimeError("the application failed")


async def averifier(state: State) -> State:
    return {"text": "".join([chunk.content async for chunk in llm.astream("verify")])}


def graph(find, verify):
    built = StateGraph(State)
    built.add_node("retriever", find)
    built.add_node("verifier", verify)
    built.add_edge(START, "retriever")
    built.add_edge("retriever", "verifier")
    built.add_edge("verifier", END)
    return built.compile()


def alone() -> None:
    graph(retriever, verifier).invoke({"claim": "x"})


def in_tasks() -> None:
    async def main() -> None:
        app = graph(aretriever, averifier)
        await asyncio.gather(*(app.ainvoke({"claim": str(i)}) for i in range(3)))

    asyncio.run(main())


def in_threads() -> None:
    app = graph(retriever, verifier)
    threads = [threading.Thread(target=app.invoke, args=({"claim": str(i)},)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def interleaved() -> None:
    app = graph(retriever, verifier)
    streams = [app.stream({"claim": str(i)}) for i in range(2)]
    for _ in zip(*streams, strict=True):
        pass


def nested() -> None:
    outer = StateGraph(State)
    outer.add_node("team", graph(retriever, verifier))
    outer.add_edge(START, "team")
    outer.add_edge("team", END)
    outer.compile().invoke({"claim": "x"}, config={"configurable": {"thread_id": "thread-7"}})


def pooled() -> None:
    def several(state: State) -> State:
        with ThreadPoolExecutor(2) as pool:
            found = pool.map(llm.invoke, [f"find {state['claim']} {i}" for i in range(2)])
        return {"text": " ".join(str(answer.content) for answer in found)}

    graph(several, verifier).invoke({"claim": "x"})


def broken() -> None:
    graph(retriever, failing).invoke({"claim": "x"})


if HOW == "all":
    for run in (alone, in_tasks, in_threads, interleaved, nested, pooled):
        run()
    with suppress(RuntimeError):
        broken()
    # Belongs to no workflow.
    llm.invoke("outside")
else:
    broken()
