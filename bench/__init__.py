"""Benchmarks: how long searches take, measured one by one in fresh processes. Run with `python -m bench`."""
