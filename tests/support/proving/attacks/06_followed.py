import joinery as jn, numpy as np
from joinery.interface.tensor_arguments import TensorDescriptor
k = jn.kernel.from_ttir("""
tt.func public @k(%a: !tt.tensordesc<tensor<8xi32>>, %n: i32, %m: i64) {
  %v = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  tt.descriptor_store %a[%n], %v : !tt.tensordesc<tensor<8xi32>>, tensor<8xi32>
  tt.return
}
""")
A = np.zeros(100, np.int32)
d = TensorDescriptor(A, shape=[100], strides=[1], block_shape=[8])
pr = k.prove.like(2, d, 5, 1, properties=("races", "bounds"))
print(pr)
print(k.sanitize(2, d, 5, 1))
