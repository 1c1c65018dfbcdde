# syntax=docker/dockerfile:1
# Three images: docker build --target router|engine-cpu|engine -t pbkv/TARGET:0.1.0 .
#
#   router      router, fleet watcher, load generator; no torch
#   engine-cpu  the engine without a GPU, with two small models inside
#   engine      the engine on CUDA; Ray for KubeRay
#
# Tests: tests/chart/test_dockerfile.py.

ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm
# The base of SGLang's own images. Not those images themselves: they carry Python 3.12, and this
# package is tested on 3.11.
ARG CUDA_IMAGE=nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04
ARG UV_IMAGE=ghcr.io/astral-sh/uv:0.9.5

# --- The project as a wheel -----------------------------------------------------------------
FROM ${PYTHON_IMAGE} AS wheel
RUN pip install --no-cache-dir build==1.3.0
WORKDIR /src
COPY pyproject.toml README.md ./
COPY pbkv pbkv
COPY router router
COPY services services
COPY loadgen loadgen
RUN python -m build --wheel --outdir /wheels

# --- Router ---------------------------------------------------------------------------------
FROM ${PYTHON_IMAGE} AS router-build
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /wheels /wheels
RUN python -m venv /opt/pbkv \
    && wheel=$(ls /wheels/pbkv-*.whl) \
    && /opt/pbkv/bin/pip install --no-cache-dir --constraint /tmp/constraints.txt "${wheel}[cluster]"

FROM ${PYTHON_IMAGE} AS router
LABEL org.opencontainers.image.title="pbkv-router" \
      org.opencontainers.image.description="Router, fleet watcher and load generator of PBKV" \
      org.opencontainers.image.version="0.1.0"
RUN groupadd --gid 10001 pbkv && useradd --uid 10001 --gid 10001 --no-create-home pbkv
COPY --from=router-build /opt/pbkv /opt/pbkv
ENV PATH=/opt/pbkv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 10001:10001
EXPOSE 8000
# For plain docker; in Kubernetes the chart's probes take its place.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
CMD ["pbkv", "serve", "router", "--host", "0.0.0.0"]

# --- Engine without a GPU -------------------------------------------------------------------
# The same order as scripts/install.sh, for the reasons given there.
FROM ${PYTHON_IMAGE} AS engine-cpu-build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential \
    && rm -rf /var/lib/apt/lists/*
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt /tmp/constraints.txt
RUN python -m venv /opt/pbkv \
    && /opt/pbkv/bin/pip install --no-cache-dir --index-url ${TORCH_INDEX} torch==2.13.0
RUN /opt/pbkv/bin/pip install --no-cache-dir --constraint /tmp/constraints.txt --no-deps \
        sglang triton apache-tvm-ffi compressed-tensors xgrammar torch_memory_saver
COPY --from=wheel /wheels /wheels
RUN wheel=$(ls /wheels/pbkv-*.whl) \
    && /opt/pbkv/bin/pip install --no-cache-dir --constraint /tmp/constraints.txt "${wheel}[engine]"
# Small enough to be inside, so that a first `helm install` waits for no download.
ENV PBKV_CACHE_DIR=/opt/pbkv-models
RUN /opt/pbkv/bin/python -m services.models smollm2 && /opt/pbkv/bin/python -m services.models tiny

FROM ${PYTHON_IMAGE} AS engine-cpu
LABEL org.opencontainers.image.title="pbkv-engine-cpu" \
      org.opencontainers.image.description="SGLang with the PBKV cache on CPUs" \
      org.opencontainers.image.version="0.1.0"
# gcc: torch compiles small kernels when it starts.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc g++ libnuma1 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 pbkv && useradd --uid 10001 --gid 10001 --no-create-home pbkv
COPY --from=engine-cpu-build /opt/pbkv /opt/pbkv
COPY --from=engine-cpu-build /opt/pbkv-models /opt/pbkv-models
ENV PATH=/opt/pbkv/bin:$PATH PBKV_CACHE_DIR=/opt/pbkv-models \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 10001:10001
EXPOSE 30000
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:30000/health', timeout=4)"]
CMD ["pbkv", "serve", "replica", "--model", "smollm2", "--device", "cpu", "--host", "0.0.0.0", "--port", "30000"]

# --- Engine on CUDA -------------------------------------------------------------------------
FROM ${UV_IMAGE} AS uv

FROM ${CUDA_IMAGE} AS engine
LABEL org.opencontainers.image.title="pbkv-engine" \
      org.opencontainers.image.description="SGLang with the PBKV cache on CUDA, for KubeRay" \
      org.opencontainers.image.version="0.1.0"
# wget: the probes that KubeRay puts into Ray's pods. The compilers: kernels built at the start.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential libnuma1 wget \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 pbkv && useradd --uid 10001 --gid 10001 --no-create-home pbkv
COPY --from=uv /uv /usr/local/bin/uv
ENV UV_PYTHON_INSTALL_DIR=/opt/python UV_NO_CACHE=1
RUN uv python install 3.11.13 && uv venv --python 3.11.13 /opt/pbkv
COPY constraints-gpu.txt /tmp/constraints.txt
COPY --from=wheel /wheels /wheels
RUN wheel=$(ls /wheels/pbkv-*.whl) \
    && VIRTUAL_ENV=/opt/pbkv uv pip install --constraint /tmp/constraints.txt "${wheel}[gpu]"
ENV PATH=/opt/pbkv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 10001:10001
# No HEALTHCHECK: under KubeRay the raylet is asked, by probes of the operator.
CMD ["pbkv", "version"]
