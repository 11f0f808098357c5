import joinery as jn, numpy as np
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<i8>, %n: i32) {
  %i8 = tt.load %y : !tt.ptr<i8>
  %i = arith.extsi %i8 : i8 to i32
  %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
  %f = arith.constant 1.0 : f32
  tt.store %p, %f : !tt.ptr<f32>
  tt.return
}
""")
print(k.prove(grid="1", extents={"y": "1", "x": "1"}, assume="300 <= y[:] < 400"))
