"""Every emitter compiles for CPUs other than this one, without library calls. In child processes: LLVM
aborts on what it cannot do.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import llvmlite.binding as llvm
from joinery.lowering.llvm import conversions as c, conversions_fp8 as fp8
from joinery.lowering.llvm.math.library import SHORT_NAMES, emit_math
from joinery.lowering.llvm.math.recipes import FUNCTIONS
sys.path.insert(0, sys.argv[1])
from native_code import map_module

triple, cpu, widest = sys.argv[2], sys.argv[3], int(sys.argv[4])
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2, reloc="pic", codemodel="small")

def check(what, emit, inputs, output, lanes):
    module = llvm.parse_assembly(map_module(emit, inputs, output, lanes))
    module.triple, module.data_layout = triple, str(machine.target_data)
    module.verify()
    text = machine.emit_assembly(module)
    calls = [line for line in text.splitlines() if line.split()[:1] in (["callq"], ["call"], ["bl"]) and "joinery." not in line]
    assert not calls, (what, lanes, calls)

for kind in ("float", "double"):
    for lanes in sorted({1, 4, widest}):
        for name, function in sorted(FUNCTIONS.items()):
            check(name, lambda fn, *xs: emit_math(fn, name, *xs), [kind] * function.operands, kind, lanes)
for lanes in (1, widest):
    for name in sorted(SHORT_NAMES):
        check(name, lambda fn, x: emit_math(fn, name, x, form="short"), ["float"], "float", lanes)
    for source in ("half", "bfloat", "float", "double"):
        for target in ("half", "bfloat", "float", "double"):
            check((source, target), lambda fn, x: c.convert_float(fn, x, target), [source], target, lanes)
        for bits in (8, 16, 32, 64):
            for signed in (True, False):
                check((source, bits), lambda fn, x: c.float_to_int_saturating(fn, x, f"i{bits}", signed),
                      [source], f"i{bits}", lanes)
    for bits in (8, 16, 32, 64):
        for target in ("f64", "f32", "f16", "bf16"):
            for signed in (True, False):
                check((bits, target), lambda fn, x: c.int_to_float(fn, x, target, signed),
                      [f"i{bits}"], "double" if target == "f64" else "float", lanes)
    for name in fp8.FORMATS:
        check(name, lambda fn, x: fp8.float_to_fp8(fn, x, name), ["float"], "i8", lanes)
        check(name, lambda fn, x: fp8.fp8_to_float(fn, x, name), ["i8"], "float", lanes)
    check("tf32", c.round_to_tf32, ["float"], "float", lanes)
print("compiled")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("triple", "cpu", "widest"),
    [
        pytest.param("x86_64-unknown-linux-gnu", "haswell", 16, marks=pytest.mark.slow),
        pytest.param("x86_64-unknown-linux-gnu", "x86-64-v4", 16, marks=pytest.mark.slow),
        pytest.param("x86_64-unknown-linux-gnu", "sapphirerapids", 16, marks=pytest.mark.slow),  # test_float32 has the host
        ("aarch64-unknown-linux-gnu", "neoverse-v1", 4),
        pytest.param("arm64-apple-macosx14", "apple-m1", 4, marks=pytest.mark.slow),
    ],
)
def test_compiles_without_library_calls(triple, cpu, widest):
    here = str(Path(__file__).parents[3] / "support")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, here, triple, cpu, str(widest)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "compiled"
