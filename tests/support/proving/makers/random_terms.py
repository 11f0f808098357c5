"""Makes random programs of integer operations as texts, whose results the interpreter computes."""

from __future__ import annotations

import random

OPERATIONS = [
    "addi", "subi", "muli", "divsi", "remsi", "divui", "remui", "minsi", "maxsi", "minui", "maxui", "andi", "ori", "xori",
    "shli", "shrsi", "shrui", "ceildivsi", "floordivsi",
]  # fmt: skip
PREDICATES = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
CONSTANTS = [0, 1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 100, 255, -1, -2, -8, -16, 1000, 65535, 2**31 - 1, -(2**31)]
NUMBERS = [0, 1, 2, 3, 5, 8, 17, 100, -1, -2, -7, -100, 65536, 123456789, 2**31 - 1, -(2**31), -(2**31) + 1]


def program(rng: random.Random, length: int, bits: int = 32) -> str:
    """A kernel that stores the results of `length` operations on %a and %b, one after the other, to %o."""
    kind = f"i{bits}"
    lines, values, conditions = [], ["%a", "%b"], []
    for number in range(length):
        name = f"%v{number}"
        choice = rng.random()
        if choice < 0.12:
            lines.append(f"{name}c = arith.cmpi {rng.choice(PREDICATES)}, {rng.choice(values)}, {rng.choice(values)} : {kind}")
            conditions.append(f"{name}c")
            lines.append(f"{name} = arith.extui {name}c : i1 to {kind}")
        elif choice < 0.2 and conditions:
            lines.append(f"{name} = arith.select {rng.choice(conditions)}, {rng.choice(values)}, {rng.choice(values)} : {kind}")
        elif choice < 0.26:
            narrow = rng.choice(["i8", "i16"])
            lines.append(f"{name}t = arith.trunci {rng.choice(values)} : {kind} to {narrow}")
            lines.append(f"{name} = arith.{rng.choice(['extsi', 'extui'])} {name}t : {narrow} to {kind}")
        elif choice < 0.3:
            lines.append(f"{name} = math.absi {rng.choice(values)} : {kind}")
        else:
            right = rng.choice(values)
            if rng.random() < 0.6:
                right = f"{name}k"
                lines.append(f"{right} = arith.constant {rng.choice(CONSTANTS)} : {kind}")
            lines.append(f"{name} = arith.{rng.choice(OPERATIONS)} {rng.choice(values)}, {right} : {kind}")
        values.append(name)
    for number in range(length):
        widened = f"arith.extsi %v{number} : {kind} to i64" if bits < 64 else f"arith.addi %v{number}, %z : i64"
        lines.append(f"%w{number} = {widened}")
        lines.append(f"%p{number} = tt.addptr %o, %n{number} : !tt.ptr<i64>, i32")
        lines.append(f"tt.store %p{number}, %w{number} : !tt.ptr<i64>")
    constants = [f"%n{number} = arith.constant {number} : i32" for number in range(length)] + ["%z = arith.constant 0 : i64"]
    body = "\n  ".join([*constants, *lines])
    return f"tt.func public @k(%o: !tt.ptr<i64>, %a: {kind}, %b: {kind}) {{\n  {body}\n  tt.return\n}}\n"
