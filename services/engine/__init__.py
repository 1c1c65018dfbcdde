"""One SGLang server as a child process: its options, its start and its end.

Nothing here imports Ray or SGLang, so that a benchmark can run an engine alone.
"""

from services.engine.errors import EngineError, EngineExited, EngineNotReady, InvalidEngineOptions
from services.engine.options import CacheBackend, Device, EngineOptions, command, environment
from services.engine.process import EngineProcess

__all__ = [
    "CacheBackend",
    "Device",
    "EngineError",
    "EngineExited",
    "EngineNotReady",
    "EngineOptions",
    "EngineProcess",
    "InvalidEngineOptions",
    "command",
    "environment",
]
