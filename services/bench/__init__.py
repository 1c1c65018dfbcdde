"""Benchmarks: the same scripted work against every variant, interleaved in one run."""
