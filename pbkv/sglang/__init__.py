"""The plug-in for stock SGLang: the only package here that imports ``sglang``.

Importing this package or :mod:`pbkv.sglang.platform` imports no part of the engine, because the
engine loads them while it is itself half imported.
"""

SUPPORTED_SGLANG = "0.5.23"
"""The one SGLang version whose seams the plug-in was written and tested against."""

BACKEND_NAME = "pbkv"
"""The value of ``--radix-cache-backend`` that selects the plug-in."""

TREE_CORE_NAME = "pbkv"
"""The name of the plug-in's tree core in SGLang's registry."""
