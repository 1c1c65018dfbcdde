"""Agents, workloads and the client that measure a PBKV stack over HTTP."""
