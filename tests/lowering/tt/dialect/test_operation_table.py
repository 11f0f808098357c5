"""The tt dialect against the published lists of its operations and attributes: all must be there under their own names."""

from __future__ import annotations

import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.dialect.context import dialects
from joinery.lowering.tt.printing import print_module
from joinery.promotion.errors import UserError

# Operation -> attributes, as Triton 3.3 documents them.
DOCUMENTED = {
    "tt.call": "callee",
    "tt.func": "sym_name function_type sym_visibility arg_attrs res_attrs",
    "tt.reinterpret_tensor_descriptor": "",
    "tt.return": "",
    "tt.addptr": "",
    "tt.advance": "",
    "tt.assert": "message",
    "tt.atomic_cas": "sem scope",
    "tt.atomic_rmw": "atomic_rmw_op sem scope",
    "tt.bitcast": "",
    "tt.broadcast": "",
    "tt.cat": "",
    "tt.clampf": "propagateNan",
    "tt.dot": "inputPrecision maxNumImpreciseAcc",
    "tt.dot_scaled": "lhs_type rhs_type",
    "tt.elementwise_inline_asm": "asm_string constraints pure packed_element",
    "tt.expand_dims": "axis",
    "tt.experimental_descriptor_load": "cache evict",
    "tt.experimental_descriptor_store": "",
    "tt.experimental_tensormap_create": "elem_type interleave_layout swizzle_mode fill_mode",
    "tt.experimental_tensormap_fenceproxy_acquire": "",
    "tt.extern_elementwise": "libname libpath symbol pure",
    "tt.fp_to_fp": "rounding",
    "tt.get_num_programs": "axis",
    "tt.get_program_id": "axis",
    "tt.histogram": "",
    "tt.int_to_ptr": "",
    "tt.join": "",
    "tt.load": "boundaryCheck padding cache evict isVolatile",
    "tt.make_range": "start end",
    "tt.make_tensor_descriptor": "",
    "tt.make_tensor_ptr": "order",
    "tt.mulhiui": "",
    "tt.precise_divf": "",
    "tt.precise_sqrt": "",
    "tt.print": "prefix hex isSigned",
    "tt.ptr_to_int": "",
    "tt.reduce": "axis",
    "tt.reduce.return": "",
    "tt.reshape": "allow_reorder efficient_layout",
    "tt.scan": "axis reverse",
    "tt.scan.return": "",
    "tt.splat": "",
    "tt.split": "",
    "tt.store": "boundaryCheck cache evict",
    "tt.trans": "order",
}
# What 3.9 has beyond that: new operations, and new or renamed attributes of old ones.
ADDED = {
    "tt.approx_divf": "",
    "tt.atomic_load": "sem scope",
    "tt.atomic_poll": "sem scope",
    "tt.atomic_store": "sem scope",
    "tt.call": "callee arg_attrs res_attrs",
    "tt.descriptor_gather": "",
    "tt.descriptor_load": "",
    "tt.descriptor_reduce": "kind",
    "tt.descriptor_scatter": "",
    "tt.descriptor_store": "",
    "tt.dot_scaled": "a_elem_type b_elem_type fastMath lhs_k_pack rhs_k_pack",
    "tt.gather": "axis efficient_layout",
    "tt.grid_dependency_launch_dependents": "",
    "tt.grid_dependency_wait": "",
    "tt.load": "cachePolicy isVolatile",
    "tt.map_elementwise": "pack",
    "tt.map_elementwise.return": "",
    "tt.fft": "axis kind length",  # joinery's own
    "tt.sort": "axis",  # joinery's own
    "tt.sort_lines": "",  # joinery's own
    "tt.store": "cachePolicy",
    "tt.unsplat": "",
}
# Older names of attributes, kept in text only.
RENAMED = {"cache": "cachePolicy", "evict": "cachePolicy", "lhs_type": "a_elem_type", "rhs_type": "b_elem_type"}
# Not in the dialect yet: descriptors, block pointers, library functions, inline assembly.
MISSING = {
    "tt.reinterpret_tensor_descriptor", "tt.advance", "tt.elementwise_inline_asm", "tt.experimental_descriptor_load",
    "tt.experimental_descriptor_store", "tt.experimental_tensormap_create", "tt.experimental_tensormap_fenceproxy_acquire",
    "tt.extern_elementwise", "tt.make_tensor_descriptor", "tt.make_tensor_ptr", "tt.descriptor_gather", "tt.descriptor_load",
    "tt.descriptor_reduce", "tt.descriptor_scatter", "tt.descriptor_store",
}  # fmt: skip
CLASSES = {operation.name: operation for operation in dialects()[0].operations}


def test_the_list() -> None:
    assert len(DOCUMENTED) == 46
    assert {*DOCUMENTED, *ADDED} - CLASSES.keys() <= MISSING
    assert CLASSES.keys() <= {*DOCUMENTED, *ADDED}


@pytest.mark.parametrize(
    ("name", "attributes"),
    [pair for table in (DOCUMENTED, ADDED) for pair in table.items() if pair[0] in CLASSES],
)
def test_every_attribute_is_a_property(name: str, attributes: str) -> None:
    known = CLASSES[name].get_irdl_definition().properties
    names = attributes.split()
    assert {name if name in known else RENAMED.get(name, name) for name in names} <= known.keys()


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("%r = tt.load %p, %m, %f cacheModifier = ca evictionPolicy = evict_last {isVolatile = true} : tensor<8x!tt.ptr<f32>>",
         "{cachePolicy = #tt.cache_policy<cache_modifier = ca, eviction_policy = evict_last>, isVolatile = true}"),
        ("tt.store %p, %f, %m evictionPolicy = evict_first : tensor<8x!tt.ptr<f32>>",
         "{cachePolicy = #tt.cache_policy<cache_modifier = none, eviction_policy = evict_first>}"),
        ("%r = tt.reshape %f allow_reorder efficient_layout : tensor<8xf32> -> tensor<2x4xf32>",
         "allow_reorder efficient_layout"),
        ("%r = tt.gather %f[%i] {axis = 0 : i32} : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>", "{axis = 0 : i32}"),
        ("%r = tt.call @g(%s) {arg_attrs = [{tt.a = 1 : i32}], res_attrs = [{}]} : (f32) -> f32", "arg_attrs = [{"),
        ("tt.grid_dependency_wait", "tt.grid_dependency_wait"),
        ('tt.print "x" {hex = true, isSigned = array<i32: 0>} : %s : f32',
         '"x" {hex = true, isSigned = array<i32: 0>} : %s : f32'),
    ],
)  # fmt: skip
def test_attributes_in_text(line: str, printed: str) -> None:
    parameters = "%p: tensor<8x!tt.ptr<f32>>, %m: tensor<8xi1>, %f: tensor<8xf32>, %i: tensor<8xi32>, %s: f32"
    callee = "tt.func private @g(%x: f32) -> f32 {\ntt.return %x : f32\n}"
    text = print_module(parse(f"module {{\ntt.func public @f({parameters}) {{\n{line}\ntt.return\n}}\n{callee}\n}}"))
    assert printed in text
    assert print_module(parse(text)) == text


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("arg_attrs = []", "0 argument attributes for 1 arguments"),
        ("res_attrs = [{}, {}]", "2 result attributes for 1 results"),
    ],
)
def test_attributes_of_a_call_that_fit_nothing(attributes: str, message: str) -> None:
    body = f"%r = tt.call @g(%s) {{{attributes}}} : (f32) -> f32\ntt.return"
    callee = "tt.func private @g(%x: f32) -> f32 {\ntt.return %x : f32\n}"
    with pytest.raises(UserError, match=f"tt.call: {message}"):
        parse(f"module {{\ntt.func public @f(%s: f32) {{\n{body}\n}}\n{callee}\n}}")
