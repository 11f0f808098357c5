import joinery as jn, numpy as np
# the same leak through a callee with an early exit whose result is a merged value; also: "never executed"
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
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
  %p = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %p, %n : !tt.ptr<i32>
  tt.return
}
""")
pr = k.prove(extents={"x": "2"}, grid="1")
print(pr)
print(k.sanitize(1, np.zeros(2, np.int32), 50))
