"""Models with loops, branches and sequences that nobody thought of, against onnxruntime, or ONNX's evaluator."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from ...support.onnx_texts import by_onnxruntime, model

onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(3)
CONSTANTS = {
    "zero": np.array(0), "one": np.array(1), "two": np.array(2), "three": np.array(3), "neg": np.array(-1),
    "ax0": np.array([0]), "ax1": np.array([1]), "m1": np.array([-1]), "b1": np.array([1 << 40]),
    "fzero": np.float32(0), "fone": np.float32(1), "half": np.float32(0.5), "yes": np.array(True),
}  # fmt: skip
CASES: dict[str, tuple[Any, tuple[dict[str, Any], ...]]] = {}


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def case(
    name: str, signature: str, nodes: str, *runs: dict[str, Any], opset: int = 18, **arrays: Any
) -> None:
    """Adds a model, which has the constants that its nodes name, with what it is called with."""
    given = {key: value for key, value in {**CONSTANTS, **arrays}.items() if re.search(rf"\b{key}\b", nodes)}
    CASES[name] = model(signature, nodes, opset=opset, **given), runs


CORNERS = RNG.uniform(size=(1, 9, 2)).astype(np.float32)
TOPS = np.array([0, 0.1, -0.1, 10, 10.1, 100], np.float32)
BOXES = np.stack([np.zeros(6, np.float32), TOPS, np.ones(6, np.float32), TOPS + 1], -1)[None]

case(
    "early exit, rows of fixed",
    "(float[n] x, int64 m) => (float[n] y, float[t, n] rows, int64[u] counts)",
    """y, rows, counts = Loop (m, yes, x) <body = b (int64 i, bool c, float[n] v) => (bool d, float[n] w, float[n] row,
       int64 k) { p = NonZero (v) s = Shape (p) k0 = Gather (s, one) k = Identity (k0) h = Mul (v, half) a = Abs (h)
       low = Greater (a, cut) w = Where (low, h, fzero) row = Identity (w) low8 = Cast <to=6> (low) mx = ReduceMax
       <keepdims=0> (low8) d1 = Cast <to=9> (mx) d = Identity (d1) }>""",
    {"x": floats(5), "m": np.array(20)},
    {"x": floats(3), "m": np.array(2)},
    {"x": floats(3), "m": np.array(0)},
    cut=np.float32(0.1),
)
case(
    "greedy tokens in a sequence",
    "(int64[1] start, float[16,16] table) => (int64[n] tokens, seq(int64[1]) seqs)",
    """s0 = SequenceEmpty <dtype=7> () last, seqs = Loop (most, yes, start, s0) <body = b (int64 i, bool c, int64[1] t,
       seq(int64[1]) s) => (bool d, int64[1] t1, seq(int64[1]) s1) { row = Gather (table, t) t1 = ArgMax <axis=1,
       keepdims=0> (row) s1 = SequenceInsert (s, t1) e = Equal (t1, eos) q = Squeeze (e) d = Not (q) }> tokens =
       ConcatFromSequence <axis=0> (seqs)""",
    {"start": ints(2), "table": floats(16, 16)},
    {"start": ints(7), "table": floats(16, 16)},
    most=np.array(30),
    eos=np.array([3]),
)
case(
    "three levels of If with other shapes",
    "(float[n] x) => (float s, int64[1] size)",
    """a = ReduceSum <keepdims=0> (x) p = Greater (a, fzero) y = If (p) < then_branch = t () => (float[u] o) { q =
       Greater (a, fone) o = If (q) <then_branch = tt () => (float[u1] o1) { o1 = Concat <axis=0> (x, x) }, else_branch
       = te () => (float[u2] o2) { r = Less (a, half) o2 = If (r) <then_branch = a1 () => (float[k] o3) { o3 = Identity
       (x) }, else_branch = a2 () => (float[k2] o4) { o4 = Slice (x, ax0, ax1) }> }> }, else_branch = e () => (float[v]
       o5) { z = NonZero (x) g = Cast <to=1> (z) o5 = Reshape (g, m1) }> s = ReduceSum <keepdims=0> (y) size = Shape
       (y)""",
    *[
        {"x": np.array(v, np.float32)}
        for v in ([1, 2, 3], [0.2, 0.1], [0.3, 0.4], [-1, 0, -2], [-1], [0.9, 0.05, 0])
    ],
)
case(
    "sequence input of other shapes",
    "(seq(float[a,b]) s) => (seq(float[c,d]) t, float total, int64 n)",
    """n = SequenceLength (s) e = SequenceEmpty () t, total = Loop (n, yes, e, fzero) <body = bb (int64 i, bool c,
       seq(float[c,d]) u, float acc) => (bool d1, seq(float[c,d]) u1, float acc1) { x = SequenceAt (s, i) y = Transpose
       <perm=[1,0]> (x) u1 = SequenceInsert (u, y) r = ReduceSum <keepdims=0> (x) acc1 = Add (acc, r) d1 = Identity (c)
       }>""",
    {"s": [floats(2, 3), floats(2, 3)]},
    {"s": [floats(2, 3), floats(1, 4), floats(3, 1)]},
)
case(
    "sequence of growing ranges",
    "(int64 n) => (seq(int64[k]) s, int64[m] all)",
    """e = SequenceEmpty <dtype=7> () s = Loop (n, yes, e) <body = b (int64 i, bool c, seq(int64[k]) u) => (bool d,
       seq(int64[k]) v) { j = Add (i, one) r = Range (zero, j, one) v = SequenceInsert (u, r) d = Identity (c) }> all =
       ConcatFromSequence <axis=0> (s)""",
    {"n": np.array(4)},
    {"n": np.array(1)},
)
case(
    "NMS with a rising threshold until few are left",
    "(float[1,n,4] boxes, float[1,1,n] scores) => (int64[k,3] kept, float t)",
    """k0 = NonMaxSuppression (boxes, scores, most, iou, cut) t0 = Squeeze (cut) kept, t = Loop (, yes, k0, t0) <body =
       b (int64 i, bool c, int64[k,3] s, float th) => (bool d, int64[k1,3] s1, float th1) { th1 = Add (th, step) thv =
       Unsqueeze (th1, ax0) s1 = NonMaxSuppression (boxes, scores, most, iou, thv) sh = Shape (s1) cnt = Gather (sh,
       zero) d = Greater (cnt, two) }>""",
    {"boxes": BOXES, "scores": np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], np.float32)},
    {"boxes": BOXES[:, :2], "scores": np.array([[[0.9, 0.75]]], np.float32)},
    most=np.array([10]),
    iou=np.float32([0.5]),
    cut=np.float32([0.0]),
    step=np.float32(0.15),
)
case(
    "sieve",
    "(int64 n) => (int64[p] primes)",
    """n1 = Unsqueeze (n, ax0) ones = ConstantOfShape <value = int64[1] {1}> (n1) nums = Range (zero, n, one) g =
       Greater (nums, one) m0 = Cast <to=9> (g) m, p = Loop (, yes, m0, two) <body = b (int64 i, bool c, bool[k] mask,
       int64 q) => (bool d, bool[k] mask1, int64 q1) { r = Mod (nums, q) div = Equal (r, zero) gt = Greater (nums, q)
       kill = And (div, gt) keep = Not (kill) mask1 = And (mask, keep) nz = NonZero (mask1) flat = Squeeze (nz, ax0)
       above = Greater (flat, q) cand = Compress <axis=0> (flat, above) q1 = ReduceMin <keepdims=0> (cand) sq = Mul
       (q1, q1) d = Less (sq, n) }> pn = NonZero (m) primes = Squeeze (pn, ax0)""",
    {"n": np.array(50)},
    {"n": np.array(20)},
)
case(
    "collatz",
    "(int64 n) => (int64[k] steps, int64 last)",
    """last, steps = Loop (, yes, n) <body = b (int64 i, bool c, int64 v) => (bool d, int64 w, int64 o) { r = Mod (v,
       two) e = Equal (r, zero) h = Div (v, two) t = Mul (v, three) t1 = Add (t, one) w = Where (e, h, t1) o = Identity
       (w) d = Greater (w, one) }>""",
    {"n": np.array(7)},
    {"n": np.array(27)},
    {"n": np.array(2)},
)
case(
    "selection sort",
    "(float[n] x) => (float[n] y)",
    """s = Shape (x) n = Squeeze (s) y = Loop (n, yes, x) <body = b (int64 i, bool c, float[n] v) => (bool d, float[n]
       w) { iv = Unsqueeze (i, ax0) rest = Slice (v, iv, b1) j0 = ArgMin <axis=0, keepdims=1> (rest) j = Add (j0, iv) a
       = Gather (v, iv) bb = Gather (v, j) v1 = ScatterElements (v, iv, bb) w = ScatterElements (v1, j, a) d = Identity
       (c) }>""",
    {"x": floats(6)},
    {"x": floats(1)},
    {"x": floats(9)},
)
case(
    "newton until it converges",
    "(float[n] a) => (float[n] r, int64 its)",
    """r, its = Loop (most, yes, a, zero) <body = b (int64 i, bool c, float[n] v, int64 k) => (bool d, float[n] w,
       int64 k1) { q = Div (a, v) s = Add (v, q) w = Mul (s, half) e = Sub (w, v) ae = Abs (e) mx = ReduceMax
       <keepdims=0> (ae) d = Greater (mx, eps) k1 = Add (k, one) }>""",
    {"a": np.abs(floats(4)) + 1},
    {"a": np.ones(2, np.float32)},
    most=np.array(50),
    eps=np.float32(1e-5),
)
case(
    "loop in If in loop",
    "(float[n] x, int64 m) => (float[k] y)",
    """y = Loop (m, yes, x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[l] w) { r = Mod (i, two) p =
       Equal (r, zero) w = If (p) <then_branch = t () => (float[u] o) { j = Add (i, one) o = Loop (j, yes, v) <body =
       bb (int64 i2, bool c2, float[q] z) => (bool d2, float[q1] z1) { s = ReduceSum <keepdims=1> (z, ax0) th = Tanh
       (s) z1 = Concat <axis=0> (z, th) n0 = Size (z1) d2 = Less (n0, cap) }> }, else_branch = e () => (float[u2] o2) {
       o2 = Slice (v, ax1, b1) }> n1 = Size (w) d = Less (n1, cap) }>""",
    {"x": floats(3), "m": np.array(6)},
    {"x": floats(1), "m": np.array(1)},
    {"x": floats(2), "m": np.array(0)},
    {"x": floats(4), "m": np.array(40)},
    cap=np.array(12),
)
case(
    "popping a sequence until it is empty",
    "(seq(float[a]) s) => (float total, seq(float[a]) rest)",
    """n0 = SequenceLength (s) go = Greater (n0, zero) rest, total = Loop (, go, s, fzero) <body = b (int64 i, bool c,
       seq(float[a]) u, float t) => (bool d, seq(float[a]) v, float t1) { x = SequenceAt (u, neg) v = SequenceErase (u)
       r = ReduceSum <keepdims=0> (x) t1 = Add (t, r) n = SequenceLength (v) d = Greater (n, one) }>""",
    {"s": [floats(3), floats(3), floats(3), floats(3)]},
    {"s": [floats(2)]},
)
case(
    "If of sequences of other lengths",
    "(float[n] x, bool p) => (seq(float[k]) s, int64 n1)",
    """s = If (p) <then_branch = t () => (seq(float[k]) a) { y = Neg (x) a = SequenceConstruct (x, y) }, else_branch =
       e () => (seq(float[k]) b) { z = Abs (x) b = SequenceConstruct (x, z, x) }> n1 = SequenceLength (s)""",
    {"x": floats(3), "p": np.array(True)},
    {"x": floats(2), "p": np.array(False)},
)
case(
    "padding on both sides",
    "(float[n] x, int64 m) => (float[k] y)",
    """y = Loop (m, yes, x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[l] w) { j = Unsqueeze (i, ax0)
       pads = Concat <axis=0> (j, ax1) mx = ReduceMax <keepdims=0> (v) w = Pad (v, pads, mx) n = Size (w) d = Less (n,
       cap) }>""",
    {"x": floats(2), "m": np.array(5)},
    {"x": floats(2), "m": np.array(0)},
    {"x": floats(20), "m": np.array(3)},
    cap=np.array(15),
)
case(
    "top k with k of the index",
    "(float[n] x, int64 m) => (float[k] y, float s)",
    """y, s = Loop (m, yes, none, fzero) <body = b (int64 i, bool c, float[k] v, float t) => (bool d, float[l] w, float
       t1) { j = Add (i, one) jv = Unsqueeze (j, ax0) val, idx = TopK <axis=0> (x, jv) w = Concat <axis=0> (v, val) q =
       ReduceMean <keepdims=0> (w) t1 = Add (t, q) d = Identity (c) }>""",
    {"x": floats(6), "m": np.array(4)},
    {"x": floats(6), "m": np.array(0)},
    none=np.zeros(0, np.float32),
)
case(
    "beam search",
    "(float[b,v] table0, float[v,v] table, int64 m) => (int64[b,t] seqs, float[b] scores)",
    """sc0, id0 = TopK <axis=1> (table0, ax1) ids = Squeeze (id0, ax1) sc = Squeeze (sc0, ax1) seqs, scores = Loop (m,
       yes, id0, sc) <body = bb (int64 i, bool c, int64[b,t] s, float[b] p) => (bool d, int64[b,t1] s1, float[b] p1) {
       last0 = Gather <axis=1> (s, neg) rows = Gather (table, last0) pv = Unsqueeze (p, ax1) tot = Add (rows, pv) flat
       = Reshape (tot, m1) bs = Shape <start=0,end=1> (p) val, idx = TopK <axis=0> (flat, bs) vs = Shape
       <start=1,end=2> (table) beam = Div (idx, vs) tok = Mod (idx, vs) old = Gather (s, beam) tk = Unsqueeze (tok,
       ax1) s1 = Concat <axis=1> (old, tk) p1 = Identity (val) best = Gather (tok, zero) d0 = Equal (best, zero) d =
       Not (d0) }>""",
    {"table0": floats(3, 7), "table": floats(7, 7), "m": np.array(5)},
    {"table0": floats(2, 5), "table": floats(5, 5), "m": np.array(1)},
)
case(
    "strings until they match",
    "(string[n] x, string[n] y) => (string[n] z, int64 k)",
    """z, k = Loop (most, yes, x, zero) <body = b (int64 i, bool c, string[n] v, int64 j) => (bool d, string[n] w,
       int64 j1) { w = StringConcat (v, y) ok = RegexFullMatch <pattern = "a(bb)+"> (w) o8 = Cast <to=6> (ok) mn =
       ReduceMin <keepdims=0> (o8) all = Cast <to=9> (mn) d = Not (all) j1 = Add (j, one) }>""",
    {"x": np.array(["a", "a"], object), "y": np.array(["b", "bb"], object)},
    {"x": np.array(["x"], object), "y": np.array(["y"], object)},
    opset=20,
    most=np.array(6),
)
case(
    "scan in If in loop",
    "(float[n,2] x, float[2] h, int64 m) => (float[2] y, float[t] sums)",
    """y, sums = Loop (m, yes, h) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float s) { e =
       ReduceSum <keepdims=0> (v) p = Greater (e, fzero) w = If (p) <then_branch = t () => (float[2] o) { o, rows =
       Scan <num_scan_inputs=1, body = sb (float[2] a, float[2] q) => (float[2] a1, float[2] r) { z = Mul (q, v) a0 =
       Add (a, z) a1 = Tanh (a0) r = Identity (a1) }> (v, x) }, else_branch = el () => (float[2] o2) { o2 = Add (v, h2)
       }> s = Identity (e) d = Identity (c) }>""",
    {"x": floats(4, 2), "h": floats(2), "m": np.array(4)},
    {"x": floats(1, 2), "h": -np.abs(floats(2)), "m": np.array(3)},
    h2=np.float32([0.7, 0.6]),
)
case(
    "no iteration, and a false condition",
    "(float[n] x, int64 m, bool g) => (float[n] y, float[t,n] rows)",
    """y, rows = Loop (m, g, x) <body = b (int64 i, bool c, float[n] v) => (bool d, float[n] w, float[n] r) { w = Add
       (v, fone) r = Mul (w, half) d = Identity (c) }>""",
    {"x": floats(3), "m": np.array(0), "g": np.array(True)},
    {"x": floats(3), "m": np.array(3), "g": np.array(False)},
    {"x": floats(3), "m": np.array(-2), "g": np.array(True)},
    {"x": floats(2), "m": np.array(3), "g": np.array(True)},
)
case(
    "pyramid",
    "(float[1,1,h,w] x) => (float s, float[1,1,a,b] top)",
    """top, s = Loop (, yes, x, fzero) <body = b (int64 i, bool c, float[1,1,h1,w1] v, float t) => (bool d,
       float[1,1,h2,w2] u, float t1) { u = AveragePool <kernel_shape=[2,2], strides=[2,2], ceil_mode=0,
       auto_pad="SAME_UPPER"> (v) r = ReduceSum <keepdims=0> (u) t1 = Add (t, r) n = Size (u) d = Greater (n, one) }>""",
    {"x": floats(1, 1, 8, 8)},
    {"x": floats(1, 1, 5, 3)},
)
case(
    "sequence map of choices",
    "(seq(float[a]) s) => (seq(float[b]) t)",
    """t = SequenceMap <body = b (float[a] x) => (float[b] y) { fz = Constant <value = float {0.0}> () g = Greater (x,
       fz) y = Compress <axis=0> (x, g) }> (s)""",
    {"s": [floats(5), floats(5)]},
    {"s": [floats(3), floats(7), floats(2)]},
)
case(
    "split by run-time sizes, then a loop",
    "(float[n,2] x, int64[k] sizes) => (float[k,2] means, seq(float[a,2]) parts)",
    """parts = SplitToSequence <axis=0> (x, sizes) n = SequenceLength (parts) means = Loop (n, yes) <body = b (int64 i,
       bool c) => (bool d, float[2] m) { p = SequenceAt (parts, i) m = ReduceMean <keepdims=0> (p, ax0) d = Identity
       (c) }>""",
    {"x": floats(6, 2), "sizes": ints(1, 2, 3)},
    {"x": floats(4, 2), "sizes": ints(2, 2)},
)
case(
    "triangle of loops",
    "(float[n] x, int64 m) => (float[t] sums, int64[t] counts)",
    """sums, counts = Loop (m, yes) <body = b (int64 i, bool c) => (bool d, float s, int64 k) { acc, rows = Loop (i,
       yes, fzero) <body = bb (int64 j, bool c2, float a) => (bool d2, float a1, float[n] r) { jf = Cast <to=1> (j) q =
       Mul (x, jf) qs = ReduceSum <keepdims=0> (q) a1 = Add (a, qs) r = Identity (q) d2 = Identity (c2) }> rs =
       ReduceSum <keepdims=0> (rows) s = Add (rs, acc) sh = Shape (rows) k = Gather (sh, zero) d = Identity (c) }>""",
    {"x": floats(3), "m": np.array(4)},
    {"x": floats(2), "m": np.array(1)},
)
case(
    "unique in a loop",
    "(int64[n] x) => (int64[k] y, int64 its)",
    """y, its = Loop (, yes, x, zero) <body = b (int64 i, bool c, int64[k] v, int64 j) => (bool d, int64[l] w, int64
       j1) { h = Div (v, two) w, a1, a2, a3 = Unique <sorted=1> (h) n = Size (w) d = Greater (n, one) j1 = Add (j, one)
       }>""",
    {"x": ints(9, 3, 17, 4, 4)},
    {"x": ints(1)},
)
case(
    "optional in a loop",
    "(float[n] x, int64 m) => (float[n] y)",
    """y = Loop (m, yes, x) <body = b (int64 i, bool c, float[n] v) => (bool d, float[n] w) { o = Optional (v) h =
       OptionalHasElement (o) e = OptionalGetElement (o) w0 = Add (e, fone) w = Where (h, w0, e) d = Identity (c) }>""",
    {"x": floats(3), "m": np.array(3)},
)
case(
    "counts from data bound NMS",
    "(float[1,n,4] boxes, float[2,n] raw) => (int64[k,3] kept)",
    """sc = Softmax <axis=0> (raw) scores = Unsqueeze (sc, ax0) hi = Greater (sc, half) c8 = Cast <to=7> (hi) mx =
       ReduceSum <keepdims=0> (c8) mo = Unsqueeze (mx, ax0) kept = NonMaxSuppression (boxes, scores, mo, iou, cut)""",
    {"boxes": np.concatenate([CORNERS, CORNERS + 0.3], -1), "raw": floats(2, 9) - 1},
    {"boxes": np.concatenate([CORNERS, CORNERS + 0.3], -1), "raw": floats(2, 9) * 0 - np.float32([[1], [0]])},
    iou=np.float32([0.3]),
    cut=np.float32([0.1]),
)
case(
    "while of while of while",
    "(int64 n) => (int64[k] all)",
    """all = Loop (, yes, none) <body = b (int64 i, bool c, int64[k] v) => (bool d, int64[l] w) { w = Loop (, yes, v)
       <body = b2 (int64 j, bool c2, int64[k2] v2) => (bool d2, int64[l2] w2) { w2 = Loop (, yes, v2) <body = b3 (int64
       h, bool c3, int64[k3] v3) => (bool d3, int64[l3] w3) { a = Mul (i, three) b0 = Add (a, j) q = Add (b0, h) qv =
       Unsqueeze (q, ax0) w3 = Concat <axis=0> (v3, qv) d3 = Less (h, j) }> d2 = Less (j, i) }> d = Less (i, n) }>""",
    {"n": np.array(2)},
    {"n": np.array(0)},
    none=np.zeros(0, np.int64),
)
case(
    "state of two axes that both grow",
    "(float[a,b] x, int64 m) => (float[c,d] y)",
    """y = Loop (m, yes, x) <body = bb (int64 i, bool c, float[c,d] v) => (bool g, float[e,f] w) { r = ReduceSum
       <keepdims=1> (v, ax0) v1 = Concat <axis=0> (v, r) q = ReduceMean <keepdims=1> (v1, ax1) w = Concat <axis=1> (v1,
       q) n = Size (w) g = Less (n, cap) }>""",
    {"x": floats(2, 2), "m": np.array(3)},
    {"x": floats(1, 3), "m": np.array(9)},
    {"x": floats(1, 1), "m": np.array(0)},
    cap=np.array(40),
)
case(
    "transposed each time",
    "(float[a,b] x, int64 m) => (float[c,d] y)",
    """y = Loop (m, yes, x) <body = bb (int64 i, bool c, float[c,d] v) => (bool g, float[e,f] w) { w = Transpose
       <perm=[1,0]> (v) g = Identity (c) }>""",
    {"x": floats(2, 3), "m": np.array(3)},
    {"x": floats(2, 3), "m": np.array(4)},
    {"x": floats(4, 1), "m": np.array(0)},
)
case(
    "ping pong of two states",
    "(float[a] x, float[b] z, int64 m) => (float[c] y, float[d] u)",
    """y, u = Loop (m, yes, x, z) <body = bb (int64 i, bool c, float[c] v, float[d] w) => (bool g, float[c1] v1,
       float[d1] w1) { v1 = Identity (w) w1 = Identity (v) g = Identity (c) }>""",
    {"x": floats(2), "z": floats(5), "m": np.array(3)},
    {"x": floats(3), "z": floats(3), "m": np.array(2)},
)
case(
    "a state that is a captured value",
    "(float[a] x, int64 m) => (float[c] y, float[t,a] rows)",
    """y, rows = Loop (m, yes, x) <body = bb (int64 i, bool c, float[c] v) => (bool g, float[c1] v1, float[a] r) { r =
       Identity (x) v1 = Concat <axis=0> (x, v) n = Size (v1) g = Less (n, cap) }>""",
    {"x": floats(2), "m": np.array(3)},
    {"x": floats(4), "m": np.array(9)},
    cap=np.array(12),
)
case(
    "float16 that grows",
    "(float16[a] x, int64 m) => (float16[c] y)",
    """y = Loop (m, yes, x) <body = bb (int64 i, bool c, float16[c] v) => (bool g, float16[c1] v1) { s = ReduceMax
       <keepdims=1> (v, ax0) v1 = Concat <axis=0> (v, s) n = Size (v1) g = Less (n, cap) }>""",
    {"x": floats(2).astype(np.float16), "m": np.array(3)},
    cap=np.array(12),
)
case(
    "bool and uint8 states",
    "(bool[a] x, uint8[b] z, int64 m) => (bool[c] y, uint8[d] u)",
    """y, u = Loop (m, yes, x, z) <body = bb (int64 i, bool c, bool[c] v, uint8[d] w) => (bool g, bool[c1] v1,
       uint8[d1] w1) { nv = Not (v) v1 = Concat <axis=0> (v, nv) k = Cast <to=2> (nv) w1 = Concat <axis=0> (w, k) n =
       Size (w1) g = Less (n, cap) }>""",
    {"x": np.array([True, False]), "z": np.array([3, 4, 5], np.uint8), "m": np.array(9)},
    cap=np.array(30),
)
case(
    "If inside a loop chooses between loops",
    "(float[a] x, int64 m) => (float[c] y)",
    """y = Loop (m, yes, x) <body = bb (int64 i, bool c, float[c] v) => (bool g, float[c1] v1) { r = Mod (i, three) p0
       = Equal (r, zero) p1 = Equal (r, one) v1 = If (p0) <then_branch = t () => (float[t1] o1) { o1 = Loop (, yes, v)
       <body = l1 (int64 j, bool h, float[q] z) => (bool h1, float[q1] z1) { e = Slice (z, ax0, ax1) z1 = Concat
       <axis=0> (z, e) nn = Size (z1) nm = Mod (nn, three) h1 = Greater (nm, zero) }> }, else_branch = e () =>
       (float[t2] o2) { o2 = If (p1) <then_branch = tt () => (float[t3] o3) { o3 = Slice (v, ax1, b1) }, else_branch =
       ee () => (float[t4] o4) { s = ReduceSum <keepdims=1> (v, ax0) o4 = Concat <axis=0> (s, v, s) }> }> n = Size (v1)
       g = Less (n, cap) }>""",
    {"x": floats(2), "m": np.array(7)},
    {"x": floats(4), "m": np.array(1)},
    {"x": floats(4), "m": np.array(2)},
    cap=np.array(14),
)
case(
    "sequences in both branches inside a loop",
    "(float[a] x, int64 m) => (seq(float[k]) s)",
    """s0 = SequenceConstruct (x) s = Loop (m, yes, s0) <body = bb (int64 i, bool c, seq(float[k]) u) => (bool g,
       seq(float[k]) v) { l = SequenceAt (u, neg) t = ReduceSum <keepdims=0> (l) p = Greater (t, fzero) v = If (p)
       <then_branch = tb () => (seq(float[k]) v1) { n1 = Neg (l) v1 = SequenceInsert (u, n1) }, else_branch = eb () =>
       (seq(float[k]) v2) { n2 = Abs (l) w2 = SequenceInsert (u, n2) v2 = SequenceInsert (w2, l, zero) }> g = Identity
       (c) }>""",
    {"x": floats(3), "m": np.array(4)},
    {"x": -np.abs(floats(2)), "m": np.array(1)},
    {"x": floats(2), "m": np.array(0)},
)
case(
    "scan whose rows are chosen by a mask of the data",
    "(float[n,3] x, float[3] h) => (float[3] y, float[k,3] kept)",
    """y, rows, flags = Scan <num_scan_inputs=1, body = b (float[3] a, float[3] e) => (float[3] a1, float[3] r, bool f)
       { s = ReduceSum <keepdims=0> (e) f = Greater (s, fzero) z = Add (a, e) a1 = Where (f, z, a) r = Identity (a1) }>
       (h, x) kept = Compress <axis=0> (rows, flags)""",
    {"x": floats(6, 3), "h": floats(3)},
    {"x": floats(1, 3), "h": floats(3)},
)
case(
    "one-hot of a size that grows",
    "(int64[n] x, int64 m) => (float[a,b] y)",
    """y0 = OneHot (x, two, vals) y = Loop (m, yes, y0) <body = bb (int64 i, bool c, float[a,b] v) => (bool g,
       float[a,e] w) { d0 = Add (i, three) w = OneHot (x, d0, vals) g = Identity (c) }>""",
    {"x": ints(0, 2, 1), "m": np.array(3)},
    {"x": ints(0), "m": np.array(0)},
    vals=np.float32([0, 1]),
)
case(
    "cumulative sums until over",
    "(float[n] x, float lim) => (float[k] head, int64 count)",
    """cs = CumSum (x, zero) n0 = Shape (x) n = Squeeze (n0) none = Slice (x, ax0, ax0) head, count = Loop (n, yes,
       none, zero) <body = bb (int64 i, bool c, float[k] v, int64 q) => (bool g, float[l] w, int64 q1) { e = Gather (x,
       i) ev = Unsqueeze (e, ax0) w = Concat <axis=0> (v, ev) s = Gather (cs, i) g = Less (s, lim) q1 = Add (q, one) }>""",
    {"x": np.abs(floats(8)), "lim": np.array(2, np.float32)},
    {"x": np.abs(floats(3)), "lim": np.array(-1, np.float32)},
)
case(
    "reshape by the data of the loop",
    "(float[n] x) => (float[a,b] y, int64[2] shape)",
    """y0 = Unsqueeze (x, ax0) y = Loop (most, yes, y0) <body = bb (int64 i, bool c, float[a,b] v) => (bool g,
       float[e,f] w) { sh = Shape (v) r = Slice (sh, ax0, ax1) cc = Slice (sh, ax1, two1) r2 = Mul (r, two) c2 = Div
       (cc, two) ns = Concat <axis=0> (r2, c2) w = Reshape (v, ns) c2s = Squeeze (c2) md = Mod (c2s, two) g = Equal
       (md, zero) }> shape = Shape (y)""",
    {"x": floats(8)},
    {"x": floats(12)},
    {"x": floats(2)},
    most=np.array(5),
    two1=np.array([2]),
)
case(
    "gather of a growing cache by argmax",
    "(float[n,4] x, int64 m) => (float[k,4] y, int64[t] picks)",
    """y, picks = Loop (m, yes, x) <body = bb (int64 i, bool c, float[k,4] v) => (bool g, float[l,4] w, int64 p) { s =
       ReduceSum <keepdims=0> (v, ax1) p = ArgMax <axis=0, keepdims=0> (s) pv = Unsqueeze (p, ax0) e = Gather (v, pv) h
       = Mul (e, half) w = Concat <axis=0> (h, v) n = Shape <start=0,end=1> (w) ns = Squeeze (n) g = Less (ns, cap) }>""",
    {"x": floats(2, 4), "m": np.array(5)},
    {"x": floats(1, 4), "m": np.array(30)},
    cap=np.array(12),
)
case(
    "sequence erased by a position of the data",
    "(seq(float[a]) s, int64 m) => (seq(float[a]) rest)",
    """rest = Loop (m, yes, s) <body = bb (int64 i, bool c, seq(float[a]) u) => (bool g, seq(float[a]) v) { all =
       ConcatFromSequence <axis=0, new_axis=1> (u) t = ReduceSum <keepdims=0> (all, ax1) p = ArgMax <axis=0,
       keepdims=0> (t) v = SequenceErase (u, p) n = SequenceLength (v) g = Greater (n, one) }>""",
    {"s": [floats(3), floats(3), floats(3), floats(3)], "m": np.array(9)},
    {"s": [floats(2), floats(2)], "m": np.array(1)},
)
case(
    "matrix power by squaring",
    "(float[n,n] a, int64 e) => (float[n,n] p)",
    """n0 = Shape <start=0,end=1> (a) nn = Concat <axis=0> (n0, n0) z = ConstantOfShape (nn) id = EyeLike (z) go =
       Greater (e, zero) p, a1, e1 = Loop (, go, id, a, e) <body = bb (int64 i, bool c, float[n,n] r, float[n,n] b,
       int64 k) => (bool g, float[n,n] r1, float[n,n] c1, int64 k1) { od = Mod (k, two) q = Equal (od, one) m = MatMul
       (r, b) r1 = Where (q, m, r) c1 = MatMul (b, b) k1 = Div (k, two) g = Greater (k1, zero) }>""",
    {"a": floats(3, 3) * 0.5, "e": np.array(5)},
    {"a": floats(2, 2), "e": np.array(0)},
)
case(
    "edit distance",
    "(int64[n] a, int64[m] b) => (int64 d)",
    """nb = Size (b) nb1 = Add (nb, one) row0 = Range (zero, nb1, one) na = Size (a) last = Loop (na, yes, row0) <body
       = bb (int64 i, bool c, int64[k] prev) => (bool g, int64[l] cur) { i1 = Add (i, one) iv = Unsqueeze (i1, ax0) ai
       = Gather (a, i) cur = Loop (nb, yes, iv) <body = b2 (int64 j, bool c2, int64[q] v) => (bool g2, int64[q1] w) {
       bj = Gather (b, j) ne0 = Equal (ai, bj) ne = Not (ne0) cst = Cast <to=7> (ne) diag = Gather (prev, j) j1 = Add
       (j, one) up = Gather (prev, j1) left = Gather (v, neg) s1 = Add (diag, cst) s2 = Add (up, one) s3 = Add (left,
       one) mn = Min (s1, s2, s3) mv = Unsqueeze (mn, ax0) w = Concat <axis=0> (v, mv) g2 = Identity (c2) }> g =
       Identity (c) }> d = Gather (last, neg)""",
    {"a": ints(1, 2, 3, 4), "b": ints(2, 3, 5)},
    {"a": ints(1), "b": ints(1, 1)},
)


def expected(made: Any, feeds: dict[str, Any]) -> list[Any]:
    try:
        return by_onnxruntime(made, feeds)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return list(ReferenceEvaluator(made).run(None, feeds))


def is_same(value: Any, want: Any) -> None:
    value, want = np.asarray(value), np.asarray(want)
    if not want.size:  # onnxruntime gives rows of no iteration no sizes
        assert (value.size, value.ndim, value.dtype) == (0, want.ndim, want.dtype)
        return
    assert value.shape == want.shape
    if want.dtype.kind in "OU":
        assert value.tolist() == want.tolist()
        return
    assert value.dtype == want.dtype
    np.testing.assert_allclose(value.astype(float), want.astype(float), 1e-4, 1e-4)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", CASES)
def test_a_model(name: str) -> None:
    made, runs = CASES[name]
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    for feeds in runs:
        for value, want in zip(compiled.run(feeds).values(), expected(made, feeds), strict=True):
            if isinstance(want, list):
                assert len(value) == len(want)
                for one, other in zip(value, want, strict=True):
                    is_same(one, other)
            else:
                is_same(value, want)
