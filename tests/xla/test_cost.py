"""XLA's cost analysis, kernel by kernel: figures derived by hand, figures that are absent, text that is hard
to read."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from timing import cpu_seconds

from lazynb import jax_compat as jc
from lazynb.xla.cost import kernel_cost as cost
from lazynb.xla.cost.kernel_cost import Cost, executions, kernel_costs, program_cost
from lazynb.xla.hlo import module as hlo

NO_WORK = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}


def compiled(fn, *args):
    return hlo.parse(jax.jit(fn).lower(*args).compile().as_text())


def kernels(module, *opcodes):
    """Names of the entry's kernels, all or of these opcodes."""
    entry = module.computations[module.entry].instructions.values()
    return [one.name for one in entry if one.opcode not in NO_WORK and (not opcodes or one.opcode in opcodes)]


def of(module):
    """The costs of all kernels of the entry computation, as (flops, transcendentals, bytes)."""
    return [figures(found) for found in kernel_costs(module, kernels(module)).values()]


def figures(found: Cost):
    return found.flops, found.transcendentals, found.bytes


def array(*shape, dtype=jnp.float32):
    return jnp.ones(shape, dtype)


# ---- by hand -----------------------------------------------------------------------------------------------


def test_a_vector_sum_has_one_flop_and_twelve_bytes_an_element():
    module = compiled(lambda x, y: x + y, array(1000), array(1000))
    assert of(module) == [
        (1000, 0, 12000)
    ]  # one addition an element; two operands and a result of 4,000 bytes each


def test_a_fused_chain_counts_its_flops_transcendentals_and_bytes():
    module = compiled(lambda x: jnp.sin(x) * 2 + x, array(1000))
    assert of(module) == [(2000, 1000, 8000)]  # multiply and add; one sine each; one operand, one result


@pytest.mark.parametrize(
    ("dtype", "size"), [(jnp.bfloat16, 2), (jnp.float64, 8), (jnp.int8, 1), (jnp.complex64, 8)]
)
def test_bytes_follow_the_dtype(dtype, size):
    with jc.running_settings(True):
        module = compiled(lambda x: x.T.copy(), array(30, 50, dtype=dtype))
    assert of(module) == [(0, 0, 2 * 1500 * size)]  # a transpose moves and computes nothing


@pytest.mark.parametrize("shape", [(4, 5, 6), (256, 128, 64)])
def test_product_counts_a_multiply_add_as_two(shape):
    rows, inner, columns = shape
    module = compiled(lambda x, w: x @ w, array(rows, inner), array(inner, columns))
    assert of(module) == [
        (2 * rows * inner * columns, 0, 4 * (rows * inner + inner * columns + rows * columns))
    ]


def test_a_library_product_has_its_flops_and_bytes():
    """XLA:CPU gives a product of this size to YNNPACK; it stays a computation that the analysis can read."""
    module = compiled(lambda x, w, b: jax.nn.gelu(x @ w + b), array(256, 128), array(128, 64), array(64))
    product, activation = of(module)
    assert product == (2 * 256 * 128 * 64, 0, 4 * (256 * 128 + 128 * 64 + 256 * 64))
    assert activation[1] == 256 * 64  # one tanh an element
    assert activation[2] == 4 * (256 * 64 + 64 + 256 * 64)


def test_softmax_flops_and_transcendentals_are_those_of_its_parts():
    module = compiled(jax.nn.softmax, array(64, 100))
    assert sum(found[1] for found in of(module)) == 6400  # one exponential an element
    # maximum and sum 99 each row, minus and times an element, one quotient a row
    assert sum(found[0] for found in of(module)) == 2 * 64 * 99 + 2 * 6400 + 64


def test_reduction_needs_one_operation_less_than_it_has_elements():
    module = compiled(lambda x: x.sum(0), array(100, 1000))
    assert of(module)[0][0] == 99 * 1000


def test_convolution_leaves_out_the_padding():
    def convolve(x, k):
        return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    module = compiled(convolve, array(2, 16, 16, 3), array(3, 3, 3, 8))
    taps = (
        3 * 16 - 2
    ) ** 2  # a 3x3 window over 16x16: in each direction the two outermost taps fall on the padding
    assert of(module) == [(2 * 2 * 3 * 8 * taps, 0, 4 * (2 * 256 * 3 + 9 * 3 * 8 + 2 * 256 * 8))]


def test_sort_is_an_estimate_from_the_whole_size():
    """Not from the length of the sorted rows, which would be 1,000 * 7."""
    assert of(compiled(lambda x: jnp.sort(x, axis=-1), array(10, 100))) == [(1000 * 10, 0, 8000)]


def test_fused_gather_reads_the_rows():
    """XLA says that it reads the whole table."""
    module = compiled(lambda x, i: x[i], array(100, 10), jnp.arange(7))
    (found,) = kernel_costs(module, kernels(module)).values()
    assert found.bytes == 4 * (70 + 7 + 70)
    assert f"XLA itself says {4 * (100 * 10 + 7 + 70):,} bytes" in found.source


def test_what_is_fused_into_a_gather_is_computed_for_its_rows():
    module = compiled(lambda x, i: (x * 2)[i], array(100, 10), jnp.arange(7))
    (found,) = kernel_costs(module, kernels(module)).values()
    assert found.flops == 70 + 3 * 7  # and each number of a row is compared, moved and chosen


def test_fused_scatter_touches_its_rows():
    module = compiled(lambda x, i, v: x.at[i].add(v), array(100, 10), jnp.arange(7), array(7, 10))
    (scatter,) = [name for name in kernels(module) if "scatter" in name]
    assert kernel_costs(module, [scatter])[scatter].bytes == 4 * (
        70 + 70 + 7 + 70
    )  # and reads what it adds to


def test_update_that_is_not_in_place_writes_all():
    """XLA counts the slice that replaces a part, and not the rest, which is computed and written too."""
    module = compiled(
        lambda x, y: jax.lax.dynamic_update_slice(x * 2, y, (3, 0)), array(100, 10), array(7, 10)
    )
    (found,) = kernel_costs(module, kernels(module)).values()
    assert found.bytes == 4 * (93 * 10 + 70 + 1000) and found.flops == 930


def test_unfused_gather_reads_the_rows():
    text = """HloModule g

ENTRY %main (x: f32[100,10], i: s32[7,1]) -> f32[7,10] {
  %x = f32[100,10]{1,0} parameter(0)
  %i = s32[7,1]{1,0} parameter(1)
  ROOT %rows = f32[7,10]{1,0} gather(%x, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,10}
}
"""
    assert kernel_costs(text, ["rows"])["rows"].bytes == 4 * (70 + 7 + 70)


def test_a_scatter_counts_its_additions_and_bytes():
    module = compiled(lambda x, i, v: x.at[i].add(v), array(100, 10), jnp.arange(7), array(7, 10))
    assert sum(found[0] for found in of(module)) >= 70  # one addition an element
    assert all(found[2] for found in of(module))


def test_a_reduction_with_two_results_is_counted():
    def both(x):
        return jax.lax.reduce(
            (x, -x),
            (np.float32(0), np.float32(np.inf)),
            lambda a, b: (a[0] + b[0], jnp.minimum(a[1], b[1])),
            (0,),
        )

    module = compiled(both, array(50, 30))
    assert sum(found[0] for found in of(module)) == 1500 + 2 * 49 * 30  # the negation; two operations a step


def test_kernels_add_up_to_the_program():
    def model(x, w, b):
        h = jax.nn.gelu(x @ w + b)
        return jax.nn.softmax(h), jnp.sort(h.sum(0)), jnp.concatenate([h, h * 2])

    module = compiled(model, array(256, 128), array(128, 64), array(64))
    whole = program_cost(module)
    assert whole.source == "XLA's cost analysis"
    assert whole.flops == sum(found[0] for found in of(module))
    assert whole.transcendentals == sum(found[1] for found in of(module))
    # The program's result, a table of pointers, is no kernel.
    table = [
        one.name for one in module.computations[module.entry].instructions.values() if one.opcode == "tuple"
    ]
    assert whole.bytes == sum(found[2] for found in of(module)) + kernel_costs(module, table)[table[0]].bytes


# ---- control flow ------------------------------------------------------------------------------------------


def scan(x, w):
    def body(carry, _):
        carry = jnp.tanh(carry @ w)
        return carry, carry.sum()

    return jax.lax.scan(body, x, None, length=7)


def test_the_cost_of_a_loop_is_that_of_one_iteration_and_labelled_so():
    module = compiled(scan, array(16, 16), array(16, 16))
    (loop,) = kernels(module, "while")
    found = kernel_costs(module, [loop])[loop]
    # product, sum, the counter's addition and comparison; not seven times as much
    assert figures(found)[:2] == (2 * 16**3 + 255 + 1 + 1, 256)
    assert found.source == "XLA's cost analysis of one iteration (body and condition) of 7"
    assert program_cost(module).source == "XLA's cost analysis, one iteration of each loop"


def test_a_kernel_in_a_loop_has_its_number_of_executions():
    module = compiled(scan, array(16, 16), array(16, 16))
    (product,) = [
        one.name
        for one in module
        if one.opcode in ("dot", "fusion")
        and "dot_general" in one.scope
        and one.computation in module.by_name[kernels(module, "while")[0]].calls
    ]
    found = kernel_costs(module, [product])[product]
    assert figures(found) == (2 * 16**3, 0, 3 * 1024)
    assert found.source == "XLA's cost analysis; it runs 7 times"
    assert executions(module, [product]) == {product: 7}


def test_condition_runs_once_more_than_the_body():
    module = compiled(scan, array(16, 16), array(16, 16))
    (loop,) = [one for one in module if one.opcode == "while"]
    condition = module.computations[loop.attribute("condition").lstrip("%")]
    assert set(executions(module, [condition.root.name]).values()) == {8}


def test_loops_in_loops_multiply():
    def inner(j, c):
        return jnp.sin(c) @ c

    module = compiled(
        lambda x: jax.lax.fori_loop(0, 10, lambda i, c: jax.lax.fori_loop(0, 5, inner, c), x), array(32, 32)
    )
    sine = [one.name for one in module if one.opcode == "fusion" and "sin" in one.scope]
    assert set(executions(module, sine).values()) == {50}
    (outer,) = kernels(module, "while")
    assert kernel_costs(module, [outer])[outer].source == (
        "XLA's cost analysis of one iteration (body and condition) of 10, one iteration of each loop inside"
    )


def test_an_unknown_trip_count_leaves_executions_unknown():
    module = compiled(
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 1.5 + 1, x), array(100)
    )
    loops = [one.name for one in module if one.opcode == "while"]
    assert "of an unknown number" in kernel_costs(module, loops)[loops[0]].source
    body = [one.name for one in module if one.opcode == "fusion" and "body" in one.scope]
    assert set(executions(module, body).values()) == {None}
    assert all(
        found.flops == 200 and "not known" in found.source for found in kernel_costs(module, body).values()
    )


def test_branches_give_the_larger_of_each_figure():
    module = compiled(lambda p, x: jax.lax.cond(p, jnp.sin, lambda a: a @ a, x), True, array(30, 30))
    (branch,) = kernels(module, "conditional")
    found = kernel_costs(module, [branch])[branch]
    assert found.flops == 2 * 30**3 and found.transcendentals == 900  # from two branches
    assert "the largest of the branches" in found.source
    inside = [
        one.name for one in module if one.scope.endswith(("/sin", "/dot_general")) and one.opcode == "fusion"
    ]
    assert inside and set(executions(module, inside).values()) == {None}


# ---- what XLA does not know --------------------------------------------------------------------------------


def test_lapack_is_unknown_not_zero():
    module = compiled(lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(20)), array(20, 20))
    (lapack,) = kernels(module, "custom-call")
    found = kernel_costs(module, kernels(module))
    assert figures(found[lapack]) == (None, None, None)
    assert found[lapack].source == "XLA does not know what the custom call lapack_spotrf_ffi costs"
    assert all(other.flops is not None for name, other in found.items() if name != lapack)
    whole = program_cost(module)
    assert figures(whole) == (None, None, None) and "lapack_spotrf_ffi" in whole.source


def test_loop_around_a_custom_call_is_unknown():
    """XLA's sum is known plus -1, which looks like a figure."""
    module = compiled(
        lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jnp.linalg.cholesky(c @ c.T), x), array(20, 20)
    )
    (loop,) = kernels(module, "while")
    assert figures(kernel_costs(module, [loop])[loop]) == (None, None, None)


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_negative_or_nan_figure_is_none(monkeypatch, value):
    monkeypatch.setattr(
        jc.xla_executables, "cost_properties", lambda text: {"flops": value, "bytes accessed": 8.0}
    )
    module = compiled(lambda x: x + 1, array(3))
    assert of(module) == [(None, 0, 8)]


def test_a_backend_without_cost_analysis_gives_no_figures(monkeypatch):
    monkeypatch.setattr(jc.xla_executables, "cost_properties", lambda text: None)
    (found,) = kernel_costs(*(lambda m: (m, kernels(m)))(compiled(lambda x: x + 1, array(3)))).values()
    assert found == Cost(None, None, None, "this backend has no cost analysis")


# ---- the text ----------------------------------------------------------------------------------------------


def test_braces_and_quotes_in_scope_names_are_parsed():
    def named(x):
        with jax.named_scope('he said "}{", metadata={ x=1'):
            return jnp.sin(x) + jnp.flip(x)

    module = compiled(named, array(100))
    assert any("}{" in one.text for one in module)
    assert of(module) == [(100, 100, 800)]


def test_xla_prints_no_message_about_stack_frames(capfd):
    """Metadata refers to the module's header, which a kernel's own module has not: XLA would complain to the
    terminal."""
    module = compiled(jax.nn.softmax, array(64, 100))
    assert any("stack_frame_id" in one.text for one in module)
    of(module)
    program_cost(module)
    assert "stack_frame" not in "".join(capfd.readouterr())


def test_control_predecessors_are_ignored_in_the_cost_of_an_instruction():
    text = """HloModule x

ENTRY %e (a: f32[2], b: f32[2]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  %b = f32[2]{0} parameter(1)
  %first = f32[2]{0} sine(%a)
  ROOT %then = f32[2]{0} add(%b, %b), control-predecessors={%first, %a}
}
"""
    assert figures(kernel_costs(text, ["then"])["then"]) == (2, 0, 16 + 8)
    assert program_cost(text).flops == 2


def test_large_constants_layouts_keys_and_predicates_have_costs():
    table = np.arange(12000, dtype=np.float32).reshape(300, 40)

    def mixed(x, key, p):
        return (x + table).T, jax.random.normal(key, (10,)), ~p, jnp.where(p, 1, 2) // 3, jnp.exp(1j * x[0])

    module = compiled(mixed, array(300, 40), jax.random.key(0), array(9, dtype=bool))
    assert "constant({...})" in "".join(one.text for one in module)
    assert all(None not in found for found in of(module))


def test_every_instruction_can_be_asked_for():
    module = compiled(scan, array(16, 16), array(16, 16))
    names = [one.name for one in module]
    assert all("cannot read" not in found.source for found in kernel_costs(module, names).values())


@pytest.mark.parametrize(
    "text", ["", "garbage", "HloModule x\n", "HloModule x\n\n%a {\n  ROOT %b = f32[] constant(1)\n}\n"]
)
def test_text_that_is_no_hlo_module_is_refused(text):
    with pytest.raises(ValueError, match="no HLO module"):
        kernel_costs(text, [])
    with pytest.raises(ValueError, match="no HLO module"):
        program_cost(text)


def test_an_unknown_opcode_gives_no_figures_and_a_reason():
    text = (
        "HloModule x\n\nENTRY %e (a: f32[2]) -> f32[2] {\n  %a = f32[2]{0} parameter(0)\n"
        "  ROOT %b = f32[2]{0} frobnicate(%a)\n}\n"
    )
    found = kernel_costs(text, ["b"])["b"]
    assert figures(found) == (None, None, None) and "cannot read" in found.source


def test_an_unknown_kernel_name_is_a_key_error():
    with pytest.raises(KeyError):
        kernel_costs(compiled(lambda x: x + 1, array(3)), ["nothing"])


def test_hundreds_of_kernels_are_quick():
    def many(x):
        for k in range(150):
            x = jnp.sort(jnp.sin(x) * 2 + k, axis=k % 2)
        return x

    text = jax.jit(many).lower(array(30, 40)).compile().as_text()
    names = kernels(hlo.parse(text))
    assert len(names) >= 300
    assert cpu_seconds(lambda: kernel_costs(text, names)) < 0.5


# ---- private names of jaxlib -------------------------------------------------------------------------------


def test_cost_properties_gives_flops_and_bytes_or_raises():
    text = jax.jit(lambda x: x + 1).lower(array(1000)).compile().as_text()
    found = jc.cost_properties(text)
    assert found is not None and found["flops"] == 1000 and found["bytes accessed"] == 8000
    assert "transcendentals" not in found  # what is 0 is left out
    for bad in ("", "garbage", "HloModule x"):
        with pytest.raises(ValueError):
            jc.cost_properties(bad)


def test_cost_properties_mark_a_custom_call():
    """The only sign, in a sum, that one of its parts is unknown."""
    text = jax.jit(jnp.linalg.cholesky).lower(jnp.eye(4)).compile().as_text()
    assert (jc.cost_properties(text) or {})["optimal_seconds"] < 0
    assert cost.program_cost(text).flops is None
