"""Native code of kernels as bytes: what launches from a cache do is what launches from the text do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.native.code import decode_native, encode_native
from joinery.lowering.llvm.host.launch_specialization import GENERIC

DATA = Path(__file__).resolve().parents[1] / "data" / "ttir"
COPY = """
tt.func public @copy(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
  %p = tt.get_program_id x : i32
  %c = arith.constant 16 : i32
  %s = arith.muli %p, %c : i32
  %r = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %b = tt.splat %s : i32 -> tensor<16xi32>
  %i = arith.addi %b, %r : tensor<16xi32>
  %e = tt.splat %n : i32 -> tensor<16xi32>
  %m = arith.cmpi slt, %i, %e : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %xp = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %v = tt.load %xp, %m : tensor<16x!tt.ptr<f32>>
  %z = arith.constant dense<4.0> : tensor<16xf32>
  %small = arith.cmpf olt, %v, %z : tensor<16xf32>
  tt.assert %small, "too large" : tensor<16xi1>
  tt.print " v: " {hex = false, isSigned = array<i32: 0>} : %v : tensor<16xf32>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %yp = tt.addptr %ys, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  tt.store %yp, %v, %m : tensor<16x!tt.ptr<f32>>
  tt.return
}
"""


def never(specialization: Any) -> Any:
    raise AssertionError("the text is not needed")


def run(native: Any, values: list[Any], grid: tuple[int, int, int]) -> None:
    """Launch native code on arrays and numbers."""
    spans = [
        (i, v.ctypes.data, v.ctypes.data + v.nbytes) for i, v in enumerate(values) if isinstance(v, np.ndarray)
    ]
    numbers = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in values]
    native.program(spans, numbers).run("copy", numbers, grid, 2)


def test_code_from_bytes_runs_prints_and_stops(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = jn.kernel.from_ttir(COPY)
    native = decode_native(encode_native(*kernel.native_code()), never)
    x, y = np.arange(3, dtype=np.float32), np.full(3, -1, np.float32)
    run(native, [x, y, 3], (1, 1, 1))
    np.testing.assert_array_equal(y, x)
    printed = capsys.readouterr().out
    assert "pid (0, 0, 0) idx ( 2) v: 2.000000" in printed
    x = np.arange(40, dtype=np.float32) % 5
    with pytest.raises(jn.KernelAssertionError, match="too large") as stopped:
        run(native, [x, np.zeros_like(x), 40], (3, 1, 1))
    assert stopped.value.lane == (4,)


def test_overlapping_arrays_get_code_of_their_own() -> None:
    kernel = jn.kernel.from_ttir(COPY.replace("tt.print", "// tt.print"))
    asked: list[int] = []

    def from_text(specialization: Any) -> Any:
        asked.append(1)
        return kernel.host_object(specialization)

    native = decode_native(encode_native(*kernel.native_code()), from_text)
    whole = np.arange(20, dtype=np.float32) % 4
    expected = whole.copy()
    expected[4:] = whole[:16]
    run(native, [whole[:16], whole[4:], 16], (1, 1, 1))
    np.testing.assert_array_equal(whole, expected)
    assert asked


def test_functions_that_kernels_share_come_along() -> None:
    with_products = [path for path in sorted(DATA.glob("*/kernel.ttir")) if "tt.dot " in path.read_text()]
    found = 0
    for path in with_products[:6]:
        facts, compiled = jn.kernel.from_ttir(path).native_code()
        native = decode_native(encode_native(facts, compiled), never)
        assert native.facts == facts
        found += bool(compiled.shared)
        native.specialized(GENERIC)  # it is linked with all it calls
    assert found


def test_damaged_bytes_are_refused() -> None:
    data = encode_native(*jn.kernel.from_ttir(COPY).native_code())
    for damaged in (b"", data[:-1], data[:60] + bytes([data[60] ^ 1]) + data[61:], b"X" + data[1:]):
        with pytest.raises(jn.UserError, match="damaged"):
            decode_native(damaged, never)


SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from joinery.interface.native.code import decode_native
native = decode_native(Path(sys.argv[1]).read_bytes(), None)
x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
words = [x.ctypes.data, y.ctypes.data, 3]
native.program([(0, words[0], words[0] + 12), (1, words[1], words[1] + 12)], words).run("copy", words, (1, 1, 1), 1)
assert (x == y).all()
assert not {"xdsl", "networkx", "torch", "triton"} & set(sys.modules), "launching does without"
print("fine")
"""


def test_a_process_that_launches_from_bytes_loads_no_code_generator(tmp_path: Path) -> None:
    file = tmp_path / "kernel"
    file.write_bytes(encode_native(*jn.kernel.from_ttir(COPY.replace("tt.print", "// tt.print")).native_code()))
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", done.stderr
