import joinery as jn, numpy as np
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %m = arith.cmpi slt, %n, %c0 : i32
  %sq = arith.muli %n, %n : i32
  %i = tt.load %y, %m, %sq : !tt.ptr<i32>
  %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
  %f = arith.constant 1.0 : f32
  tt.store %p, %f : !tt.ptr<f32>
  tt.return
}
""")
pr = k.prove(grid="1", extents={"y": "1", "x": "100"}, properties=("overflow",))
print(pr)
print("n = 65536: n*n wraps to 0 and is the address: x + 0")
print(k.sanitize(1, np.zeros(100, np.float32), np.zeros(1, np.int32), 65536))
