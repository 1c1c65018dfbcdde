#!/usr/bin/env bash
# Builds .venv with the real engine for CPUs, in the order that pip needs (see pyproject.toml).
# A second run with the same inputs ends at once; an interrupted run continues where it was.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv STAMP=.venv/.pbkv-installed LOG=.venv/install.log
readonly NEEDED_MB=4000 STEPS=5
PYTHON=${PYTHON:-python3.11}
PIP_LIMITED=(-m pip install --constraint constraints.txt)

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
step() { printf '[%s/%s] %s\n' "$1" "$STEPS" "$2"; }

# The folder counts too: an environment does not survive being moved.
inputs_hash() { { pwd -P; cat pyproject.toml constraints.txt scripts/install.sh; } | sha256sum; }

is_current() { [[ -x $VENV/bin/python && -f $STAMP && $(<"$STAMP") == "$(inputs_hash)" ]]; }

run() { # quietly; some machines' pip is chatty about settings that do not matter here
    "$VENV/bin/python" "$@" >>"$LOG" 2>&1 </dev/null && return
    tail -n 15 "$LOG" | cut -c 1-400 >&2
    fail "the last step failed; all of its output is in $LOG; run the same command to continue"
}

check_machine() {
    [[ $("$PYTHON" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) == "3 11" ]] ||
        fail "$PYTHON is not a Python 3.11; install one, or name it: make install PYTHON=/path/to/python3.11"
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$PYTHON has no venv module; install it (package python3.11-venv on Debian and Ubuntu)"
    local free_mb
    free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
    [[ -d $VENV ]] || ((free_mb >= NEEDED_MB)) ||
        fail "the environment needs $NEEDED_MB MB of disk, $PWD has $free_mb MB"
}

make_venv() {
    "$VENV/bin/python" -c '' 2>/dev/null && "$VENV/bin/python" -m pip --version >/dev/null 2>&1 ||
        "$PYTHON" -m venv --clear "$VENV"
    # pip writes RECORD last: a package without one was cut short, and pip would think it whole.
    find "$VENV"/lib/python3.11/site-packages -maxdepth 1 -name '*.dist-info' |
        while read -r info; do [[ -f $info/RECORD ]] || rm -rf "$info"; done
    : >"$LOG"
}

is_current && exit 0
# Two makes at once: the second waits here, then finds the work done. The lock is on this
# script, because .venv may be removed and created again.
exec 9<scripts/install.sh
flock 9
is_current && exit 0

check_machine
if [[ -d $VENV ]]; then
    echo "Bringing $PWD/$VENV up to date."
else
    echo "Setting up $PWD/$VENV: about 3.3 GB and 3 minutes, once."
fi
step 1 "environment of $("$PYTHON" --version)"
make_venv
rm -f "$STAMP"
run "${PIP_LIMITED[@]}" pip setuptools

# Alone and without constraints: so pip takes a CPU build where the index has one, and where
# it has none the CUDA build may bring its own libraries.
step 2 "torch 2.13.0"
run -m pip install torch==2.13.0
variant=$("$VENV/bin/python" -W ignore -c 'import torch; print(torch.__version__, torch.version.cuda or "")')
if [[ $variant == *" "[0-9]* ]]; then
    echo "      torch $variant is a CUDA build: it works here, but takes about 5 GB more;" \
        "an index with CPU builds (PIP_EXTRA_INDEX_URL) avoids that"
else
    echo "      torch ${variant% }"
fi

# Their declared needs are CUDA kernels, which the CPU path never calls.
step 3 "sglang 0.5.23 without its CUDA requirements"
run "${PIP_LIMITED[@]}" --no-deps sglang triton apache-tvm-ffi compressed-tensors xgrammar torch_memory_saver

step 4 "everything else the engine, Ray Serve, the router and the tests need"
run "${PIP_LIMITED[@]}" --no-build-isolation --editable '.[engine,dev]'

step 5 "checking that it imports"
run -c 'import ray, redis, sglang.version, torch, transformers'
inputs_hash >"$STAMP"
echo "Ready after $((SECONDS / 60)) min $((SECONDS % 60)) s, $(du -sh "$VENV" | cut -f1) in $VENV."
