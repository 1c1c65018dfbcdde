"""PBKV: prediction-based KV-cache management for dynamic agent workflows.

The core of this package is pure Python and numpy. Only ``pbkv.sglang`` imports the engine.
"""

__version__ = "0.1.0"
