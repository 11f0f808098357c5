"""What earlier provers proved wrongly: faults that readers and random kernels found."""

from __future__ import annotations

from .faulty import Faulty, zeros

_ARRAY = "%x: !tt.ptr<i32>, %n: i32"

_WAY_AROUND = """
  %c0 = arith.constant 0 : i32
  %c10 = arith.constant 10 : i32
  %c100 = arith.constant 100 : i32
  %p = tt.get_program_id x : i32
  %c = arith.cmpi sgt, %n, %c10 : i32
  cf.cond_br %c, ^b(%n : i32), ^z
^b(%a: i32):
  %d = arith.cmpi sgt, %a, %c0 : i32
  cf.cond_br %d, ^e, ^f
^z:
  cf.br ^e
^f:
  tt.return
^e:"""
"""What holds of %a held where nobody comes through ^b."""

_TWO_MERGES = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c10 = arith.constant 10 : i32
  %c20 = arith.constant 20 : i32
  %c100 = arith.constant 100 : i32
  %c = arith.cmpi sgt, %n, %c10 : i32
  %d = arith.cmpi slt, %n, %c20 : i32
  cf.cond_br %c, ^b1, ^b2
^b1:
  cf.cond_br %d, ^m(%c1 : i32), ^z
^b2:
  cf.br ^m(%c0 : i32)
^m(%a: i32):
  cf.br ^e(%a : i32)
^z:
  cf.br ^e(%c100 : i32)
^e(%o: i32):
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>"""

_NEVER = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %c100 = arith.constant 100 : i32
  %st = arith.constant {step} : i32
  %a = arith.cmpi sgt, %n, %c5 : i32
  %b = arith.cmpi slt, %n, %c3 : i32
  %c = arith.andi %a, %b : i1
  %v = scf.if %c -> (i32) {{
    %r = scf.for %i = %c0 to %n step %st iter_args(%q = %c0) -> (i32) : i32 {{
      %w = arith.addi %q, %c1 : i32
      scf.yield %w : i32
    }}
    scf.yield %r : i32
  }} else {{
    scf.yield %c100 : i32
  }}
  %at = tt.addptr %x, %v : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>"""
"""A loop that is never reached, where the solver shows of any step that it is 1 or more."""

_POISON = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %p = ub.poison : i32
  %d = arith.subi %p, %p : i32"""
"""A difference that is 0 if poison is one number, and any number as it is not."""
_STORE = """
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>"""
_POISONED = {
    "address": f"""
  %o = arith.addi %d, %c0 : i32{_STORE}""",
    "mask": """
  %m = arith.cmpi ne, %d, %c0 : i32
  %at = tt.addptr %x, %c1 : !tt.ptr<i32>, i32
  tt.store %at, %n, %m : !tt.ptr<i32>""",
    "path": f"""
  %m = arith.cmpi ne, %d, %c0 : i32
  scf.if %m {{
    %o = arith.addi %c1, %c0 : i32{_STORE}
  }}""",
    "branch": f"""
  %m = arith.cmpi ne, %d, %c0 : i32
  cf.cond_br %m, ^a, ^b
^a:
  %o = arith.addi %c1, %c0 : i32{_STORE}
  cf.br ^b
^b:""",
    "merge of branches": f"""
  %m = arith.cmpi sgt, %n, %c0 : i32
  cf.cond_br %m, ^a, ^b(%c0 : i32)
^a:
  cf.br ^b(%d : i32)
^b(%o: i32):{_STORE}""",
    "result of a branch": f"""
  %m = arith.cmpi sgt, %n, %c0 : i32
  %o = scf.if %m -> (i32) {{
    scf.yield %d : i32
  }} else {{
    scf.yield %c0 : i32
  }}{_STORE}""",
    "loop": f"""
  %o = scf.for %i = %c0 to %c1 step %c1 iter_args(%k = %c0) -> (i32) : i32 {{
    %j = arith.addi %k, %d : i32
    scf.yield %j : i32
  }}{_STORE}""",
    "start of a loop": f"""
  scf.for %i = %c0 to %c1 step %c1 iter_args(%k = %p) -> (i32) : i32 {{
    %o = arith.subi %k, %k : i32{_STORE}
    scf.yield %k : i32
  }}""",
    "number of iterations": f"""
  scf.for %o = %c0 to %d step %c1 : i32 {{{_STORE}
  }}""",
    "loop with a condition": f"""
  %o = scf.while (%i = %c0) : (i32) -> (i32) {{
    %m = arith.cmpi slt, %i, %d : i32
    %j = arith.muli %i, %c0 : i32
    scf.condition(%m) %j : i32
  }} do {{
  ^bb0(%j: i32):
    scf.yield %j : i32
  }}{_STORE}""",
    "reduction": f"""
  %l = tt.make_range {{end = 2 : i32, start = 0 : i32}} : tensor<2xi32>
  %r = "tt.reduce"(%l) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: i32, %b: i32):
    %q = ub.poison : i32
    tt.reduce.return %q : i32
  }}) : (tensor<2xi32>) -> i32
  %o = arith.subi %r, %r : i32{_STORE}""",
}
"""By what is made of poison, kernels that store to x[0] or nowhere, if it is one number."""

ATTACKS: dict[str, Faulty] = {
    **{
        f"poison in the {where}": Faulty(_ARRAY, _POISON + body, {"x": 1}, 1, "bounds")
        for where, body in _POISONED.items()
    },
    "poison in the address, which the sanitizer finds": Faulty(
        _ARRAY, _POISON + _POISONED["address"], {"x": 1}, 1, "bounds", (1, [zeros(1), 3], "uninitialised")
    ),
    "poison in the address, and programs that meet": Faulty("%x: !tt.ptr<i32>, %n: i32", f"""{_POISON}
  %g = tt.get_program_id x : i32
  %o = arith.addi %d, %g : i32{_STORE}""", {"x": "g"}, "g", "races", None, ("g <= 100",)),
    "poison in the step of a loop": Faulty(_ARRAY, f"""{_POISON}
  %s = arith.addi %d, %c1 : i32
  scf.for %i = %c0 to %c1 step %s : i32 {{
  }}""", {}, 1, "termination of loops"),
    "poison that lanes store to one element": Faulty(_ARRAY, f"""{_POISON}
  %v = tt.splat %d : i32 -> tensor<2xi32>
  %at = tt.splat %x : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
  tt.store %at, %v : tensor<2x!tt.ptr<i32>>""", {"x": 1}, 1, "races"),
    **{
        f"a quotient by a step of {step} in a loop that is never reached": Faulty(
            _ARRAY, _NEVER.format(step=step), {"x": 1}, 1, "bounds", (1, [zeros(1), 3], "out-of-bounds")
        ) for step in (-3, -1, 0)
    },
    "facts of a block's argument, around the block": Faulty(_ARRAY, f"""{_WAY_AROUND}
  %o = arith.select %c, %c0, %c100 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %n : !tt.ptr<i32>""", {"x": 1}, 1, "bounds", (1, [zeros(1), 3], "out-of-bounds")),
    "facts of a block's argument, of two merges": Faulty(
        _ARRAY, _TWO_MERGES, {"x": 2}, 1, "bounds", (1, [zeros(2), 50], "out-of-bounds")
    ),
    "facts of a block's argument, and a store that never seems to run": Faulty(_ARRAY, f"""{_WAY_AROUND}
  %t = arith.constant true
  %nc = arith.xori %c, %t : i1
  tt.store %x, %n, %nc : !tt.ptr<i32>""", {"x": 0}, 1, "bounds", (1, [zeros(0), 3], "out-of-bounds")),
    "facts of a block's argument, and programs that meet": Faulty(_ARRAY, f"""{_WAY_AROUND}
  %o = arith.select %c, %p, %c0 : i32
  %at = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %at, %p : !tt.ptr<i32>""", {"x": 2}, 2, "races", (2, [zeros(2), 3], "race")),
    "facts of a block's argument, and a loop of step 0": Faulty(_ARRAY, f"""{_WAY_AROUND}
  %i = arith.extui %c : i1 to i32
  scf.for %j = %c0 to %c10 step %i : i32 {{
  }}""", {}, 1, "termination of loops"),
    "a multiple of 4 only where nothing wraps": Faulty("%x: !tt.ptr<i8> {tt.divisibility = 16 : i32}, %n: i32", """
  %c0 = arith.constant 0 : i32
  %c12 = arith.constant 12 : i32
  %c3 = arith.constant 3 : i32
  %last = arith.constant 60 : i32
  %a = arith.muli %n, %c12 : i32
  %y = arith.divsi %a, %c3 : i32
  %m0 = arith.cmpi sge, %y, %c0 : i32
  %m1 = arith.cmpi sle, %y, %last : i32
  %m = arith.andi %m0, %m1 : i1
  %b = tt.addptr %x, %y : !tt.ptr<i8>, i32
  %q = tt.bitcast %b : !tt.ptr<i8> -> !tt.ptr<i32>
  tt.store %q, %n, %m : !tt.ptr<i32>""", {"x": 64}, 1, "bounds", (1, [zeros(64, "i1"), 357913942], "misaligned")),
    "a parameter called as a descriptor's extent": Faulty("%a.shape.0: i32, %a: !tt.tensordesc<tensor<8xi32>>", """
  %v = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  tt.descriptor_store %a[%a.shape.0], %v : !tt.tensordesc<tensor<8xi32>>, tensor<8xi32>""", {}, 2, "races",
        None, ("arg1.stride.0 == 1",)),
    "a stride of -2**63 along an axis of extent 1, which launches take": Faulty("%a: !tt.tensordesc<2xi8>", """
  %o = arith.constant -1 : i32
  %v = tt.descriptor_load %a[%o] : !tt.tensordesc<2xi8> -> tensor<2xi8>""", {}, 1, "overflow", None, ("a.shape.0 == 1",)),
    "a circle of blocks in a map": Faulty(_ARRAY, """
  %v = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %r = "tt.map_elementwise"(%v) <{pack = 1 : i32}> ({
  ^bb0(%a: i32):
    cf.br ^bb1(%a : i32)
  ^bb1(%b: i32):
    %c1 = arith.constant 1 : i32
    %c = arith.addi %b, %c1 : i32
    %d = arith.cmpi sgt, %c, %a : i32
    cf.cond_br %d, ^bb1(%a : i32), ^bb2
  ^bb2:
    tt.map_elementwise.return %c : i32
  }) : (tensor<8xi32>) -> tensor<8xi32>""", {}, 1, "termination of loops"),
    "overflow of an index whose load is outside": Faulty("%x: !tt.ptr<f64>, %idx: !tt.ptr<i64>, %n: i32", """
  %q = tt.addptr %idx, %n : !tt.ptr<i64>, i32
  %i = tt.load %q : !tt.ptr<i64>
  %at = tt.addptr %x, %i : !tt.ptr<f64>, i64
  %f = arith.constant 1.0 : f64
  tt.store %at, %f : !tt.ptr<f64>""", {"x": 100, "idx": 4}, 1, "overflow", None, ("0 <= idx[:] < 100", "n >= 0")),
    "an unsigned loop up to a negative number": Faulty(_ARRAY, """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  "scf.for"(%c0, %n, %c1)  ({
  ^bb0(%i: i32):
    %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
    tt.store %at, %n : !tt.ptr<i32>
    scf.yield
  }) {unsignedCmp} : (i32, i32, i32) -> ()""", {"x": "max(n, 1)"}, 1, "bounds"),
    "overflow of what masked lanes of a load give": Faulty("%x: !tt.ptr<f32>, %y: !tt.ptr<i32>, %n: i32", """
  %c0 = arith.constant 0 : i32
  %m = arith.cmpi slt, %n, %c0 : i32
  %sq = arith.muli %n, %n : i32
  %i = tt.load %y, %m, %sq : !tt.ptr<i32>
  %at = tt.addptr %x, %i : !tt.ptr<f32>, i32
  %f = arith.constant 1.0 : f32
  tt.store %at, %f : !tt.ptr<f32>""", {"y": 1, "x": 100}, 1, "overflow"),
}  # fmt: skip

__all__ = ["ATTACKS"]
