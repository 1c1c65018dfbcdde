"""An ordinary CrewAI application."""

import asyncio
import os
import sys
import threading

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false"
)

from crewai import LLM, Agent, Crew, Process, Task

URL = sys.argv[1]


def crew() -> Crew:
    llm = LLM(model="openai/fake-model", base_url=f"{URL}/v1", api_key="sk-test")
    agents = [
        Agent(role=role, goal="to answer", backstory="a veteran", llm=llm, verbose=False)
        for role in ("Extractor", "Writer")
    ]
    tasks = [Task(description="do it", expected_output="text", agent=agent) for agent in agents]
    return Crew(agents=agents, tasks=tasks, process=Process.sequential, verbose=False)


threads = [threading.Thread(target=crew().kickoff) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
asyncio.run(crew().akickoff())
