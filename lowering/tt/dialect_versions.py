"""Lists the names of operations that changed between the Triton versions whose texts are read.

Operations have the names of Triton 3.9; those of 3.3 (`spelling="seed"`) are read, and printed on request.
"""

from __future__ import annotations

DIALECT_VERSIONS = ("3.9", "seed")
OLD_NAMES = {
    "tt.descriptor_load": "tt.experimental_descriptor_load",
    "tt.descriptor_store": "tt.experimental_descriptor_store",
    "tt.descriptor_reduce": "tt.experimental_descriptor_reduce",
    "tt.descriptor_gather": "tt.experimental_descriptor_gather",
    "tt.descriptor_scatter": "tt.experimental_descriptor_scatter",
    "ttng.tensormap_create": "tt.experimental_tensormap_create",
    "ttng.tensormap_fenceproxy_acquire": "tt.experimental_tensormap_fenceproxy_acquire",
    "ttng.reinterpret_tensor_descriptor": "tt.reinterpret_tensor_descriptor",
}
NEW_NAMES = {older: newer for newer, older in OLD_NAMES.items()}
