"""One step from an array to a view of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class ViewStep(NamedTuple):
    """One step from an array to a view of it.

    Attributes:
      read: takes the array and returns the values of the view.
      write: takes the array and new values of the view, and returns the array with these.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]
