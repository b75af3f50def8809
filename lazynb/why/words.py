"""The words of two programs' sources: whether the one may be an edit of the other."""

from __future__ import annotations

import functools
import re
from collections import Counter

from lazynb.execute.misses import Miss

_WORD = re.compile(r"\w+")


def words_alike(miss: Miss, other: Miss) -> float:
    """The share of the names and numbers that the cells have in common which recorded two programs, from 0 to
    1."""
    own, theirs = ("\n".join(each.sources.values()) for each in (miss, other))
    shared = (_words_in(own) & _words_in(theirs)).total()
    return shared / max(_words_in(own).total(), _words_in(theirs).total(), 1)


@functools.lru_cache(maxsize=256)
def _words_in(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text))
