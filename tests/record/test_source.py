"""The user's line of each operation, and the function called there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jax._src import source_info_util

import lazynb
from lazynb.user_code.code_ownership import is_user_file

HERE = __name__.rsplit(".", 1)[-1] + ".py"


def places(tensor):
    return [
        (node.name, node.call, node.place.text) for node in lazynb.graph(tensor).nodes if node.kind == "op"
    ]


def test_operators_and_function_calls_have_the_users_lines_and_call_names(clean):
    with lazynb.lazy():
        x = jnp.ones((3, 3))
        y = x @ x
        z = jax.nn.softmax(y)
        found = places(z)
    assert {text for _, _, text in found} == {"x = jnp.ones((3, 3))", "y = x @ x", "z = jax.nn.softmax(y)"}
    assert {call for _, call, text in found if "softmax" in text} == {"softmax"}
    assert all(node.place.label.startswith(HERE) for node in lazynb.graph(z).outputs)


def test_a_library_shows_the_users_line(clean):
    with lazynb.lazy():
        loss = optax.l2_loss(jnp.ones(3)).mean()
        assert {text for *_, text in places(loss)} == {"loss = optax.l2_loss(jnp.ones(3)).mean()"}


def test_operations_in_a_helper_have_the_line_of_the_helper(clean):
    def helper(x):
        return jnp.sin(x)

    with lazynb.lazy():
        y = helper(jnp.ones(3)) + 1
        lines = [text for *_, text in places(y)]
    assert "return jnp.sin(x)" in lines


def test_a_gradient_points_to_the_line_that_asked_for_it(clean):
    with lazynb.lazy():
        g = jax.grad(lambda x: jnp.sum(x**2))(jnp.ones(3))
        assert {text for *_, text in places(g)} <= {"g = jax.grad(lambda x: jnp.sum(x**2))(jnp.ones(3))"}


def test_breaks_in_a_comprehension_are_one_row_with_its_line(clean):
    with lazynb.lazy():
        xs = [jnp.float32(i) * 2 for i in range(3)]
        total = sum(float(x) for x in xs)
    assert total == 6.0
    (only,) = lazynb.breaks()
    assert only.location.text == "total = sum(float(x) for x in xs)"


def test_repeated_calls_in_a_loop_have_distinct_call_ids(clean):
    with lazynb.lazy():
        x = jnp.ones(3)
        for _ in range(3):
            x = jax.nn.softmax(x)
        ids = {node.call_id for node in lazynb.graph(x).nodes if node.call == "softmax"}
    assert len(ids) == 3


def test_user_files_are_told_from_library_files():
    assert is_user_file(__file__) and is_user_file("<ipython-input-1-abc>") and is_user_file("<stdin>")
    assert (
        not is_user_file(jax.__file__)
        and not is_user_file(lazynb.__file__)
        and not is_user_file("<frozen runpy>")
    )


def test_jax_takes_no_line_of_ours_for_the_user_s(clean):
    with lazynb.lazy():
        jaxpr = jax.make_jaxpr(lambda x: jax.named_call(jnp.cos, name="test")(jnp.sin(x) + 1)[1:])(
            jnp.ones(3) * 2
        )
    assert {file for file, _ in map(source_of, jaxpr.jaxpr.eqns)} == {__file__}


def source_of(eqn):
    frame = source_info_util.user_frame(eqn.source_info.traceback)
    return frame.file_name, frame.start_line


@jax.custom_vjp
def _halved(x):
    return x / 2


_halved.defvjp(lambda x: (x / 2, x), lambda x, g: (g * jnp.cos(x),))


def test_a_function_of_jax_s_that_a_backward_pass_called_first_stays_closed(clean):
    """JAX 0.12 gives its equations the traceback of what is differentiated, and keeps them for all calls."""
    jax.clear_caches()
    with lazynb.lazy():
        jax.vmap(jax.grad(_halved))(jnp.ones(3)).block_until_ready()
        a = jnp.float32(2) * 1
        z = a * a
        assert places(z)[-1][-1] == "z = a * a"
