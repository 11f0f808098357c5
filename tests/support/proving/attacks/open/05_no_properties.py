"""prove(properties=()) proves nothing and is `ok`."""
import joinery as jn
k = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>) {
  %c1 = arith.constant 100 : i32
  %at = tt.addptr %x, %c1 : !tt.ptr<i32>, i32
  tt.store %at, %c1 : !tt.ptr<i32>
  tt.return
}""")
print(k.prove(extents={"x": 1}).ok, k.prove(extents={"x": 1}, properties=()).ok)
