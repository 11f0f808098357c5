import joinery as jn, numpy as np, faulthandler
k = jn.kernel.from_ttir("""
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %v = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %r = "tt.reduce"(%v) <{axis = 0 : i32}> ({
  ^bb0(%a: i32, %a2: i32):
    %t = arith.constant true
    %q = scf.while (%w = %a) : (i32) -> i32 {
      scf.condition(%t) %w : i32
    } do {
    ^bb1(%w2: i32):
      scf.yield %w2 : i32
    }
    tt.reduce.return %q : i32
  }) : (tensor<8xi32>) -> i32
  tt.store %x, %r : !tt.ptr<i32>
  tt.return
}
""")
print(k.prove(extents={"x": "8"}, grid="1", properties=("termination of loops","bounds")), flush=True)
