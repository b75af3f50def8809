"""How a report shows itself, as text and as HTML: the module that makes it knows nothing of views."""

from __future__ import annotations

from collections.abc import Callable, Collection
from html import escape
from typing import Any

from lazynb.user_code.text_format import escape_invisible


def display_as(kind: type, to_text: Callable[[Any], str], to_html: Callable[[Any], str], they: str) -> None:
    """Gives the reports of a class a ``repr`` and a MIME bundle.

    Arguments:
      they: subject of the sentence where one cannot be shown: ``it`` or ``they``.
    """

    def written(self: Any) -> str:
        try:
            return to_text(self)
        except Exception as error:  # display degrades
            return f"<{kind.__name__}; {they} cannot be shown: {type(error).__name__}: {error}>"

    def bundle(
        self: Any, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        shown = {"text/plain": written(self)}
        try:
            shown["text/html"] = to_html(self)
        except Exception:  # a rendering bug must not cost the user the text
            pass
        return shown

    hooks: Any = kind
    hooks.__repr__ = written
    hooks._repr_mimebundle_ = bundle


def sentence_html(text: str) -> str:
    """A sentence as HTML, with what stands in backticks as code."""
    parts = escaped(text).split("`")
    if len(parts) % 2 == 0:
        return escaped(text)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def escaped(text: str) -> str:
    """A user's text as HTML."""
    return escape(escape_invisible(text))
