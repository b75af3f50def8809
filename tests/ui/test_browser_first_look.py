"""What a picture shows before anybody touches it: boxes and not the room beside them, no row without content, no word that
is not so."""

from __future__ import annotations

import copy

import jax
import jax.numpy as jnp
import pytest
from inspections import empty, large, small
from reading import tab

import lazynb
from lazynb.report.inspection.inspection_data import inspection

# Boxes (by a selector) that lie whole in the part of a pane that is in sight.
IN_SIGHT = """([pane, boxes]) => {
  const outer = document.querySelector(pane).getBoundingClientRect();
  return [...document.querySelectorAll(boxes)].map((one) => one.getBoundingClientRect()).filter((box) =>
    box.width && box.left >= outer.left - 1 && box.right <= outer.right + 1 && box.top >= outer.top - 1 && box.bottom <= outer.bottom + 1
  ).length;
}"""
# Room between the top of a pane and the highest of its boxes that is in sight, and what of the pane's height that is.
ROOM_ABOVE = """([pane, boxes]) => {
  const outer = document.querySelector(pane).getBoundingClientRect();
  const tops = [...document.querySelectorAll(boxes)].map((one) => one.getBoundingClientRect())
    .filter((box) => box.width && box.right > outer.left && box.left < outer.right && box.bottom > outer.top).map((box) => box.top);
  return (Math.min(...tops) - outer.top) / outer.height;
}"""


def late_kernels():
    """A program of which the first kernel stands low in the map: many others stand above it, behind each other."""
    made = small()
    kernel, boundary = made["clusters"][0], made["boundaries"][0]
    count = 24
    made["clusters"] = [
        {**kernel, "id": i, "label": f"c{i}", "name": f"fusion.{i}", "nodes": [], "colour": i % 13}
        for i in range(count)
    ]
    chain = [(i, i + 1) for i in range(count - 1)]
    across = [(i, j) for i in range(0, 12, 2) for j in range(i + 3, count, 3)]
    made["boundaries"] = [
        {**boundary, "id": n, "producer": a, "consumer": b} for n, (a, b) in enumerate([*chain, *across])
    ]
    made["findings"] = []
    return made


@pytest.fixture(scope="module")
def training():
    """A step of training, which is a wide graph."""
    x, y = jax.random.normal(jax.random.key(0), (32, 64)), jnp.arange(32) % 10
    params = {"w1": jnp.ones((64, 128)) * 0.01, "b1": jnp.zeros(128), "w2": jnp.ones((128, 10)) * 0.01}

    @jax.jit
    def step(params, x, y):
        def loss(p):
            h = jax.nn.relu(x @ p["w1"] + p["b1"])
            return -jax.nn.log_softmax(h @ p["w2"])[jnp.arange(32), y].mean()

        value, grads = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    lazynb.clear_cache()
    with lazynb.lazy():
        made = lazynb.compile(*jax.tree.leaves(step(params, x, y)))
        return inspection(made)


@pytest.mark.parametrize("width", [1400, 800])
def test_the_picture_of_the_passes_opens_where_the_boxes_are(show, training, width):
    page = show(training, width=width)
    tab(page, "Fusion")
    page.get_by_role("button", name="Passes", exact=True).click()
    page.wait_for_timeout(700)
    pane = ".lz-formation .lz-canvas"
    opened = page.evaluate(IN_SIGHT, [pane, ".lz-formed-box"])
    most = 0
    for top in range(0, 1200, 60):
        for left in range(0, 2400, 200):
            page.locator(pane).evaluate("(e, [left, top]) => e.scrollTo(left, top)", [left, top])
            most = max(most, page.evaluate(IN_SIGHT, [pane, ".lz-formed-box"]))
    assert opened >= 0.75 * most, (opened, most)


@pytest.mark.parametrize("width", [1400, 800])
def test_the_map_of_kernels_opens_at_the_first_of_them(show, width):
    page = show(late_kernels(), width=width)
    tab(page, "Fusion")
    first = ".lz-block[aria-label^='kernel c0,']"
    assert page.evaluate(IN_SIGHT, [".lz-map-holder", first]) == 1


@pytest.mark.parametrize("width", [1400, 800])
def test_the_graph_opens_with_boxes_at_its_top(show, training, width):
    page = show(training, width=width)
    assert page.locator(".lz-overview").is_visible()
    assert page.evaluate(ROOM_ABOVE, [".lz-canvas", ".lz-box:not(.lz-frame)"]) < 0.15


def test_the_overview_and_the_graph_have_different_backgrounds(show, training):
    """The graph ends at an edge that can be seen, not in the middle of a white page."""
    page = show(training)
    colour = "e => getComputedStyle(e).backgroundColor"
    ground = page.locator(".lz-ground").evaluate(colour)
    canvas = page.locator(".lz-canvas").evaluate(colour)
    assert ground != canvas and "rgba(0, 0, 0, 0)" not in (ground, canvas)


def test_a_narrow_pane_is_the_graphs_alone(show, training):
    page = show(training, width=340)
    assert not page.locator(".lz-overview").is_visible()
    room = "[...document.querySelectorAll('.lz-ground, .lz-canvas')].map((e) => e.clientWidth)"
    ground, canvas = page.evaluate(room)
    assert canvas == ground


def test_passes_that_are_not_known_are_not_counted(show):
    made = small()
    made["programs"][0]["hlo"]["passes"] = []
    page = show(made)
    tab(page, "HLO")
    said = page.locator(".lz-stage-title").first.inner_text()
    assert "what runs" in said and "0 passes" not in said


@pytest.mark.parametrize("name", ["Graph", "Fusion", "HLO", "Code", "Cost", "Memory", "Cache", "Breaks"])
def test_each_tab_of_an_empty_session_shows_one_sentence(show, name):
    page = show(empty())
    tab(page, name)
    panel = page.locator(".lz-panel")
    said = panel.inner_text().strip()
    assert said.endswith(".") and "\n" not in said, said
    bars = panel.locator(".lz-toolbar, .lz-code-head, .lz-stage-title")
    assert all(not bar.is_visible() for bar in bars.all()), "no lines around nothing"


@pytest.mark.parametrize("width", [1400, 800])
def test_many_kernels_leave_the_code_its_room(show, width):
    page = show(large(5000), width=width)
    tab(page, "Code")
    chips, panel = (page.locator(one).bounding_box() for one in (".lz-code-kernels", ".lz-panel"))
    assert chips["height"] < 0.3 * panel["height"]
    page.locator(".lz-code-kernels .lz-chip", has_text="c199").click()
    assert "c199" in page.locator(".lz-code-head").inner_text()


@pytest.mark.parametrize("width", [1400, 800])
def test_the_legend_of_the_lines_is_in_sight(show, width):
    """Also of a source that is longer than its place."""
    page = show(large(1000), width=width)
    assert page.evaluate(IN_SIGHT, [".lz-source", ".lz-source-legend"]) == 1
    covered = """() => {
      const [lines, legend] = ['.lz-code-line:last-of-type', '.lz-source-legend'].map((one) => [...document.querySelectorAll(one)].at(-1));
      legend.parentElement.scrollTop = 1e6;
      return lines.getBoundingClientRect().bottom > legend.getBoundingClientRect().top + 1;
    }"""
    assert not page.evaluate(covered), "the last line can be read above it"


def test_the_number_of_a_kernel_fits_its_block(show):
    made = copy.deepcopy(late_kernels())
    made["clusters"][3]["label"] = "c1174"
    page = show(made)
    tab(page, "Fusion")
    beyond = """() => [...document.querySelectorAll('.lz-block')].filter((block) => {
      const text = block.querySelector('.lz-block-number')?.getBoundingClientRect();
      const chip = block.querySelector('path')?.getBoundingClientRect();
      return text && (text.left < chip.left + 1 || text.right > chip.right - 1);
    }).map((block) => block.getAttribute('aria-label'))"""
    assert page.evaluate(beyond) == []
