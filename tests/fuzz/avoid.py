"""Subjects that generators may be told to keep away from (`--avoid NAME`) while a fault of theirs is known and open.

A name goes with its fault; the fuzzer is then what tests the repair.
"""

from __future__ import annotations

AVOIDABLE: dict[str, str] = {
    "overflow": "numbers whose sums or squares overflow",
}
