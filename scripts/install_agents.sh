#!/usr/bin/env bash
# Builds .venv-agents: the agent frameworks, whose needs contradict those of the engine (newer
# openai, older pydantic). A second run with the same inputs ends at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv-agents STAMP=.venv-agents/.pbkv-installed LOG=.venv-agents/install.log
PYTHON=${PYTHON:-python3.11}

inputs_hash() { { pwd -P; cat pyproject.toml scripts/install_agents.sh; } | sha256sum; }
is_current() { [[ -x $VENV/bin/python && -f $STAMP && $(<"$STAMP") == "$(inputs_hash)" ]]; }

is_current && exit 0
exec 9<scripts/install_agents.sh
flock 9
is_current && exit 0

echo "Setting up $PWD/$VENV: the agent frameworks, about 1.1 GB and 2 minutes, once."
rm -f "$STAMP"
"$VENV/bin/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv --clear "$VENV"
if ! "$VENV/bin/python" -m pip install --editable '.[agents]' >"$LOG" 2>&1 </dev/null; then
    tail -n 15 "$LOG" | cut -c 1-400 >&2
    echo "error: all of pip's output is in $LOG; run the same command to continue" >&2
    exit 1
fi
inputs_hash >"$STAMP"
echo "Ready after $SECONDS s."
