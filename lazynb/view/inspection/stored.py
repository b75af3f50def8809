"""An inspection inside its static form, of which a page that has the front end makes an inspector."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode

from lazynb.view.inspection.schema import Inspection

_MOST = 200_000
"""Characters that are stored at most, in a notebook that may hold twenty of them."""


def stored(data: Inspection) -> str:
    """An element that holds ``data``, as JSON, deflated; empty where it would be too long.

    It is an attribute: what cleans the HTML of others leaves it out, and nothing of it is shown.
    """
    text = json.dumps({**data, "live": False}, separators=(",", ":"))
    packed = b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
    return f'<div hidden data-lazynb-stored="{packed}"></div>' if len(packed) <= _MOST else ""
