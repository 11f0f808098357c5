import joinery as jn, numpy as np
# D -(n>10)-> B(n) | Z ; B: n>0 -> E | F ; Z -> E.  E stores at select(n>10, 0, 100)
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c10 = arith.constant 10 : i32
  %c100 = arith.constant 100 : i32
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
  %o = arith.select %c, %c0, %c100 : i32
  %p = tt.addptr %x, %o : !tt.ptr<i32>, i32
  tt.store %p, %n : !tt.ptr<i32>
  tt.return
}
""")
pr = k.prove(extents={"x": "1"}, grid="1")
print(pr)
print(k.launch(1, np.zeros(1, np.int32), 3, sanitize=True) if 0 else k.sanitize(1, np.zeros(1, np.int32), 3))
