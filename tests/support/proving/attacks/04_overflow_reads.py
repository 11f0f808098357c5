import joinery as jn, numpy as np
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<f64>, %idx: !tt.ptr<i64>, %n: i32) {
  %q = tt.addptr %idx, %n : !tt.ptr<i64>, i32
  %i = tt.load %q : !tt.ptr<i64>
  %p = tt.addptr %x, %i : !tt.ptr<f64>, i64
  %f = arith.constant 1.0 : f64
  tt.store %p, %f : !tt.ptr<f64>
  tt.return
}
""")
pr = k.prove(extents={"x": "100", "idx": "4"}, assume=["0 <= idx[:] < 100", "n >= 0"], grid="1")
print(pr)
