"""The rule set "max": the MAX type_promotion page, read as a lattice.

The 16 × 16 table of that page disagrees with itself in four pairs: bool and int8 against index and address
(the row of bool says int64, the row of index says uint64; the row of int8 says index, the row of index says
float16). The page's prose
decides: "we never promote other types to them, and they instead behave as uint64". Read so, the table is a
join-semilattice, and these edges, smaller below larger, are all of it.
"""

from __future__ import annotations

NAME = "max"

DESCRIPTION = (
    "the MAX type_promotion page; its contradictory pairs (bool, int8 with index, address) are read as uint64"
)

EDGES = (
    ("bool", "int8"),
    ("bool", "uint8"),
    ("int8", "int16"),
    ("uint8", "int16"),
    ("uint8", "uint16"),
    ("int16", "int32"),
    ("uint16", "int32"),
    ("uint16", "uint32"),
    ("int32", "int64"),
    ("uint32", "int64"),
    ("uint32", "uint64"),
    ("index", "uint64"),
    ("address", "uint64"),
    ("int64", "float16"),
    ("uint64", "float16"),
    ("float16", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "tensor_float32"),
    ("tensor_float32", "float64"),
)

INTEGER_LITERALS = ("int64",)
FLOAT_LITERALS = ("float32",)
COMPLEX_LITERALS: tuple[str, ...] = ()
