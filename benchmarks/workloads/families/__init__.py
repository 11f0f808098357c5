"""Lists of workloads, a heading each: every file has a `family`, and `selection.py` has them all."""
