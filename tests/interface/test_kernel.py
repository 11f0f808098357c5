"""Block kernels through the public API: reading, launching, and every refusal."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

ADD = """
module {
  tt.func public @add(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %c64 : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %first = tt.splat %start : i32 -> tensor<64xi32>
    %at = arith.addi %first, %range : tensor<64xi32>
    %limit = tt.splat %n : i32 -> tensor<64xi32>
    %mask = arith.cmpi slt, %at, %limit : tensor<64xi32>
    %px = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ax = tt.addptr %px, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %a = tt.load %ax, %mask : tensor<64x!tt.ptr<f32>>
    %py = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ay = tt.addptr %py, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %b = tt.load %ay, %mask : tensor<64x!tt.ptr<f32>>
    %sum = arith.addf %a, %b : tensor<64xf32>
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ao = tt.addptr %po, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %ao, %sum, %mask : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""

GRID = """
module {
  tt.func public @where(%o: !tt.ptr<i32>) {
    %x = tt.get_program_id x : i32
    %y = tt.get_program_id y : i32
    %z = tt.get_program_id z : i32
    %nx = tt.get_num_programs x : i32
    %ny = tt.get_num_programs y : i32
    %nz = tt.get_num_programs z : i32
    %zy = arith.muli %z, %ny : i32
    %row = arith.addi %zy, %y : i32
    %rows = arith.muli %row, %nx : i32
    %at = arith.addi %rows, %x : i32
    %c100 = arith.constant 100 : i32
    %high = arith.muli %z, %c100 : i32
    %c10 = arith.constant 10 : i32
    %middle = arith.muli %y, %c10 : i32
    %sum = arith.addi %high, %middle : i32
    %digits = arith.addi %sum, %x : i32
    %all = arith.addi %digits, %nz : i32
    %p = tt.addptr %o, %at : !tt.ptr<i32>, i32
    tt.store %p, %all : !tt.ptr<i32>
    tt.return
  }
}
"""


def ways(kernel: jn.kernel.Kernel):
    return (kernel.interpret, kernel.launch, lambda *a: kernel.launch(*a, threads=1))


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000])
def test_launch_and_interpret_agree(n: int) -> None:
    kernel = jn.kernel.from_ttir(ADD)
    assert (kernel.name, [p.name for p in kernel.parameters]) == ("add", ["x", "y", "o", "n"])
    x, y = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    for run in ways(kernel):
        out = np.full(n + 16, 7, np.float32)
        run((-(-n // 64),), x, y, out, n)
        np.testing.assert_array_equal(out[:n], x + y)
        assert (out[n:] == 7).all()


def test_grids_of_three_axes() -> None:
    kernel = jn.kernel.from_ttir(GRID)
    z, y, x = np.meshgrid(range(3), range(4), range(5), indexing="ij")
    for run in ways(kernel):
        out = np.zeros((3, 4, 5), np.int32)
        run((5, 4, 3), out)
        np.testing.assert_array_equal(out, 100 * z + 10 * y + x + 3)
    kernel.launch((5, 0, 3), out)
    for run in ways(kernel):
        run(np.int64(0), out)
    for bad in ((), (1, 1, 1, 1), (-1,), (1.5,), (1 << 31,), (True,), 1.5, None, "3"):
        for run in ways(kernel):
            with pytest.raises(jn.UserError, match="grid"):
                run(bad, out)
    for run in ways(kernel):
        with pytest.raises(jn.UserError, match=r"more than 2\*\*62 programs"):
            run((1 << 30, 1 << 30, 16), out)  # 2**64: none, where the product is cut to 64 bits


def test_arguments_are_checked() -> None:
    kernel = jn.kernel.from_ttir(ADD)
    x = np.ones(64, np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    for arguments, message in (
        ((x, x, x), "takes 4 arguments, got 3"),
        ((x, x, x, 64, 1), "takes 4 arguments, got 5"),
        ((x, x, x.astype(np.float64), 64), "parameter o .*float64 of 8 bytes, expected elements of 4"),
        ((x, x, np.ones(128, np.float32)[::2], 64), "parameter o .*not C-contiguous"),
        ((np.ma.masked_array(x), x, x, 64), "parameter x .*a MaskedArray, whose mask kernels do not see"),
        (([1.0], x, x, 64), "parameter x .*expected a NumPy array, got list"),
        ((x, x, x, x), "parameter n .*expected a number"),
        ((x, x, x, 1.5), "parameter n .*1.5 is not an integer"),
        ((x, x, x, float("nan")), "parameter n .*nan is not an integer"),
        ((x, x, x, 1 << 32), "does not fit into 32 bits"),
        ((x, x, x, 10**400), "does not fit into 32 bits"),
    ):
        for run in ways(kernel):
            with pytest.raises(jn.UserError, match=message):
                run((1,), *arguments)
    with pytest.raises(jn.UserError, match="read-only"):
        kernel.launch((1,), x, x, frozen, 64)
    with pytest.raises(jn.UserError, match="threads"):
        kernel.launch((1,), x, x, x, 64, threads=0)


def test_nothing_relies_on_what_a_text_promises_about_alignment() -> None:
    """A hint to bypass the caches, and arrays that are not where the text says: aligned stores would end the process."""
    text = ADD.replace("!tt.ptr<f32>, %", "!tt.ptr<f32> {tt.divisibility = 64 : i32}, %")
    text = text.replace("%sum, %mask :", "%sum, %mask cacheModifier = cs :")
    kernel = jn.kernel.from_ttir(text)
    assert "tt.divisibility = 64" in kernel.ttir
    for offset in range(4):
        x, y, out = (np.arange(70, dtype=np.float32)[offset : offset + 64] for _ in range(3))
        kernel.launch((1,), x, y, out, 64)
        np.testing.assert_array_equal(out, x + y)


BEYOND = """
tt.func public @fill(%x: !tt.ptr<i32>, %start: i64, %n: i64) {
  %range = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %wide = arith.extsi %range : tensor<8xi32> to tensor<8xi64>
  %first = tt.splat %start : i64 -> tensor<8xi64>
  %at = arith.addi %wide, %first : tensor<8xi64>
  %limit = tt.splat %n : i64 -> tensor<8xi64>
  %mask = arith.cmpi slt, %at, %limit : tensor<8xi64>
  %base = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %to = tt.addptr %base, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi64>
  %seven = arith.constant dense<7> : tensor<8xi32>
  tt.store %to, %seven, %mask : tensor<8x!tt.ptr<i32>>
  tt.return
}
"""


@pytest.mark.parametrize(("start", "n"), [(40, 20), (40, -20), (40, 40), (40, 45), (40, 90), (-(1 << 40), -(1 << 41))])
def test_blocks_beyond_the_limit_touch_nothing(start: int, n: int) -> None:
    x = np.zeros(100, np.int32)
    jn.kernel.from_ttir(BEYOND).launch(1, x, start, n)
    expected = np.zeros(100, np.int32)
    if start < n:
        expected[start : min(start + 8, n)] = 7
    np.testing.assert_array_equal(x, expected)


def test_a_step_of_zero_does_not_divide() -> None:
    """Pointers carried by a loop that does not run, whose step is zero."""
    kernel = jn.kernel.from_ttir("""
module {
  tt.func public @k(%o: !tt.ptr<i32>, %n: i32, %step: i32) {
    %c0 = arith.constant 0 : i32
    %four = arith.constant dense<4> : tensor<4xi32>
    %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %p = tt.splat %o : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %a = tt.addptr %p, %r : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    %end = scf.for %i = %c0 to %n step %step iter_args(%q = %a) -> (tensor<4x!tt.ptr<i32>>) : i32 {
      tt.store %q, %four : tensor<4x!tt.ptr<i32>>
      %next = tt.addptr %q, %four : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
      scf.yield %next : tensor<4x!tt.ptr<i32>>
    }
    tt.store %end, %r : tensor<4x!tt.ptr<i32>>
    tt.return
  }
}
""")
    last = [0, 1, 2, 3]
    for n, step, expected in ((0, 0, last), (0, 1, last), (2, 1, [4] * 8 + last), (3, 2, [4] * 8 + last)):
        out = np.full(16, 9, np.int32)
        kernel.launch((1,), out, n, step)
        np.testing.assert_array_equal(out, [*expected, *[9] * (16 - len(expected))])


def test_what_this_version_lacks_says_so() -> None:
    kernel = jn.kernel.from_ttir(ADD)
    x = np.ones(64, np.float32)
    for options in ({"device": "tpu"}, {"target": "sm_80"}):
        with pytest.raises(jn.UnsupportedError, match="launch: "):
            kernel.launch((1,), x, x, x, 64, **options)
    with pytest.raises(jn.UnsupportedError, match=r"asm: target 'sm_90a'; fix: target='host', or ptx\('sm_90a'\)"):
        kernel.asm("sm_90a")
    with pytest.raises(jn.UserError, match="no GPU target 'foo'"):
        kernel.asm("foo")


def test_the_code_can_be_read() -> None:
    kernel = jn.kernel.from_ttir(ADD)
    assert "define void @jn_kernel" in kernel.llvm_ir()
    assert "jn_kernel:" in kernel.asm()
    assert kernel.llvm_ir() == jn.kernel.from_ttir(kernel.ttir).llvm_ir("host")
    assert repr(kernel) == "<Kernel 'add': 4 parameters>"


def test_files_and_names(tmp_path: Path) -> None:
    path = tmp_path / "add.ttir"
    path.write_text(ADD)
    assert jn.kernel.from_ttir(path).name == jn.kernel.from_ttir(str(path)).name == "add"
    with pytest.raises(jn.UserError, match="expected text or a path, got NoneType"):
        jn.kernel.from_ttir(None)
    with pytest.raises(jn.UserError, match=r"missing\.ttir cannot be read"):
        jn.kernel.from_ttir(tmp_path / "missing.ttir")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(jn.UserError, match="no UTF-8 text"):
        jn.kernel.from_ttir(path)
    with pytest.raises(jn.UserError, match=r"no function 'sub'.*add"):
        jn.kernel.from_ttir(ADD, name="sub")
    two = ADD.rstrip().removesuffix("}") + ADD.strip().removeprefix("module {").replace("@add", "@other")
    with pytest.raises(jn.UserError, match=r"single public function.*add, other"):
        jn.kernel.from_ttir(two)
    assert jn.kernel.from_ttir(two, name="other").name == "other"


BROKEN = ["", "module {", "nonsense", ADD[: len(ADD) // 2], ADD.replace("%limit", "%nowhere", 1)]


@pytest.mark.parametrize("text", [*BROKEN, ADD.replace("tensor<64xi32>", "tensor<3xi32>", 1)])
def test_broken_text_is_refused(text: str) -> None:
    with pytest.raises(jn.UserError):
        jn.kernel.from_ttir(text)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("blocks", [3, 400])
def test_large_blocks_lie_on_the_heap_within_bounds(blocks: int) -> None:
    text = ADD.replace("64", str(1 << 20)).replace("i3232", "i32")
    chain = "".join(
        f"""    %r{i} = tt.reshape %{f"s{i - 1}" if i else "sum"} : tensor<1048576xf32> -> tensor<1024x1024xf32>
    %s{i} = tt.reshape %r{i} : tensor<1024x1024xf32> -> tensor<1048576xf32>
    tt.store %ao, %s{i}, %mask : tensor<1048576x!tt.ptr<f32>>
"""
        for i in range(blocks)
    )
    kernel = jn.kernel.from_ttir(text.replace("    tt.return", chain + "    tt.return"))
    x, total = np.ones(8, np.float32), np.zeros(8, np.float32)
    if blocks > 128:
        with pytest.raises(jn.UnsupportedError, match="more than 1024 MiB of scratch memory per thread"):
            kernel.launch((1,), x, x, total, 8)
    else:
        kernel.launch((1,), x, x, total, 8)
        assert (total == 2).all()


CALLS = """
module {
  tt.func private @twice(%v: i32) -> i32 {
    %r = arith.addi %v, %v : i32
    tt.return %r : i32
  }
  tt.func private @deep(%v: i32) -> i32 {
    %a = tt.call @twice(%v) : (i32) -> i32
    %b = tt.call @CALLED(%a) : (i32) -> i32
    tt.return %b : i32
  }
  tt.func public @main(%o: !tt.ptr<i32>, %v: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %c0) -> (i32) : i32 {
      %d = tt.call @deep(%v) : (i32) -> i32
      %next = arith.addi %acc, %d : i32
      scf.yield %next : i32
    }
    tt.store %o, %sum : !tt.ptr<i32>
    tt.return
  }
}
"""


def test_calls_are_inlined_and_recursion_is_refused() -> None:
    kernel = jn.kernel.from_ttir(CALLS.replace("CALLED", "twice"), name="main")
    for run in ways(kernel):
        out = np.zeros(1, np.int32)
        run((1,), out, 5)
        assert out[0] == 60
    assert "tt.call" in kernel.ttir
    recursive = jn.kernel.from_ttir(CALLS.replace("CALLED", "deep"), name="main")
    with pytest.raises(jn.UserError, match="recursion through @deep"):
        recursive.launch((1,), out, 5)


def test_one_kernel_from_many_threads() -> None:
    kernel = jn.kernel.from_ttir(ADD)
    x = np.arange(1000, dtype=np.float32)
    failures: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            out = np.zeros_like(x)
            kernel.launch((16,), x, x * number, out, 1000)
            if not np.array_equal(out, x + x * number):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_kernel_is_copied_and_pickled(tmp_path: Path) -> None:
    """The copy from a pickle is read anew from the text, with the options of the original."""
    x = np.arange(100, dtype=np.float32)
    path = tmp_path / "two.ttir"
    path.write_text(ADD.replace("@add", "@other").rstrip().removesuffix("}") + ADD.strip().removeprefix("module {"))
    kernel = jn.kernel.from_ttir(path, "add", numerics="fast", debug=True, cache=False)
    assert copy.copy(kernel) is copy.deepcopy(kernel) is kernel
    again = pickle.loads(pickle.dumps(kernel))
    assert (again.name, again.numerics, again.debug, again.ttir) == ("add", "fast", True, kernel.ttir)
    out = np.zeros_like(x)
    kernel.launch((2,), x, x, out, 100)
    np.testing.assert_array_equal(out, 2 * x)
    out[:] = 0
    pickle.loads(pickle.dumps(kernel)).launch((2,), x, x, out, 100)
    np.testing.assert_array_equal(out, 2 * x)
