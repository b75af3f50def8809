"""Long days in one kernel: the extension loaded a hundred times, large cells, interrupted magics."""

import weakref

import pytest

from lazynb.notebook import extension
from lazynb.notebook.extension import Extension

from .shell_state import Session, differences, objects, shell_state


@pytest.fixture
def session(clean, no_other_loop):
    session = Session()
    yield session
    session.close()


def test_a_shell_is_as_before_after_a_hundred_rounds_of_loading_and_unloading(session):
    session.run("def graph(line): return 'of the user'\nget_ipython().register_magic_function(graph)")
    session.run("get_ipython().compile.cache = cache = get_ipython().compile.cache")
    before, alive = shell_state(session.shell), weakref.WeakSet()
    counts = []
    for number in range(100):
        session.run("%load_ext lazynb")
        alive.add(extension._loaded[id(session.shell)])
        session.run("x = jnp.ones(3) + 1")
        if number % 3 == 1:
            session.run("%reload_ext lazynb\nfloat(x.sum())")
        session.run("%unload_ext lazynb")
        assert not differences(before, shell_state(session.shell))
        if number in (39, 99):
            counts.append(objects())
    assert not alive and not any(isinstance(one, Extension) for one in extension._loaded.values())
    assert "of the user" in session.run("%graph")
    cells = 2 * 60 + 100  # each is an entry of the histories, which are bounded
    grown = {
        name: count - counts[0][name] for name, count in counts[1].items() if count > counts[0][name] + 30
    }
    assert sum(grown.values()) < 6 * cells and not [name for name in grown if "lazynb.notebook" in name], (
        grown
    )
