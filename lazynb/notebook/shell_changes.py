"""Changes to an IPython shell that are undone later: hooks, registered magics and replaced methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_NONE = object()


class ShellChanges:
    """Changes to a shell, undone in reverse order by :meth:`undo`.

    An interrupted call of :meth:`undo` can be repeated: a change stays in the list until it is undone.
    """

    def __init__(self, shell: Any):
        self._shell = shell
        self._steps: list[Callable[[], object]] = []

    def undo(self) -> None:
        """Undoes all changes. Raises the last error after all."""
        failed: Exception | None = None
        while self._steps:
            try:
                self._steps[-1]()
            except Exception as error:
                failed = error
            self._steps.pop()
        if failed is not None:
            raise failed

    def start(self, part: Any) -> None:
        """Calls ``part.start()``; undone by ``part.stop()``, which may be called in any state."""
        self._steps.append(part.stop)
        part.start()

    def add(self, items: list[Any], item: Any) -> None:
        """Appends ``item`` to ``items``."""
        self._steps.append(functools.partial(_remove, items, item))
        items.append(item)

    def set(self, table: dict[str, Any], name: str, new: Any) -> None:
        """Sets an entry of ``table``; for a method of one object, that is its ``vars``. An entry that other
        code sets later stays."""
        self._steps.append(functools.partial(_put_back, table, name, new, table.get(name, _NONE)))
        table[name] = new

    @contextmanager
    def magics(self) -> Iterator[None]:
        """The body registers magics. Undoing puts back magics of the same names."""
        manager, configurables = self._shell.magics_manager, self._shell.configurables
        tables = [*manager.magics.values(), manager.registry]
        before, known = [dict(table) for table in tables], {*map(id, configurables)}
        try:
            yield
        finally:
            for table, old in zip(tables, before, strict=True):
                for name, new in table.items():
                    if new is not old.get(name, _NONE):
                        put_back = functools.partial(_put_back, table, name, new, old.get(name, _NONE))
                        self._steps.append(put_back)
            for one in configurables:
                if id(one) not in known:
                    self._steps.append(functools.partial(_remove, configurables, one))


def _put_back(table: dict[str, Any], name: str, new: Any, old: Any) -> None:
    if table.get(name, _NONE) is not new:
        return
    if old is _NONE:
        del table[name]
    else:
        table[name] = old


def _remove(items: list[Any], item: Any) -> None:
    items[:] = [other for other in items if other is not item]
