"""``%%explain``: what ``lazynb.explain`` says of a function, of a cell."""

from __future__ import annotations

from IPython.core.error import UsageError

import lazynb


def html(captured):
    return "".join(output.data.get("text/html", "") for output in captured.outputs)


def text(captured):
    return "".join(output.data.get("text/plain", "") for output in captured.outputs)


def test_explain_reports_the_programs_and_breaks_of_a_cell(notebook):
    shown = notebook.run("""\
        %%explain found
        x = jnp.ones(5)
        for _ in range(3):
            x = jnp.sin(x) + 1
            if x.sum() > 1e6:
                break
        y = x * 2
        y""")
    found = notebook["found"]
    assert isinstance(found, lazynb.Explanation)
    [one] = found.breaks
    assert (one.code, one.count, one.location.text) == ("LNB101", 3, "if x.sum() > 1e6:")
    assert one.location.cell is not None and one.location.line == 5
    assert "cell" in found.name and "Without the break" in html(shown) and "Without the break" in text(shown)
    assert not notebook["y"].is_pending
    *others, last = [one.location.text for one in found.compilations]
    assert set(others) == {"if x.sum() > 1e6:"} and last == "y = x * 2"
    assert "Array(" in shown.stdout  # the value of the last expression


def test_names_and_values_are_those_of_a_plain_cell(notebook):
    notebook.run("%%explain\nimport math\na = jnp.arange(4) * 2\nb = float(a.sum())")
    assert notebook["b"] == 12.0 and notebook["math"].pi > 3
    notebook.run("c = a + 1\nassert isinstance(c, __import__('lazynb').LazyTensor) and c.is_pending")


def test_the_function_to_wrap_is_found_though_the_cell_defines_it(notebook):
    notebook.run("""\
        %%explain found
        def loss(w):
            return jnp.mean(jnp.tanh(w @ w) ** 2)

        def step(w):
            value, g = jax.value_and_grad(loss)(w)
            return w - 0.1 * g, value

        w = jnp.ones((6, 6))
        for _ in range(8):
            w, value = step(w)
            float(value)""")
    [one] = notebook["found"].advice
    assert one.function == "step" and one.location.line == 5


def test_explain_works_while_lazy_mode_is_off(notebook):
    notebook.run("%lazy off")
    notebook.run("%%explain found\nfloat((jnp.ones(3) + 1).sum())")
    assert notebook["found"].breaks.total == 1
    notebook.run("assert not isinstance(jnp.ones(3) + 1, __import__('lazynb').LazyTensor)")


def test_values_pending_from_earlier_cells_stay_pending(notebook):
    notebook.run("early = jnp.ones(3) * 7")
    notebook.run("%%explain\nlate = jnp.ones(3) * 8")
    assert notebook["early"].is_pending and not notebook["late"].is_pending


def test_an_error_of_the_cell_is_raised_with_the_explanation(notebook):
    raised = notebook.run("%%explain\nfloat((jnp.ones(3) + 1).sum())\n1 / 0", error=ZeroDivisionError)
    assert raised.error.lazynb_explanation.breaks.total == 1


def test_bad_arguments_are_refused(notebook):
    notebook.run("%%explain not-a-name\n1", error=UsageError)
    notebook.run("%%explain a b\n1", error=UsageError)
