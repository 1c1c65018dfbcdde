"""Values that between them switch everything on and off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.chart.helm import EXAMPLES

_SCALED = [{"name": "m", "source": "tiny", "replicas": {"min": 1, "max": 5}, "tp": 2}]

VALUES: dict[str, dict[str, Any] | Path] = {
    **{folder.name: folder / "values.yaml" for folder in EXAMPLES},
    "default": {},
    "cpu with everything": {
        "engine": {
            "mode": "cpu",
            "policyOptions": {"gamma": 0.5, "queue_knowledge": False, "max_workflows": 2000000},
            "extraArgs": ["--skip-server-warmup"],
            "env": [{"name": "LANG", "value": "C"}],
            "maxRunningRequests": 4,
            "chunkedPrefillSize": 512,
            "schedulePolicy": "lpm",
            "podAnnotations": {"a": "b"},
        },
        "models": [{"name": "m", "download": {"repo": "a/b"}, "replicas": {"min": 3}}],
        "router": {
            "settings": {"max_in_flight": 2000000, "trace_prompts": True, "refresh_s": 0.25},
            "auth": {"apiKeys": {"secret-key-1": "team-a"}},
            "service": {"type": "LoadBalancer", "annotations": {"x": "z"}},
            "priorityClassName": "high",
        },
        "trainer": {"enabled": True},
        "load": {"enabled": True, "apiKeySecret": "k"},
        "tests": {"apiKeySecret": "k"},
        "metrics": {"serviceMonitor": True, "rules": True, "dashboards": True},
        "fleet": {"extraTaints": ["example.com/going"]},
        "imagePullSecrets": ["registry"],
        "commonLabels": {"team": "llm"},
        "images": {"router": {"digest": "sha256:" + "0" * 64}},
        "networkPolicy": {"clients": [{"podSelector": {}}]},
        "redis": {"auth": {"password": "in-the-open-1"}, "internal": {"persistence": False}},
    },
    "ray, scaled, two per pod": {"models": _SCALED, "engine": {"ray": {"replicasPerPod": 2}}},
    "everything off": {
        "fleet": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "tests": {"enabled": False},
        "engine": {"pdb": {"maxUnavailable": None}, "ray": {"gcsFaultTolerance": False}},
        "router": {"pdb": {"maxUnavailable": None}},
    },
    "sentinel with tls": {
        "redis": {
            "mode": "external",
            "auth": {"existingSecret": "r", "username": "pbkv"},
            "database": 3,
            "external": {
                "port": 6390,
                "tls": {"enabled": True, "caSecret": "ca"},
                "sentinel": {"enabled": True, "hosts": ["s1", "s2"], "masterName": "pins"},
            },
        },
        "metrics": {"scrapeConfig": True},
    },
    "no nodes": {"fleet": {"watchNodes": False}},
    "extra objects": {
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "{{ .Release.Name }}-extra"},
            },
            'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "{{ .Release.Name }}-text"}',
        ]
    },
}
