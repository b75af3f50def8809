"""The IPython extension: cells run lazily, each cut from the one before."""

from __future__ import annotations

from typing import Any

import lazynb
from lazynb import source
from lazynb.notebook.magics import MAGICS, LazyMagics
from lazynb.record import names
from lazynb.record.mode import mode
from lazynb.record.trace import thread_trace


class Extension:
    """lazynb in one IPython shell.

    Attributes:
      enabled: whether cells run lazily.
    """

    def __init__(self, shell: Any):
        self.shell = shell
        self.enabled = True
        self._nested = 0
        self._name_cell = shell.compile.cache

    def start(self) -> None:
        """Registers hooks and magics."""
        self.shell.events.register("pre_run_cell", self._before)
        self.shell.events.register("post_run_cell", self._after)
        self.shell.register_magics(LazyMagics(self.shell, self))
        names.namespaces.append(self._namespace)
        self.shell.compile.cache = self._cache

    def stop(self) -> None:
        """Takes them out again. Pending values stay pending: they are computed when they are needed."""
        while self._nested:
            self._after(None)
        self.shell.events.unregister("pre_run_cell", self._before)
        self.shell.events.unregister("post_run_cell", self._after)
        for kind, name in MAGICS:
            self.shell.magics_manager.magics[kind].pop(name, None)
        names.namespaces.remove(self._namespace)
        self.shell.compile.cache = self._name_cell
        source.set_current_cell(None)

    def switch(self, on: bool) -> None:
        """Turns lazy mode on or off, from the next line on."""
        self.enabled = on
        if self._nested:  # a cell is running, and its hooks expect the mode to be theirs
            mode.off()
            mode.on() if on else mode.pause()

    def _namespace(self) -> dict[str, Any]:
        return self.shell.user_ns

    def _cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        """IPython's own function, which names the code of a cell; the name is remembered as that cell's."""
        name = self._name_cell(transformed_code, number, raw_code=raw_code)
        source.register_cell(name, number, raw_code or transformed_code)
        return name

    def _before(self, _info: Any) -> None:
        source.set_current_cell(self.shell.execution_count)
        thread_trace().cut()
        mode.on() if self.enabled else mode.pause()
        self._nested += 1

    def _after(self, _result: Any) -> None:
        if self._nested:  # the cell that loaded the extension has no beginning
            self._nested -= 1
            mode.off()
            source.set_current_cell(None)


_loaded: dict[int, Extension] = {}


def load(shell: Any) -> None:
    """See :func:`lazynb.load_ipython_extension`."""
    if id(shell) in _loaded:
        return
    extension = _loaded[id(shell)] = Extension(shell)
    extension.start()
    print(f"lazynb {lazynb.__version__}: cells from here on run lazily (%lazy off to stop).")


def unload(shell: Any) -> None:
    """See :func:`lazynb.unload_ipython_extension`."""
    extension = _loaded.pop(id(shell), None)
    if extension is not None:
        extension.stop()
