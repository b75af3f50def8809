"""Tables of the inspector: their cells say all that a record says."""

from __future__ import annotations

from lazynb.report.inspection.session_tables import CELL_CHARACTERS, MAX_ROWS, table
from lazynb.running.record_table import Records


def test_a_long_reason_is_not_cut():
    why = "; ".join(f"`name_{n}` was added: cell 3, line {n}" for n in range(20))
    assert 160 < len(why) < CELL_CHARACTERS
    made = table(Records([why], "", lambda record: {"n": "0", "reason": record}), "executable")
    assert made["rows"] == [["0", why]]


def test_very_long_cells_and_tables_are_cut_and_counted():
    made = table(Records(["x" * 5000] * (MAX_ROWS + 1), "", lambda record: {"reason": record}), "executable")
    assert len(made["rows"][0][0]) <= CELL_CHARACTERS and made["rows"][0][0].endswith("…")
    assert made["text"] == f"{MAX_ROWS + 1} executables, {MAX_ROWS} of them are shown"
