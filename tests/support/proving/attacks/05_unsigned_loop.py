import joinery as jn, numpy as np
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  "scf.for"(%c0, %n, %c1)  ({
  ^bb0(%i: i32):
    tt.store %x, %n : !tt.ptr<i32>
    scf.yield
  }) {unsignedCmp} : (i32, i32, i32) -> ()
  tt.return
}
""")
pr = k.prove(extents={"x": "1"}, grid="1", properties=("overflow","termination of loops", "bounds"))
print(pr)
