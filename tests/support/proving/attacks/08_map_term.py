import joinery as jn, numpy as np, faulthandler
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
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
  }) : (tensor<8xi32>) -> tensor<8xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %p = tt.addptr %xs, %v : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %p, %r : tensor<8x!tt.ptr<i32>>
  tt.return
}
""")
print(k.prove(extents={"x": "8"}, grid="1", properties=("termination of loops","bounds")), flush=True)
faulthandler.dump_traceback_later(15, exit=True)
print(k.sanitize(1, np.zeros(8, np.int32), 3))
