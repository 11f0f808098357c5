"""Structs and unions: values that are taken apart, against NumPy and ctypes; and what is wrong with them."""

from __future__ import annotations

import ctypes
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.triton_c import TYPES, problems, run

COMPLEX = """
typedef struct { T re, im; } complex;
complex times(complex x, complex y) { return (complex){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
"""
POWERS = f"""{COMPLEX}
__global__ void powers(T *out, T *in, int n) {{
  complex z = {{*in, .im = *(in + 1)}}, p = {{1}};
  for (int k = 0; k < n; k++) {{ *(out + 2 * k) = p.re; *(out + 2 * k + 1) = p.im; p = times(p, z); }}
}}
"""
DEVICES = ("interpreter", "sanitizer", "cpu", "ptxsim")
POINT = "struct point { int x, y; }; struct line { struct point from, to; float *p; };"
MAKE = "struct point make(int *p, int x) { *p += 1; struct point a = {x, .y = x * 10}; return a; }"


def ints(body: str, count: int, functions: str = f"{POINT} {MAKE}") -> list[int]:
    """Return what a kernel leaves in an array of ints, interpreted and on the host."""
    text = f"{functions}\n__global__ void f(int *y, int n) {{\n{body}\n}}"
    found: list[int] = run(text, 1, np.zeros(count, np.int32), 3)[0].tolist()
    return found


def on(device: str, kernel: jn.kernel.Kernel, *args: Any) -> None:
    """Run one program of a kernel."""
    if device == "interpreter":
        kernel.interpret(1, *args)
    elif device == "sanitizer":
        assert kernel.sanitize(1, *args).findings == ()
    else:
        kernel.launch(1, *args, device=device)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_a_struct_of_every_type_through_functions_and_loops(dtype: Any) -> None:
    kernel = jn.kernel.from_triton_c(POWERS, {"T": TYPES[np.dtype(dtype).name]})
    expected, z = [1 + 0j], 2 + 1j
    for _ in range(6):
        expected.append(expected[-1] * z)
    wanted = np.array([[each.real, each.imag] for each in expected]).astype(np.int64).astype(dtype)
    for device in DEVICES:
        out = np.zeros((7, 2), dtype)
        on(device, kernel, out, np.array([2, 1], dtype), 7)
        np.testing.assert_array_equal(out, wanted)


STATE = """
struct state { float m[8], s[8, 4]; int n; };
struct state next(struct state old, float v[8, 4]) {
  struct state new = old;
  new.m = max(old.m, v[:, max]);
  if (new.n % 2) { new.s += v; new.n++; return new; }
  new.s -= v; new.n += 1;
  return new;
}
__global__ void f(float *y, float *x, int n) {
  int r[8] = 0 ... 8, c[4] = 0 ... 4;
  struct state st = {-1e30f, .n = 0};
  while (st.n < n) st = next(st, *(x + st.n * 32 + r[:, newaxis] * 4 + c));
  *(y + r) = st.m; *(y + 8 + r[:, newaxis] * 4 + c) = st.s; *(y + 40) = st.n;
}
"""


def test_blocks_in_structs_are_carried_by_loops() -> None:
    x = np.random.default_rng(2).standard_normal((5, 8, 4)).astype(np.float32)
    wanted = np.r_[x.max((0, 2)), (x[1] - x[0] - x[2] + x[3] - x[4]).ravel(), 5]
    kernel = jn.kernel.from_triton_c(STATE)
    for device in DEVICES:
        y = np.zeros(41, np.float32)
        on(device, kernel, y, x.copy(), 5)
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)


def test_assignments_copy_and_read_before_they_write() -> None:
    swap = "struct point a = {1, 2}, b = a; b.x = 7; a = (struct point){a.y, a.x}; *y = a.x; *(y + 1) = a.y; *(y + 2) = b.x;"
    assert ints(swap, 3) == [2, 1, 7]
    chain = "struct point a, b; a = b = (struct point){5, 6}; a.x += b.y; b.y++;"
    chain += " *y = a.x; *(y + 1) = b.y; *(y + 2) = (a = b).x;"
    assert ints(chain, 3) == [11, 7, 5]
    nested = "struct line l = {.to = {1, 2}, .from.y = 3}; l.from = l.to; l.to.x = l.from.y = 9;"
    assert ints(f"{nested} *y = l.from.x; *(y + 1) = l.from.y; *(y + 2) = l.to.x; *(y + 3) = l.to.y; *(y + 4) = !l.p;", 5) == [
        1, 9, 9, 2, 1,
    ]  # fmt: skip


def test_members_that_are_not_named_are_zero_and_the_last_value_counts() -> None:
    assert ints("struct point a = {.y = 4}, b = {}, c = {.x = 1, 2, .x = 3}; *y = a.x; *(y + 1) = a.y + b.x + b.y;"
                " *(y + 2) = c.x; *(y + 3) = c.y;", 4) == [0, 4, 3, 2]


def test_one_arm_is_evaluated_where_the_condition_is_a_scalar() -> None:
    assert ints("struct point a = n > 2 ? make(y, 4) : make(y + 1, 5); *(y + 2) = a.y;", 3) == [1, 0, 40]
    assert ints("*(y + 2) = (n > 5 ? make(y, 4) : n > 2 ? make(y + 1, 5) : make(y, 6)).x;", 3) == [0, 1, 5]
    pure = "struct point a = {1, 2}, b = {3, 4}; a = n == 3 ? b : a; *y = a.x; *(y + 1) = select(n == 3, a, b).y;"
    assert ints(pure, 2) == [3, 4]
    known = "struct point a = 1 ? make(y, 4) : make(y + 1, 5), b = (n++, make(y, n)); *(y + 2) = a.x; *(y + 3) = b.x;"
    assert ints(known, 4) == [2, 0, 4, 4]


def test_arguments_are_evaluated_from_the_left() -> None:
    functions = f"{POINT} {MAKE} int at(int old, struct point a, int new) {{ return old * 100 + a.x * 10 + new; }}"
    assert ints("*(y + 1) = at(*y, make(y, 2), *y);", 2, functions) == [1, 21]
    assert ints("int k = 1; struct point a = {k, k += 5}, b = {a.x, 2}; *y = at(k, a = b, k++) + a.x; *(y + 1) = a.y;", 2,
                functions) == [617, 2]
    assert ints("struct point a = {1, 2}, b = {3, 4}; *y = sum(a, a = b);", 1,
                f"{POINT} int sum(struct point a, struct point b) {{ return a.x * 10 + b.x; }}") == [13]


def test_control_flow_keeps_what_it_assigns() -> None:
    body = """struct point a = {0, 0};
  for (int k = 0; k < 10; k++) { if (k == n) continue; if (k == 6) break; a.x += k; struct point b = a; a.y = b.x; }
  switch (n) { case 1: a.x = 0; break; case 3: ; struct point c = {5, 6}; a.x += c.x; default: c.y += 1; a.y += c.y; }
  do { a.x--; } while (a.x > 12);
  *y = a.x; *(y + 1) = a.y;"""
    assert ints(body, 2) == [12, 19]


def test_a_counter_that_is_a_member_makes_a_counted_loop() -> None:
    text = f"{POINT} __global__ void f(int *y, int n) {{ struct point a = {{0, 0}}; for (a.x = 0; a.x < n; a.x++) a.y += a.x;"
    kernel = jn.kernel.from_triton_c(f"{text} *y = a.y; *(y + 1) = a.x; }}\n")
    assert "scf.for" in kernel.ttir
    assert "scf.while" not in kernel.ttir
    y = np.zeros(2, np.int32)
    kernel.launch(1, y, 5)
    assert y.tolist() == [10, 5]


BLOCKS = f"""{COMPLEX}
__global__ void f(float *y, float *x, int n) {{
  int i[16] = 0 ... 16;
  complex z[16] = {{i < n ? *(x + i) : 0, 1}}, one = {{1}};
  z = z.re > 0 ? times(z, z) : one;
  z.im += 2;
  *(y + i) = z.re; *(y + 16 + i) = z.im;
}}
"""


def test_blocks_of_structs() -> None:
    text = BLOCKS.replace("times(complex x, complex y) {", "times(complex x[16], complex y[16])[16] {").replace(
        "return (complex){", "return (complex[16]){"
    )
    x = np.random.default_rng(1).standard_normal(12).astype(np.float32)
    z = np.r_[x, np.zeros(4, np.float32)] + 1j
    z = np.where(z.real > 0, z * z, 1) + 2j
    kernel = jn.kernel.from_triton_c(text, {"T": "float"})
    for device in DEVICES:
        y = np.zeros(32, np.float32)
        on(device, kernel, y, x.copy(), 12)
        np.testing.assert_allclose(y, np.r_[z.real, z.imag], rtol=1e-6)


def test_inactive_lanes_touch_no_memory() -> None:
    text = """
struct two { int a[16], b[16]; };
void count(int *p[16]) { atomic_add(p, 1); }
struct two both(int *p[16], int *q[16]) { count(q); struct two t = {*p, .b = *(p + 1)}; return t; }
__global__ void f(int *y, int *x, int *q, int n) {
  int i[16] = 0 ... 16;
  *(y + i) = i < n ? both(x + i, q + i).b + both(x + i, q + i).a : -1;
}"""
    arrays = np.zeros(16, np.int32), np.arange(11, dtype=np.int32), np.zeros(10, np.int32)
    y, _, q, _ = run(text, 1, *arrays, 10)
    assert y.tolist() == [*(2 * k + 1 for k in range(10)), *[-1] * 6]
    assert q.tolist() == [2] * 10
    kernel = jn.kernel.from_triton_c(text)
    assert kernel.sanitize(1, *arrays, 10).findings == ()
    assert kernel.sanitize(1, *arrays, 11).findings != ()


@pytest.mark.parametrize(
    ("first", "second"), [(np.float32, np.uint32), (np.float16, np.int16), (np.int64, np.float64), (np.int8, np.uint8)]
)
def test_unions_are_other_views_of_bits(first: Any, second: Any) -> None:
    text = """
union bits { A a; B b; };
union wide { A a[8]; B b[8]; };
__global__ void f(B *y, A *x) {
  union bits u = {*x}, v;
  *y = u.b; v.b = u.b; v.b += 1;
  union bits w = v;
  union wide z;
  z.a = *(x + 0 ... 8);
  z.b ^= 3;
  *(x + 8) = w.a; *(x + 16 + 0 ... 8) = z.a;
}"""
    if np.issubdtype(second, np.floating):
        text = text.replace("z.b ^= 3", "z.b = -z.b")
    names = {"A": TYPES[np.dtype(first).name], "B": TYPES[np.dtype(second).name]}
    x = np.zeros(24, first)
    x[:8] = np.arange(8) + 2
    y, x_after = run(text, 1, np.zeros(1, second), x, defines=names)
    assert y[0] == x[:1].view(second)[0]
    assert x_after[8:9].view(second)[0] == x[:1].view(second)[0] + second(1)
    bits = x[:8].view(second)
    changed = -bits if np.issubdtype(second, np.floating) else bits ^ second(3)
    np.testing.assert_array_equal(x_after[16:].view(second), changed)


def test_a_union_of_pointers() -> None:
    text = """union address { float *p; long n; unsigned int *q; };
__global__ void f(float *y, float *x) {
  union address a = {x};
  a.n += 8;
  unsigned int two = *a.q;
  *y = *a.p; *(y + 1) = two >> 16;
}"""
    kernel = jn.kernel.from_triton_c(text)
    x = np.arange(4, dtype=np.float32)
    for device in ("interpreter", "cpu", "ptxsim"):
        y = np.zeros(2, np.float32)
        on(device, kernel, y, x, *())
        assert y.tolist() == [2.0, 0x4000]


def test_sizes_are_those_of_c() -> None:
    class Inner(ctypes.Structure):
        _fields_ = (("a", ctypes.c_char), ("b", ctypes.c_double), ("c", ctypes.c_short))

    class Outer(ctypes.Structure):
        _fields_ = (
            ("x", ctypes.c_short), ("inner", Inner), ("p", ctypes.c_void_p), ("v", ctypes.c_float * 4), ("z", ctypes.c_bool),
        )  # fmt: skip

    text = """struct inner { char a; double b; short c; };
struct outer { short x; struct inner inner; float *p; float v[4]; bool z; };
union either { float a; int b; };
__global__ void f(int *y) {
  struct outer o = {0};
  *y = sizeof(struct inner); *(y + 1) = sizeof o; *(y + 2) = sizeof(union either); *(y + 3) = sizeof o.inner.b;
}"""
    sizes = [ctypes.sizeof(Inner), ctypes.sizeof(Outer), 4, 8]
    assert run(text, 1, np.zeros(4, np.int32))[0].tolist() == sizes


# Parameters of kernels

PARAMETERS = """
struct view { float *data; struct { int rows, columns; } size; };
union scale { float f; int bits; };
__global__ void f(float *y, struct view v, bool flag, union scale s) {
  int i[16] = 0 ... 16;
  *?(i < v.size.rows * v.size.columns)(y + i) = flag ? *?(i < v.size.rows * v.size.columns)(v.data + i) * s.f : -1;
}
"""
DATA = np.arange(6, dtype=np.float32)
SIZE = np.array((2, 3), [("rows", np.int32), ("columns", np.int32)])


@pytest.mark.parametrize(
    "view",
    [
        {"data": DATA, "size": {"rows": 2, "columns": 3}}, {"size": (2, 3), "data": DATA}, (DATA, [2, 3]), (DATA, SIZE),
        {"data": DATA, "size": SIZE[()]},
    ],
    ids=["mappings", "a mapping of a tuple", "a tuple", "a structured array", "a structured scalar"],
)  # fmt: skip
def test_structs_are_launched(view: Any) -> None:
    kernel = jn.kernel.from_triton_c(PARAMETERS)
    assert [each.name for each in kernel.parameters] == ["y", "v.data", "v.size.rows", "v.size.columns", "flag", "s"]
    for device in DEVICES:
        y = np.zeros(16, np.float32)
        on(device, kernel, y, view, True, {"f": 0.5})
        assert y.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, *[0] * 10]


def test_members_are_launched_one_after_the_other() -> None:
    y = np.zeros(16, np.float32)
    jn.kernel.from_triton_c(PARAMETERS).launch(1, y, DATA, 2, 3, True, 2.0)
    assert y[:6].tolist() == [0, 2, 4, 6, 8, 10]


def test_tuned_kernels_take_structs() -> None:
    text = PARAMETERS.replace("16", "B")
    kernel = jn.kernel.tune(text, {"B": [8, 16]}, lock=None, progress=False)
    assert kernel.key == ("v.size.rows", "v.size.columns", "flag")
    y = np.zeros(16, np.float32)
    kernel.launch(1, y, {"data": DATA, "size": (2, 3)}, True, (2.0,))
    assert y[:6].tolist() == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((DATA, {"data": DATA}, True, 1.0), "@f, parameter v: members data for struct view, which has data, size"),
        ((DATA, (DATA, 2, 3), True, 1.0), "@f, parameter v: 3 values for struct view, which has data, size; fix: one for each"),
        ((DATA, (DATA, 2), True, 1.0),
         "@f, parameter v.size: expected a mapping, a tuple or a structured scalar for struct, got int"),
        ((DATA, (DATA, (2, 3.5)), True, 1.0), "@f, parameter v.size.columns of type int (<text>:4): 3.5 is no integer"),
        ((DATA, (DATA, (2, 3)), True),
         "3 arguments do not supply its parameters (float* y, struct view v, bool flag, union scale s)"),
        ((DATA, (DATA, (2, 3)), True, 1.0, 2), "5 arguments do not supply its parameters"),
        ((DATA, DATA, 2, 3, True, {"bits": 4}), "@f, parameter s: members bits for union scale, which has f"),
    ],
)  # fmt: skip
def test_arguments_that_are_no_struct(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.from_triton_c(PARAMETERS).launch(1, *args)
    assert message in str(caught.value)


def test_a_promise_behind_a_struct_is_checked() -> None:
    text = f"{POINT} __global__ void f(int *y, struct point a, int n __multipleof(4)) {{ *y = n; }}\n"
    kernel = jn.kernel.from_triton_c(text)
    kernel.launch(1, np.zeros(1, np.int32), (1, 2), 8)
    with pytest.raises(jn.UserError, match=r"@f, parameter n: __multipleof\(4\) is promised, and the argument is 6"):
        kernel.launch(1, np.zeros(1, np.int32), (1, 2), 6)


def test_enumerations_are_types() -> None:
    text = "enum color { RED, BLUE = 4 }; typedef enum { A = 7, B } kind; int code(enum color c, kind k) { return c * 10 + k; }"
    assert ints("enum color c = BLUE; kind k = B; *y = code(c, k); *(y + 1) = code(RED, A);", 2, text) == [48, 7]


# Mistakes

HEAD = f"{POINT} union bits {{ float f; int i; }}; struct blocks {{ float v[8]; }}; struct other {{ int x, y; }};"
LOCALS = "struct point a = {1, 2}; union bits u = {0}; struct blocks b = {0}; int i[16] = 0 ... 16; const struct point c = {1};"

MISTAKES = [
    ("a.z = 1;", "3:3: error: struct point has no member z; fix: x, y"),
    ("n.x = 1;", "3:3: error: member x of a value of type int, which has no members"),
    ("n = a.x.y;", "3:9: error: member y of a value of type int, which has no members"),
    ("a = 3;", "3:3: error: a value of type int where struct point is expected; fix: (struct point){…}"),
    ("n = a;", "3:3: error: a value of type struct point where int is expected; fix: a member, v.name"),
    ("struct other o = a;", "3:14: error: a value of type struct point where struct other is expected"),
    ("a + 1;", "3:3: error: + of a value of type struct point, expected a number"),
    ("a == a;", "3:3: error: == of a value of type struct point, expected a number"),
    ("-a;", "3:1: error: - of a value of type struct point"), ("!a;", "3:2: error: a value of type struct point where bool is"),
    ("if (a) n = 1;", "3:5: error: a value of type struct point where bool is expected"),
    ("*a;", "3:1: error: a value of type struct point is dereferenced, which is no pointer"),
    ("a[:];", "3:2: error: a subscript of a value of type struct point; fix: a member, v.name"),
    ("^a;", "3:1: error: ^ of a value of type struct point"), ("a @ a;", "3:3: error: @ of a value of type struct point"),
    ("print(\"a\", a);", "3:12: error: print of a value of type struct point"),
    ("(float)a;", "3:1: error: a value of type struct point where float is expected"),
    ("(struct point)n;", "3:1: error: a cast to struct point; fix: (struct point){…}"),
    ("n ? a : 3;", "3:3: error: the arms of a conditional expression are struct point and int; fix: two values of one type"),
    ("i > 3 ? b : b;",
     "3:7: error: a condition of shape [16] chooses between values of struct blocks, whose member v is float[8]"),
    ("struct { int a[16], b; } t = {i, 1}; t = i > 3 ? t : t;",
     "3:48: error: a condition of shape [16] chooses between values of struct, whose member b is int; fix: a choice for each"),
    ("c.x = 3;", "3:3: error: c.x is const, and is assigned to"), ("c = a;", "3:1: error: c is const"),
    ("i > 3 ? (a.x = 1) : 2;", "3:12: error: an arm of ?: on a block of conditions assigns a.x; fix: a.x = c ? … : a.x"),
    ("make(a).x = 3;", "this is not assigned to; what is assigned to is a name, a member, *p or *?(m)p"),
    ("struct point *q;", "3:1: error: a pointer to struct point, which has no place in memory"),
    ("struct blocks q[4];", "3:1: error: a block of struct blocks, which has blocks for members"),
    ("struct point q = {1, 2, 3};", "3:25: error: too many values for struct point, which has 2 members"),
    ("struct point q = {.z = 3};", "3:20: error: struct point has no member z"),
    ("struct point q = {.x.z = 3};", "3:22: error: member z of a value of type int"),
    ("struct point q = {{1, 2}, 2};", "3:19: error: brace lists are not supported"),
    ("struct line q = {1, a};", "3:21: error: a value of type struct point where int is expected"),
    ("struct line q = {.to = a, 0, 3};", "3:30: error: too many values for struct line, which has 3 members"),
    ("struct line q = {[0] = 1};", "3:18: error: […] = in values of struct line, which has members; fix: .name ="),
    ("struct point q = {x: 1};", "3:19: error: name: before an initial value is an old spelling; fix: .x ="),
    ("struct later; struct later q;", "3:15: error: struct later is declared, and not defined"),
    ("struct { int x; struct { int x; }; } q;", "is twice a member of struct"),
    ("union bits q = {1, 2};", "3:20: error: too many values for union bits, which has one value"),
    ("struct point q = {i};", "3:19: error: q.x is a scalar, and the value has shape [16]"),
    ("a = {1, 2};",
     "brace lists are not supported"), ("float v[4] = {1, 2, 3, 4};", "3:14: error: brace lists are not supported"),
    ("struct { int x, x; } q;",
     "3:17: error: x is twice a member of struct"), ("struct e { } q;", "3:1: error: struct e has no members"),
    ("struct pint q;", "3:1: error: struct pint is not defined; fix: did you mean struct point"),
    ("struct r { struct r inner; } q;", "3:12: error: struct r is not defined"),
    ("union { float f; long l; } q;", "the members of union differ in width: f is float with 32 bits, l is long with 64 bits"),
    ("union { float f; int i[4]; } q;", "3:22: error: the members of union differ in width"),
    ("union { bool b; char c; } q;",
     "3:14: error: b of type bool is a member of union; fix: numbers and pointers of one width"),
    ("union { struct point a; } q;", "a of type struct point is a member of union"),
    ("struct { int a : 3; } q;", "3:16: error: members of some bits are not supported"),
    ("struct { const int *p; int n; const int k; } q;",
     "3:41: error: k is a const member of struct; fix: const before the variable"),
    ("struct { int *p __noalias; } q;", "3:17: error: __noalias behind a member of struct"),
    ("struct { x; } q;", "3:10: error: expected the type of a member of struct, got 'x'"),
    ("struct point { int z; } a1; struct point { int w; } a2;", "3:29: error: struct point is declared twice in this scope"),
    ("a->x = 3;", "3:2: error: -> of a pointer to a struct, and there are none: structs are values; fix: v.member"),
    ("n = take(n);", "3:10: error: a value of type int where struct point is expected"),
    ("goto out;", "goto is not supported"), ("switch (a) { case 1: ; }", "a switch over a value of type struct point"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), MISTAKES, ids=lambda each: str(each)[:40])
def test_a_mistake_is_told(body: str, message: str) -> None:
    functions = f"{MAKE.replace('int *p, int x', 'struct point q').replace('*p += 1;', '').replace('{x, .y = x * 10}', '{1}')}"
    others = f"{functions} int take(struct point q) {{ return q.x; }}"
    found = problems(f"{HEAD} {others} __global__ void f(int n) {{\n{LOCALS}\n{body}\n}}")
    assert message in found
    assert found.splitlines()[2].strip() == "^"


def test_a_struct_of_many_numbers() -> None:
    lines = ["struct s0 { int a, b; };", *(f"struct s{k} {{ struct s{k - 1} a, b; }};" for k in range(1, 40))]
    assert "struct s8 consists of more than 256 numbers" in problems("\n".join([*lines, "__global__ void f(int *y) { }"]))


def test_a_member_that_nobody_assigned_is_warned_about() -> None:
    text = f"{POINT} __global__ void f(int *p) {{ struct point a; a.x = 3; *p = a.x + a.y; }}\n"
    with pytest.warns(jn.TritonCWarning, match=r"a\.y may be read before something is assigned to it: it is 0"):
        jn.kernel.from_triton_c(text, cache=False)
