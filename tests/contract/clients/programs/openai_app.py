"""An ordinary application of the OpenAI library, over httpx and httpx2."""

import importlib
import sys

from openai import OpenAI

URL = sys.argv[1]
for library in ("httpx", "httpx2"):
    http = importlib.import_module(library).Client()
    client = OpenAI(base_url=f"{URL}/v1", api_key="sk-test", http_client=http)
    for role in ("planner", "planner", "writer"):
        client.chat.completions.create(
            model="fake-model",
            messages=[
                {"role": "system", "content": f"You are the {role}."},
                {"role": "user", "content": "hello"},
            ],
        )
