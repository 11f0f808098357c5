import joinery as jn, numpy as np
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %stride_0: i32, %stride_1: i32, %stride_2: i32) {
  %q = tt.addptr %x, %stride_1 : !tt.ptr<i32>, i32
  tt.store %q, %stride_0 : !tt.ptr<i32>
  tt.return
}
""")
pr = k.prove(extents={"x": "stride_2 + 1"}, assume=["stride_2 >= 0"], grid="1")
print(pr)
print(k.sanitize(1, np.zeros(8, np.int32), 0, 100, 7))
