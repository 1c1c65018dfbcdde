"""What ``helm test`` runs: chat.py URL SECONDS MODEL... ; exits 1 with one line on a failure.

Standard library only. Waits until a replica is ready, then asks every model one question, as one
workflow, and looks at what an answer must have.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

RETRY_S = 2.0
WORKFLOW = "helm-test"


def call(url, body=None):
    """The answer's JSON and headers. Raises OSError, urllib's HTTPError included."""
    headers = {"Content-Type": "application/json"}
    headers |= {"X-Workflow-ID": WORKFLOW, "X-Agent-Name": "helm"}
    if os.environ.get("PBKV_API_KEY"):
        headers["Authorization"] = "Bearer " + os.environ["PBKV_API_KEY"]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer), answer.headers


def wait_for_models(base, models, deadline):
    """Until every model is served."""
    problem = "not tried"
    while time.monotonic() < deadline:
        try:
            served = {entry["id"] for entry in call(base + "/v1/models")[0]["data"]}
            missing = sorted(set(models) - served)
            if not missing:
                return
            problem = "not served yet: " + ", ".join(missing)
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise SystemExit(f"{base} wants an API key: set tests.apiKeySecret") from None
            problem = f"{base} answered {error.code}"
        except OSError as error:
            problem = f"{base}: {error}"
        time.sleep(RETRY_S)
    raise SystemExit("gave up waiting: " + problem)


def chat(base, model):
    """One request; exits on an answer that lacks what a client relies on."""
    question = {"role": "user", "content": "Say hello in one short sentence."}
    body = {"model": model, "messages": [question], "max_tokens": 16}
    try:
        answer, headers = call(base + "/v1/chat/completions", body)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{model} answered {error.code}: {error.read(500)!r}") from None
    if not answer["choices"][0]["message"]["content"] or answer["usage"]["completion_tokens"] < 1:
        raise SystemExit(f"{model} answered without a token")
    if headers.get("X-Workflow-ID") != WORKFLOW or not headers.get("X-PBKV-Replica"):
        raise SystemExit(f"{model} answered, but not as a pinned workflow")
    tokens = answer["usage"]["completion_tokens"]
    print(f"{model}: {tokens} tokens from {headers['X-PBKV-Replica']}")


def main():
    base, seconds, *models = sys.argv[1:]
    wait_for_models(base, models, time.monotonic() + float(seconds))
    for model in models:
        chat(base, model)


if __name__ == "__main__":
    main()
