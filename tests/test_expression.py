"""The syntax of the user's source."""

from __future__ import annotations

import ast

from lazynb.user_code import instructions


def test_a_parser_that_another_thread_disturbs_is_asked_again(monkeypatch):
    """Python 3.11 counts the depth of the syntax for all threads in one place (python/cpython#106905)."""
    own, calls = ast.parse, []

    def disturbed(source):
        calls.append(source)
        if len(calls) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=138, after=123)")
        return own(source)

    with monkeypatch.context() as patch:  # pytest itself parses where a test fails
        patch.setattr(ast, "parse", disturbed)
        asked, unfinished = instructions.parse("a = 1  # asked twice"), instructions.parse("a = (")
    assert isinstance(asked, ast.Module) and calls == [calls[0]] * 2 + ["a = ("] and unfinished is None
