"""A difference as a Python program that needs nothing of the campaign: helpers are pasted in, eager JAX's
values written out."""

from __future__ import annotations

import inspect
import re
from typing import Any

from . import interrupts, observe, prelude
from .comparison import Outcome
from .programs import Program, Step
from .world import indented

HELPERS = '''
class Gone(Exception):
    """A difference from eager JAX."""


_interrupter = Interrupter(lazynb.__file__)


@contextlib.contextmanager
def interrupted(aim):
    """A signal arrives in its body; KeyboardInterrupt ends the body and no more."""
    shot = None
    try:
        with _interrupter.armed(aim) as shot:
            yield
    except KeyboardInterrupt:
        pass
    print("signal at", shot.fired, "handled in", shot.handled)


@contextlib.contextmanager
def failing(name, deferred):
    """Its body raises in eager JAX."""
    try:
        yield
    except Exception as error:
        print("raises", type(error).__name__, "- eager JAX:", name)
        if name not in (type(error).__name__, "ArrayDeleted"):
            raise Gone(f"eager JAX raises {name}") from error
        return
    if not deferred:
        raise Gone(f"eager JAX raises {name}")


def check(**expected):
    """Compares variables with what eager JAX has."""
    for name, value in expected.items():
        if name not in globals():
            raise Gone(f"{name} is unbound; eager JAX has {value}")
        if (found := seen(globals()[name])) != value:
            raise Gone(f"{name} is {found}; eager JAX has {value}")


def outside():
    """Nobody is lazy here."""
    if recording():
        raise Gone("the thread still records")
    if jnp.sin is not _sin or jax.lax.full is not _full:
        raise Gone("names are not JAX's own")


_sin, _full = jnp.sin, jax.lax.full
'''

SHELL = '''
import io

from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(user_module=sys.modules[__name__], user_ns=globals())
shell.history_manager.enabled = False
shell.run_line_magic("load_ext", "lazynb")


def cell(text):
    """Runs a cell; raises what it raises."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        result = shell.run_cell(text, store_history=True)
    if result.error_in_exec is not None:
        raise result.error_in_exec
'''


def script(program: Program, outcome: Outcome, command: str) -> str:
    """The program's text.

    Arguments:
      command: what found it.
    """
    finding = outcome.finding
    said = (
        f"{finding.what}, step {finding.number} ({finding.kind}): {finding.text}"
        if finding is not None
        else "No difference."
    )
    head = f'"""Found by {command}\n\n{said}\n"""\n'.replace("\\", "/")
    pasted = [_pasted(module) for module in (prelude, observe, interrupts)]
    if program.style == "shell":
        pasted.append(SHELL)
    steps = zip(outcome.steps, outcome.expected, outcome.errors)
    body = "".join(_step(number, program, *one) for number, one in enumerate(steps, 1))
    if program.style == "body":
        if finding is not None and finding.what == "mode":
            body += 'if not recording():\n    raise Gone("the body records no more")\n'
        body = indented(body or "pass", "with lazynb.lazy():")
    return (
        head
        + "from __future__ import annotations\n"
        + "\n\n".join(pasted)
        + HELPERS
        + f"\n# ---- the program ----\n\n{program.setup}\n{body}\noutside()\n"
    )


def _pasted(module: Any) -> str:
    source = inspect.getsource(module)
    return re.sub(r"from __future__ import annotations\n", "", source)


def _step(number: int, program: Program, step: Step, expected: dict[str, Any], error: str) -> str:
    statement = step.statement
    text = statement.source
    if statement.repeat > 1:
        text = indented(text, f"for _ in range({statement.repeat}):")
    if program.style == "cells":
        text = indented(text, "with lazynb.lazy():")
    elif program.style == "shell":
        text = f"cell({text!r})"
    if error:
        text = indented(text, f"with failing({error!r}, deferred={statement.deferred}):")
    if step.aim is not None:
        text = indented(text, f"with interrupted({step.aim!r}):")
    lines = [f"# {number}: {statement.kind}", text.rstrip()]
    if program.style != "body":
        lines.append("outside()")
    shown = {name: value for name, value in expected.items() if value != ("object",)}
    if shown:
        lines.append("check(" + ",\n      ".join(f"{name}={value!r}" for name, value in shown.items()) + ")")
    return "\n".join(lines) + "\n"
