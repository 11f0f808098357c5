"""What Triton's compiler makes of kernels breaks orders that the text seems to have: none of these is proven.

Kernels like several of these were compiled by Triton 3.9: its code has the two accesses in two threads, or the load before
the store. The others are what their rules could get wrong.
"""

from __future__ import annotations

import joinery as jn
import pytest

pytest.importorskip("z3")

IN_PLACE = """%v = tt.load %p : BLOCK
%w = arith.addi %v, %r : tensor<128xi32>
tt.store %p, %w : BLOCK"""
ADVANCED = """%o1 = tt.addptr %o, %n : !tt.ptr<i32>, i32
%s = tt.splat %o1 : !tt.ptr<i32> -> BLOCK
%a = tt.addptr %s, %r : BLOCK, tensor<128xi32>
"""
TWICE = """%k = arith.andi %s, %c7 : i32
%ks = tt.splat %k : i32 -> tensor<128xi32>
%a = tt.addptr %p, %ks : BLOCK, tensor<128xi32>
%v = tt.load %a : BLOCK
%w = arith.addi %v, %r : tensor<128xi32>
tt.store %a, %w : BLOCK"""
FOREIGN = 'tt.extern_elementwise %c0 {libname = "", libpath = "", pure = true, symbol = "tid"} : (i32) -> i32'
ASSEMBLY = """tt.elementwise_inline_asm "mov.u32 $0, %tid.x;"
  {constraints = "=r,r", packed_element = 1 : i32, pure = true} %c0 : i32 -> i32"""
REDUCED = """"tt.reduce"(%r) <{axis = 0 : i32}> ({
^bb0(%x: i32, %z: i32):
  %d = arith.COMBINED %x, %z : i32
  tt.reduce.return %d : i32
}) : (tensor<128xi32>) -> i32"""
AHEAD = """scf.for %i = %c0 to %n step %c1 : i32 {
  %at = arith.muli %i, %c128 : i32
  %from = tt.addptr %o, %at : !tt.ptr<i32>, i32
  %to = tt.addptr %from, %c128 : !tt.ptr<i32>, i32
  %fs = tt.splat %from : !tt.ptr<i32> -> BLOCK
  %ts = tt.splat %to : !tt.ptr<i32> -> BLOCK
  %fp = tt.addptr %fs, %r : BLOCK, tensor<128xi32>
  %tp = tt.addptr %ts, %r : BLOCK, tensor<128xi32>
  %v = tt.load %fp : BLOCK
  ONE
  %w = arith.addi %v, %r : tensor<128xi32>
  tt.store %tp, %w : BLOCK
  TWO
}ATTRIBUTES"""
LOOPED = "scf.for %j = %c0 to %c1 step %c1 : i32 {\nttg.barrier all\n}"
CHOSEN = "scf.if %true {\nttg.barrier all\n} else {\nttg.barrier all\n}"


def verdict(body: str, *, grid: int = 1, assume: tuple[str, ...] = (), around: str = "", extra: str = "") -> str:
    text = f"""{around}{extra}
tt.func public @f(%o: !tt.ptr<i32>, %y: !tt.ptr<i32>, %b: !tt.ptr<i8>, %n: i32, %go: i1) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c128 = arith.constant 128 : i32
  %true = arith.constant true
  %r = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32>
  %p0 = tt.splat %o : !tt.ptr<i32> -> BLOCK
  %p = tt.addptr %p0, %r : BLOCK, tensor<128xi32>
  %y0 = tt.splat %y : !tt.ptr<i32> -> BLOCK
  %q = tt.addptr %y0, %r : BLOCK, tensor<128xi32>
  %b0 = tt.splat %b : !tt.ptr<i8> -> tensor<128x!tt.ptr<i8>>
  %c = tt.addptr %b0, %r : tensor<128x!tt.ptr<i8>>, tensor<128xi32>
  {body}
  tt.return
}}
{"}" if around else ""}""".replace("BLOCK", "tensor<128x!tt.ptr<i32>>")
    extents = {"o": 4096, "y": 4096, "b": 4096}
    proof = jn.kernel.from_ttir(text).prove(["0 <= n", "n <= 8", *assume], extents, grid, ("bounds", "order"))
    assert proof.verdict("bounds") == "proven", proof
    return proof.verdict("order")


LAYOUTS = {
    "loaded, cleared, and stored elsewhere": "%v = tt.load %p : BLOCK\ntt.store %p, %r : BLOCK\ntt.store %q, %v : BLOCK",
    "stored and loaded": "tt.store %p, %r : BLOCK\n%v = tt.load %p : BLOCK",
    "stored and loaded, where vectors are not": f"{ADVANCED}tt.store %a, %r : BLOCK\n%v = tt.load %a : BLOCK",
    "stored twice": "tt.store %p, %r : BLOCK\ntt.store %p, %r : BLOCK",
    "stored in place, and elsewhere": f"{IN_PLACE}\ntt.store %q, %v : BLOCK",
    "stored in place, and narrow elsewhere": f"""{IN_PLACE}
%t = arith.trunci %v : tensor<128xi32> to tensor<128xi8>
tt.store %c, %t : tensor<128x!tt.ptr<i8>>""",
    "narrow elsewhere alone": """%v = tt.load %p : BLOCK
%t = arith.trunci %v : tensor<128xi32> to tensor<128xi8>
tt.store %c, %t : tensor<128x!tt.ptr<i8>>
tt.store %p, %r : BLOCK""",
    "the mask of a store": """%v = tt.load %p : BLOCK
%m = arith.cmpi sgt, %v, %r : tensor<128xi32>
tt.store %p, %v, %m : BLOCK""",
    "stored in place, later": IN_PLACE.replace("tt.store", "scf.if %go {\ntt.store") + "\n}",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_lane_may_be_two_threads(name: str) -> None:
    assert verdict(LAYOUTS[name]) == "unknown"
    with pytest.raises(jn.UserError, match="num_warps is how a kernel is compiled, which no proof depends on"):
        verdict(LAYOUTS[name], assume=("num_warps == 4",))


def test_what_is_stored_in_place_is_in_an_order() -> None:
    assert verdict(IN_PLACE) == "proven"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("one", "two", "attributes", "expected"),
    [
        ("", "", "", "unknown"),
        ("", "", " {tt.num_stages = 3 : i32}", "unknown"),
        ("ttg.barrier all", "ttg.barrier all", " {tt.num_stages = 3 : i32}", "proven"),
        ("gpu.barrier", "gpu.barrier", "", "unknown"),
        (LOOPED, LOOPED.replace("%j", "%h"), "", "unknown"),
        (CHOSEN, CHOSEN, "", "unknown"),
        ("tt.call @wait() : () -> ()", "tt.call @wait() : () -> ()", "", "unknown"),
        ("ttg.barrier all", "ttg.barrier all", " {tt.flatten}", "unknown"),
        ("ttg.barrier all", "ttg.barrier all", " {tt.scheduled_max_stage = 1 : i32}", "unknown"),
        ("%u = arith.addi %c1, %c1 {loop.stage = 1 : i32} : i32\nttg.barrier all", "ttg.barrier all", "", "unknown"),
        ("%u = arith.addi %c1, %c1 : i32\nttg.barrier all", "ttg.barrier all", "", "proven"),
    ],
)
def test_loads_of_loops_are_fetched_ahead(one: str, two: str, attributes: str, expected: str) -> None:
    body = AHEAD.replace("ONE", one).replace("TWO", two).replace("ATTRIBUTES", attributes)
    assert verdict(body, extra="tt.func private @wait() {\n  ttg.barrier all\n  tt.return\n}\n" * ("@wait" in body)) == expected


SCALARS = {
    "assembly": (ASSEMBLY, "unknown"),
    "a foreign function": (FOREIGN, "unknown"),
    "a load whose mask may be false": ("tt.load %y, %go : !tt.ptr<i32>", "unknown"),
    "a load with another number there": ("tt.load %y, %go, %c0 : !tt.ptr<i32>", "proven"),
    "a load": ("tt.load %y : !tt.ptr<i32>", "proven"),
    "an atomic load": ("tt.atomic_load relaxed, gpu, %y : (!tt.ptr<i32>) -> i32", "unknown"),
    "an update": ("tt.atomic_rmw add, acq_rel, gpu, %y, %c1, %true : (!tt.ptr<i32>, i32, i1) -> i32", "proven"),
    "an update whose mask may be false": (
        "tt.atomic_rmw add, acq_rel, gpu, %y, %c1, %go : (!tt.ptr<i32>, i32, i1) -> i32", "unknown",
    ),
    "a sum": (REDUCED.replace("COMBINED", "addi"), "proven"),
    "a difference": (REDUCED.replace("COMBINED", "subi"), "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALARS)
def test_a_number_that_threads_may_have_differently(name: str) -> None:
    made, expected = SCALARS[name]
    assert verdict(f"%s = {made}\n{TWICE}") == expected


def test_a_sum_of_floats_may_be_rounded_differently() -> None:
    """Each thread adds what it has to what it gets, and a product of its own may be one that is not rounded first."""
    reduced = REDUCED.replace("COMBINED", "addf").replace(": i32", ": f32").replace("xi32", "xf32").replace("> i32", "> f32")
    reduced = reduced.replace("0 : f32", "0 : i32").replace("%r", "%fr")
    body = f"""%fr = arith.sitofp %r : tensor<128xi32> to tensor<128xf32>
%fs = {reduced}
%s = arith.fptosi %fs : f32 to i32
{TWICE}"""
    assert verdict(body) == "unknown"


def test_an_array_that_one_access_alone_is_to() -> None:
    """Threads may store at their own time, as no other access may be before or behind; but not in a loop that has barriers."""
    asked = f"%s = {ASSEMBLY}\n%is = arith.cmpi sgt, %s, %c7 : i32\n"
    store = "scf.if %is {\n  tt.store %p, %r : BLOCK\n}\n"
    assert verdict(f"{asked}{store}") == "proven"
    loop = "scf.for %i = %c0 to %n step %c1 : i32 {\nBODY\n}"
    assert verdict(asked + loop.replace("BODY", f"{store}ttg.barrier all")) == "proven"
    assert verdict(asked + loop.replace("BODY", store)) == "unknown"
    waiting = loop.replace("%n step", "%s step").replace("BODY", "tt.store %p, %r : BLOCK\nttg.barrier all")
    assert verdict(asked + waiting) == "unknown"


@pytest.mark.parametrize("name", ["assembly", "a load", "an atomic load"])
def test_a_branch_that_threads_may_take_differently(name: str) -> None:
    """A store in the way of one thread meets a load in that of another one, or one thread alone waits."""
    made, expected = SCALARS[name]
    asked = f"%s = {made}\n%is = arith.cmpi sgt, %s, %c7 : i32\n"
    load = "%v = tt.load %p : BLOCK"
    for body in (
        f"scf.if %is {{\n  tt.store %p, %r : BLOCK\n}} else {{\n  {load}\n}}",
        f"tt.store %p, %r : BLOCK\nscf.if %is {{\n  ttg.barrier all\n  {load}\n}}",
        f"cf.cond_br %is, ^one, ^two\n^one:\n  tt.store %p, %r : BLOCK\n  tt.return\n^two:\n  {load}",
    ):
        assert verdict(asked + body) == expected


def test_what_other_programs_write_is_no_number() -> None:
    """All that is loaded is behind a barrier of its own program."""
    body = f"""%pid = tt.get_program_id x : i32
%yp = tt.addptr %y, %pid : !tt.ptr<i32>, i32
tt.store %yp, %pid : !tt.ptr<i32>
ttg.barrier all
%y5 = tt.addptr %y, %AT : !tt.ptr<i32>, i32
%s = tt.load %y5 : !tt.ptr<i32>
ttg.barrier all
{TWICE}"""
    assert verdict(body.replace("%AT", "%c7"), grid=16) == "unknown"
    assert verdict(body.replace("%AT", "%pid"), grid=16) == "proven"


@pytest.mark.parametrize(("count", "expected"), [(1, "proven"), (2, "unknown")])
def test_a_program_is_one_block_of_threads(count: int, expected: str) -> None:
    around = f'module attributes {{"ttg.num-ctas" = {count} : i32, "ttg.num-warps" = 8 : i32}} {{\n'
    assert verdict("tt.store %p, %r : BLOCK\nttg.barrier all\n%v = tt.load %p : BLOCK", around=around) == expected


def test_atomics_commute_if_they_are_alike_and_exact() -> None:
    block, masks = "tensor<128x!tt.ptr<KIND>>", "%m = arith.constant dense<true> : tensor<128xi1>\n"
    cast = f"%NAME = tt.bitcast %p : BLOCK -> {block}\n%dNAME = arith.constant dense<1.0> : tensor<128xKIND>\n"
    types = f"({block}, tensor<128xKIND>, tensor<128xi1>) -> tensor<128xKIND>"
    update = f"%uNAME = tt.atomic_rmw fadd, relaxed, gpu, %NAME, %dNAME, %m : {types}\n"

    def made(text: str, name: str, kind: str) -> str:
        return text.replace("NAME", name).replace("KIND", kind)

    assert verdict(masks + "".join([made(cast + update, name, "f32") for name in ("g", "h")])) == "unknown"
    integers = cast.replace("1.0", "1") + update.replace("fadd", "add")
    assert verdict(masks + "".join([made(integers, name, "i32") for name in ("g", "h")])) == "proven"
    assert verdict(masks + made(integers, "g", "i32") + made(integers.replace("add, rel", "max, rel"), "h", "i32")) == "unknown"


UPDATED = """scf.for %i = %c0 to %n step %c1 : i32 {
  ONE
  %k7 = arith.andi %k, %c7 : i32
  %at = arith.muli %k7, %c128 : i32
  %from = tt.addptr %y, %at : !tt.ptr<i32>, i32
  %fs = tt.splat %from : !tt.ptr<i32> -> BLOCK
  %fp = tt.addptr %fs, %r : BLOCK, tensor<128xi32>
  %v = tt.load %fp : BLOCK
  TWO
} {tt.num_stages = 3 : i32}"""
ADD = "%k = tt.atomic_rmw add, acq_rel, gpu, %o, %c1, %true : (!tt.ptr<i32>, i32, i1) -> i32"
EXCHANGED = ADD.replace("%k", "%e").replace("add", "exch")
SWAP = "%k = tt.atomic_cas acq_rel, gpu, %o, %c0, %c1 : (!tt.ptr<i32>, i32, i32) -> i32"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("update", [ADD, SWAP])
@pytest.mark.parametrize("other", ["tt.store %o, %i : !tt.ptr<i32>", EXCHANGED])
def test_what_loads_are_fetched_from_is_updated_ahead_of_earlier_iterations(update: str, other: str) -> None:
    """Triton 3.9 updates the scalar for the next two iterations before the first one stores it."""
    body = UPDATED.replace("ONE", update)
    assert verdict(body.replace("TWO", other)) == "unknown"
    assert verdict(body.replace("TWO", f"scf.if %go {{\n{other}\n}}")) == "unknown"
    assert verdict(UPDATED.replace("ONE", f"{other}\n{update}").replace("TWO", "")) == "unknown"
    assert verdict(body.replace("TWO", f"{other}\ngpu.barrier")) == "unknown"
    assert verdict(body.replace("TWO", f"{other}\nttg.barrier all")) == "proven"
    assert verdict(f"{LOOPED}\n" + body.replace("TWO", other)) == "unknown"


def test_scalars_outside_of_loops_are_in_the_order_of_the_text() -> None:
    assert verdict(f"{ADD}\ntt.store %o, %k : !tt.ptr<i32>\n{EXCHANGED}") == "proven"
    loop = f"scf.for %i = %c0 to %n step %c1 : i32 {{\n{EXCHANGED}\n}}"
    assert verdict(f"{ADD}\n{loop}\ntt.store %o, %k : !tt.ptr<i32>") == "unknown"  # with itself, in another iteration
    assert verdict(f"{ADD}\n{loop.replace('exch', 'add')}\ntt.store %o, %k : !tt.ptr<i32>") == "proven"
