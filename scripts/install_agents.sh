#!/usr/bin/env bash
# Builds .venv-agents: the agent frameworks, whose needs contradict those of the engine (newer
# openai, older pydantic). A second run with the same inputs ends at once; an interrupted one
# continues where it was.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv-agents STAMP=.venv-agents/.pbkv-installed LOG=.venv-agents/install.log
readonly NEEDED_MB=1500
PYTHON=${PYTHON:-python3.11}

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Of pyproject.toml only what is installed here counts: this environment takes minutes to check.
inputs_hash() {
    {
        pwd -P
        sed -n '/^dependencies = \[/,/^\]/p; /^agents = \[/,/^\]/p' pyproject.toml
        cat constraints-agents.txt scripts/install_agents.sh
    } | sha256sum
}
is_current() { [[ -x $VENV/bin/python && -f $STAMP && $(<"$STAMP") == "$(inputs_hash)" ]]; }

is_current && exit 0
# Two makes at once: the second waits here, then finds the work done.
exec 9<scripts/install_agents.sh
flock 9
is_current && exit 0

[[ $("$PYTHON" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) == "3 11" ]] ||
    fail "$PYTHON is not a Python 3.11; install one, or name it: make agents PYTHON=/path/to/python3.11"
free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
[[ -d $VENV ]] || ((free_mb >= NEEDED_MB)) ||
    fail "the agent frameworks need $NEEDED_MB MB of disk, $PWD has $free_mb MB"

if [[ -d $VENV ]]; then
    echo "Bringing $PWD/$VENV up to date."
else
    echo "Setting up $PWD/$VENV: the agent frameworks, about 1.1 GB and 2 minutes, once."
fi
rm -f "$STAMP"
"$VENV/bin/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv --clear "$VENV"
# pip writes RECORD last: a package without one was cut short, and pip would think it whole.
find "$VENV"/lib/python3.11/site-packages -maxdepth 1 -name '*.dist-info' |
    while read -r info; do [[ -f $info/RECORD ]] || rm -rf "$info"; done
if ! "$VENV/bin/python" -m pip install --constraint constraints-agents.txt \
    --editable '.[agents]' >"$LOG" 2>&1 </dev/null; then
    tail -n 15 "$LOG" | cut -c 1-400 >&2
    echo "error: the agent frameworks could not be installed; all of pip's output is in $LOG." >&2
    if grep -qiE 'connection|resolve|timed out|could not find a version' "$LOG"; then
        echo "  Is the package index within reach (PIP_INDEX_URL, proxy)?" >&2
    fi
    echo "  The same command continues. Every other test: .venv/bin/python -m pytest" >&2
    exit 1
fi
inputs_hash >"$STAMP"
echo "Ready after $SECONDS s."
