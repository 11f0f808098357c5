"""Finds counters: places in memory to which programs only add."""
