#!/usr/bin/env bash
# The chart on kind: builds two images, loads them, installs, and sends a chat request.
# Needs docker, kind, kubectl and helm; 10 GB of disk and 8 GB of memory for docker.
#
#   scripts/kind_up.sh          everything; again after a change
#   scripts/kind_up.sh delete   remove the cluster
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly CLUSTER=${CLUSTER:-pbkv} NAMESPACE=pbkv TAG=${TAG:-0.1.0}
readonly VALUES=charts/pbkv/examples/kind-cpu/values.yaml

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }

case ${1:-} in
    ""|delete) ;;
    *) fail "unknown argument $1; usage: scripts/kind_up.sh [delete]" ;;
esac
missing=()
for tool in docker kind kubectl helm; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
[[ ${#missing[@]} == 0 ]] || fail "not installed: ${missing[*]}; see docs/kubernetes.md"
docker info >/dev/null 2>&1 || fail "docker does not answer: start it, or add this user to its group"

if [[ ${1:-} == delete ]]; then
    exec kind delete cluster --name "$CLUSTER"
fi

memory=$(docker info --format '{{.MemTotal}}')
(( memory >= 6 * 1024 ** 3 )) || fail "docker has $(( memory >> 20 )) MiB of memory; the stack needs 6 GiB"

step "images"
for target in router engine-cpu; do
    docker build --target "$target" --tag "pbkv/$target:$TAG" .
done

step "cluster $CLUSTER"
kind get clusters 2>/dev/null | grep -qx "$CLUSTER" || kind create cluster --name "$CLUSTER"
kind load docker-image --name "$CLUSTER" "pbkv/router:$TAG" "pbkv/engine-cpu:$TAG"

step "release"
# The first start of the engine takes a minute or two; --wait covers it.
helm upgrade --install pbkv charts/pbkv --kube-context "kind-$CLUSTER" \
    --namespace "$NAMESPACE" --create-namespace --values "$VALUES" --wait --timeout 15m

step "a chat request"
helm test pbkv --kube-context "kind-$CLUSTER" --namespace "$NAMESPACE" --logs

cat <<EOF

It runs. To reach it:
  kubectl --context kind-$CLUSTER -n $NAMESPACE port-forward svc/pbkv-router 8000:80
  curl http://127.0.0.1:8000/v1/models
EOF
