"""What an IPython shell, Python and JAX hold apart from the user's variables, to compare before and after."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import contextlib
import gc
import io
import os
import signal
import sys
import threading
import warnings
from collections import Counter
from typing import Any

import jax
from IPython.core.interactiveshell import InteractiveShell
from jax._src import core, sharding_impls, stages

from lazynb.recording.lazy_blocks import blocks, patches


class Session:
    """A shell that runs cells in this process.

    ``%whos`` and ``%load_ext`` were used: IPython loads the classes of its magics with their first use.
    """

    def __init__(self) -> None:
        InteractiveShell.clear_instance()
        self.shell = InteractiveShell.instance()
        self.shell.history_manager.enabled = False
        self.shell.colors = "nocolor"
        self.run("%reload_ext lazynb\nimport jax, jax.numpy as jnp, numpy as np\n%whos")
        self.run("%unload_ext lazynb")

    def run(self, cell: str, error: type[BaseException] | None = None, history: bool = True) -> str:
        """Runs a cell; what it printed. ``error``: the type of the exception that it must raise."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            result = self.shell.run_cell(cell, store_history=history)
        raised = result.error_before_exec or result.error_in_exec
        if not isinstance(raised, error or type(None)):
            raise AssertionError(f"{cell!r} raised {raised!r}:\n{out.getvalue()}")
        return out.getvalue()

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]

    def close(self) -> None:
        self.run("%unload_ext lazynb")
        self.shell.reset()
        InteractiveShell.clear_instance()


def shell_state(shell: Any) -> dict[str, Any]:
    """By name, what unloading lazynb puts back."""
    manager, formatter = shell.magics_manager, shell.display_formatter
    state: dict[str, Any] = {f"%{name}": magic for name, magic in manager.magics["line"].items()}
    state |= {f"%%{name}": magic for name, magic in manager.magics["cell"].items()}
    state |= {f"event {name}": [*hooks] for name, hooks in shell.events.callbacks.items()}
    for name, one in formatter.formatters.items():
        state[f"formatter {name}"] = {*one.type_printers}, {*one.deferred_printers}, {*one.singleton_printers}
    for owner in (
        "compile",
        "inspector",
        "InteractiveTB",
        "SyntaxTB",
        "displayhook",
        "display_pub",
        "Completer",
    ):
        state[f"attributes of {owner}"] = {*vars(getattr(shell, owner))}
    transformers = shell.input_transformer_manager
    state |= {
        "registry": {*manager.registry},
        "configurables": [type(one) for one in shell.configurables],
        "attributes": {*vars(shell)} - {"_last_traceback", "last_execution_result"},
        "input": [*shell.input_transformers_cleanup, *shell.input_transformers_post],
        "lines": [*transformers.cleanup_transforms, *transformers.line_transforms],
        "tokens": [*transformers.token_transformers],
        "syntax trees": [*shell.ast_transformers],
        "IPython display": {*formatter.ipython_display_formatter.type_printers},
        "exceptions": (shell.custom_exceptions, shell.CustomTB),
        "matchers": [matcher.__qualname__ for matcher in shell.Completer.matchers],
        "completers": repr(shell.Completer.custom_completers),
        "published": [*getattr(shell.display_pub, "_hooks", ())],
        "sys": [
            getattr(sys, name) for name in ("excepthook", "displayhook", "unraisablehook", "breakpointhook")
        ],
        "finders": [*map(repr, sys.meta_path), *map(repr, sys.path_hooks)],
        "tracing": (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
        "threads": Counter(thread.name.rstrip("0123456789-") for thread in threading.enumerate()),
        "at exit": atexit._ncallbacks(),
        "collector": (len(gc.callbacks), gc.get_threshold(), gc.isenabled()),
        "warnings": (len(warnings.filters), warnings.showwarning),
        "environment": {
            name: hash(text) for name, text in os.environ.items() if name != "PYTEST_CURRENT_TEST"
        },
        "builtins": {name: value for name, value in vars(builtins).items() if name != "_"},
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        "settings of JAX": dict(jax.config.values),
        "trace": core.trace_ctx.trace is core.eval_trace,
        "patches": (
            patches.on,
            patches.rest.on,
            stages.Compiled.__call__,
            sharding_impls.core,
            jax.numpy.tanh,
        ),
        "blocks": [*blocks.__dict__.get("_open", ())],
        "event loop": type(asyncio.get_event_loop_policy()),
    }
    return state


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What is not as before."""
    none = object()
    return {
        name: (before.get(name), after.get(name))
        for name in {*before, *after}
        if before.get(name, none) != after.get(name, none)
    }


def objects() -> Counter[str]:
    """The number of live objects by type, without garbage."""
    for _ in range(3):
        gc.collect()
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
