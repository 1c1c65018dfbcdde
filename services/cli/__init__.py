"""The command line, ``pbkv``."""
