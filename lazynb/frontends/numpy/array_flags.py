"""The flags of a lazy array: those of its layout, and whether it owns its memory."""

from __future__ import annotations

from typing import Any

from lazynb.frontends.numpy.view_memory import writeable


class Flags:
    """``x.flags``: layout flags, ``owndata`` and ``writeable``."""

    def __init__(self, array: Any):
        self.__dict__["_array"] = array
        self.__dict__["owndata"] = array.base is None
        if array._scalar:
            self.__dict__["writeable"] = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array._layout.flags, name)

    def __setattr__(self, name: str, value: Any) -> None:
        array = self._array
        may_be_set = not array._scalar and (array.base is None or array.base.flags.writeable)
        if name == "writeable" and value and may_be_set:
            array._layout = writeable(array._layout)
        else:
            setattr(array._layout.flags, name, value)

    def __getitem__(self, name: str) -> Any:
        short = {"C": "C_CONTIGUOUS", "F": "F_CONTIGUOUS", "O": "OWNDATA", "W": "WRITEABLE", "A": "ALIGNED"}
        return getattr(self, short.get(name, name).lower())

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, {"W": "writeable"}.get(name, name).lower(), value)

    def __repr__(self) -> str:
        names = "C_CONTIGUOUS F_CONTIGUOUS OWNDATA WRITEABLE ALIGNED WRITEBACKIFCOPY".split()
        return "\n".join(f"  {name} : {self[name]}" for name in names)
