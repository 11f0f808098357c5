"""Names of operations that changed between the Triton versions whose texts are read. Operations have the new names (3.9); the
old ones (3.3, `spelling="seed"`) are read, and printed on request."""

from __future__ import annotations

SPELLINGS = ("3.9", "seed")
OLDER = {
    "tt.descriptor_load": "tt.experimental_descriptor_load",
    "tt.descriptor_store": "tt.experimental_descriptor_store",
    "tt.descriptor_reduce": "tt.experimental_descriptor_reduce",
    "tt.descriptor_gather": "tt.experimental_descriptor_gather",
    "tt.descriptor_scatter": "tt.experimental_descriptor_scatter",
    "ttng.tensormap_create": "tt.experimental_tensormap_create",
    "ttng.tensormap_fenceproxy_acquire": "tt.experimental_tensormap_fenceproxy_acquire",
    "ttng.reinterpret_tensor_descriptor": "tt.reinterpret_tensor_descriptor",
}
NEWER = {older: newer for newer, older in OLDER.items()}
