import joinery as jn, numpy as np
# the leak says "never executed" of a store that runs, and proves that programs do not meet, and that a loop of step 0 ends
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c10 = arith.constant 10 : i32
  %pid = tt.get_program_id x : i32
  %c = arith.cmpi sgt, %n, %c10 : i32
  cf.cond_br %c, ^b(%n : i32), ^z
^b(%a: i32):
  %d = arith.cmpi sgt, %a, %c0 : i32
  cf.cond_br %d, ^e, ^f
^z:
  cf.br ^e
^f:
  tt.return
^e:
  %o = arith.select %c, %pid, %c0 : i32
  %p = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %p, %pid : !tt.ptr<i32>
  %i = arith.extui %c : i1 to i32
  scf.for %j = %c0 to %c10 step %i : i32 {
  }
  %t = arith.constant true
  %nc = arith.xori %c, %t : i1
  tt.store %x, %n, %nc : !tt.ptr<i32>
  tt.return
}
""")
pr = k.prove(extents={"x": "g"}, grid="g", assume="g >= 1", properties=("bounds", "races", "termination of loops"))
print(pr)
k2 = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c10 = arith.constant 10 : i32
  %pid = tt.get_program_id x : i32
  %c = arith.cmpi sgt, %n, %c10 : i32
  cf.cond_br %c, ^b(%n : i32), ^z
^b(%a: i32):
  %d = arith.cmpi sgt, %a, %c0 : i32
  cf.cond_br %d, ^e, ^f
^z:
  cf.br ^e
^f:
  tt.return
^e:
  %o = arith.select %c, %pid, %c0 : i32
  %p = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %p, %pid : !tt.ptr<i32>
  %i = arith.extui %c : i1 to i32
  %t = arith.constant true
  %nc = arith.xori %c, %t : i1
  tt.store %x, %n, %nc : !tt.ptr<i32>
  tt.return
}
""")
pr = k2.prove(extents={"x": "g"}, grid="g", assume="g >= 1", properties=("bounds", "races")); print([(a.prop, a.line, a.verdict) for a in pr.accesses])
print(k2.sanitize(2, np.zeros(2, np.int32), 3))
