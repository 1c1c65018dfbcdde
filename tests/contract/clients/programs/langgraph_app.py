"""An ordinary LangGraph application: it knows nothing of workflows. URL, how to run it, fault."""

import asyncio
import sys
import threading
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
    if HOW == "raise":
        raise RuntimeError("the application failed")
    if HOW == "interrupt":
        raise KeyboardInterrupt
    return {"text": "".join(chunk.content for chunk in llm.stream("verify"))}


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


if HOW == "async":

    async def main():
        app = graph(aretriever, averifier)
        await asyncio.gather(*(app.ainvoke({"claim": str(i)}) for i in range(3)))

    asyncio.run(main())
elif HOW == "threads":
    app = graph(retriever, verifier)
    threads = [threading.Thread(target=app.invoke, args=({"claim": str(i)},)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
elif HOW == "interleaved":
    app = graph(retriever, verifier)
    streams = [app.stream({"claim": str(i)}) for i in range(2)]
    for _ in zip(*streams, strict=True):
        pass
    for stream in streams:
        list(stream)
elif HOW == "nested":
    inner = graph(retriever, verifier)
    outer = StateGraph(State)
    outer.add_node("team", inner)
    outer.add_edge(START, "team")
    outer.add_edge("team", END)
    outer.compile().invoke({"claim": "x"}, config={"configurable": {"thread_id": "thread-7"}})
else:
    graph(retriever, verifier).invoke({"claim": "x"})
