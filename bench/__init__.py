"""Benchmarks: what Tacit promises, measured against peers in the same run."""
