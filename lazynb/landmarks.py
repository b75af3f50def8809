"""Frames of which it is known who called them: those of the PyTorch modules that run.

A call of a model is forty frames deep, and each operation in it looks for the user's line. A frame's callers
stay the same while it runs, so the way up ends at the first landmark. It is taken away when the module ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import FrameType
from typing import Any


class Landmark:
    """What lies above a running frame.

    Attributes:
      frame: the frame.
      user: the nearest frame of the user's above it.
      called: the frame that the user's called; empty if it is lazynb's or JAX's own.
      call: a number of that call: the same for all landmarks in it, and for no others.
      origin: what recording kept of the last operation below it, see :class:`lazynb.source.Origin`.
    """

    __slots__ = ("call", "called", "frame", "origin", "user")

    def __init__(self, frame: FrameType, user: FrameType, called: Sequence[FrameType], call: int) -> None:
        self.frame, self.user, self.called, self.call = frame, user, called, call
        self.origin: Any = None


landmarks: dict[int, Landmark] = {}
"""By the ``id`` of the frame, which they keep."""

_numbers = itertools.count(1)


def place(frame: FrameType, user: FrameType, below: Sequence[FrameType], call: int) -> None:
    """Makes ``frame`` a landmark. ``user``, ``below`` and ``call`` are what ``user_frame`` says of it."""
    landmarks[id(frame)] = Landmark(frame, user, below[:1], call or next(_numbers))
