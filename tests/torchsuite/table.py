"""What is known beforehand of PyTorch's operations on device ``jax``: ``differences.toml``."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

PLACE = Path(__file__).with_name("differences.toml")


class Table:
    """Which operations differ by nature, and what of them is compared all the same.

    Attributes:
      reasons: for each pattern of names, the aspects in which it differs, and why. No aspect means all.
      undetermined: patterns of operations whose values are not determined: shapes and dtypes are compared.
      choices: patterns of operations that give the place of one of several equal elements: which one is not
        determined, that the element lies there is compared.
    """

    def __init__(self, text: str):
        read = tomllib.loads(text)
        self.reasons = [
            (pattern, tuple(one.get("aspects", ())), one["reason"])
            for one in read["difference"]
            for pattern in one["operations"]
        ]
        self.undetermined = {
            pattern: one["reason"] for one in read["undetermined"] for pattern in one["operations"]
        }
        self.choices = [pattern for one in read["choice"] for pattern in one["operations"]]

    @staticmethod
    def load() -> Table:
        return Table(PLACE.read_text())

    def reason(self, operation: str, aspect: str) -> str | None:
        """Why ``operation`` may fail; None if nothing says so.

        Arguments:
          aspect: ``values-float32``.
        """
        for pattern, aspects, why in self.reasons:
            fits = not aspects or any(fnmatch.fnmatchcase(aspect, one) for one in aspects)
            if fits and fnmatch.fnmatchcase(operation, pattern):
                return why
        return None

    def comparison(self, operation: str) -> str:
        """What is compared of the results of ``operation``: ``values``, ``choices`` or ``shapes``."""
        if self.undetermined_by(operation) is not None:
            return "shapes"
        return "choices" if any(fnmatch.fnmatchcase(operation, one) for one in self.choices) else "values"

    def undetermined_by(self, operation: str) -> str | None:
        """Why the values of ``operation`` are not determined; None if they are."""
        fitting = (
            why for pattern, why in self.undetermined.items() if fnmatch.fnmatchcase(operation, pattern)
        )
        return next(fitting, None)
