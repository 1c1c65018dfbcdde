"""An ordinary application of the OpenAI library, over httpx or httpx2."""

import importlib
import sys

from openai import OpenAI

URL, LIBRARY = sys.argv[1:3]
http = importlib.import_module(LIBRARY).Client()
client = OpenAI(base_url=f"{URL}/v1", api_key="sk-test", http_client=http)
for role in ("planner", "planner", "writer"):
    client.chat.completions.create(
        model="fake-model",
        messages=[
            {"role": "system", "content": f"You are the {role}."},
            {"role": "user", "content": "hello"},
        ],
    )
