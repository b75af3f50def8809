"""No text is lost: what has no room wraps, scrolls, or is told whole by its tooltip."""

from __future__ import annotations

import copy

import inspections as data
import jax
import jax.numpy as jnp
import pytest
from reading import tab, thing

import lazynb
from lazynb.report.inspection.inspection_data import inspection

TABS = ["Graph", "Fusion", "HLO", "Code", "Cost", "Memory", "Cache", "Breaks"]

# Each text of which a part is outside of a box that cuts it off, or that ends in dots, and that no tooltip has
# whole. What scrolls can be reached.
CUT = r"""() => {
  const root = document.querySelector('.lazynb-inspector');
  const bare = (text) => text.replace(/[^\p{L}\p{N}]+/gu, '');
  const title = (element) => {
    for (let e = element; e && root.contains(e); e = e.parentElement) {
      const own = e.getAttribute('title') || e.querySelector(':scope > title')?.textContent;
      if (own) return bare(own);
    }
    return '';
  };
  const inside = (svg) => {
    const { a, e, f } = svg.parentNode.getScreenCTM();
    const [x, y, w, h] = ['x', 'y', 'width', 'height'].map((name) => a * Number(svg.getAttribute(name) ?? 0));
    return { left: e + x, top: f + y, right: e + x + w, bottom: f + y + h };
  };
  const cuts = (e) => {
    const { overflowX: x, overflowY: y } = getComputedStyle(e);
    if (e.tagName === 'svg') return e.ownerSVGElement ? { box: inside(e), x: true, y: true } : null;
    const hides = (way) => way === 'hidden' || way === 'clip';
    const row = e.matches('.lz-fate, .lz-box:not(.lz-frame), .lz-card');
    if (!row && x === 'visible' && y === 'visible') return null;
    return { box: e.getBoundingClientRect(), x: row || hides(x), y: row || hides(y), scrolls: !row && !hides(x) };
  };
  const isCut = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    let rects = [...range.getClientRects()].filter(({ width }) => width > 0);
    for (let e = node.parentElement; e && e !== root.parentElement; e = e.parentElement) {
      const cut = cuts(e);
      if (!cut) continue;
      const { box } = cut;
      if (cut.x && rects.some((r) => r.right > box.right + 1.5 || r.left < box.left - 1.5)) return true;
      if (cut.y && rects.some((r) => r.bottom > box.bottom + 3 || r.top < box.top - 3)) return true;
      if (cut.scrolls) rects = [box];
    }
    return false;
  };
  const found = new Set();
  let seen = 0;
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent.trim();
    if (!text || element.closest('title, option, select') || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (getComputedStyle(element.closest('thead') ?? element).clipPath.startsWith('inset')) continue;
    seen += 1;
    const whole = title(element);
    const dots = text.endsWith('…');
    const told = whole.includes(bare(text)) && !(dots && whole.length <= bare(text).length);
    if (!told && (dots || isCut(node))) found.add(`${element.getAttribute('class') ?? element.tagName}: ${text.slice(0, 60)}`);
  }
  if (!seen) found.add('nothing was looked at');
  return [...found];
}"""


def small():
    return data.measured()


def long():
    return data.long_names()


def code_names():
    """Names as programs have them: long, of several words."""
    made = data.measured()
    name = "normalised_output_of_the_last_attention_layer"
    made["nodes"][6]["names"] = made["nodes"][13]["names"] = [name]
    for node in made["nodes"][3:12]:
        node["name"] = "integer_pow mean" if node["id"] % 2 else "dynamic_update_slice_in_dim"
    made["sources"][0]["lines"][1] = f"    {name} = jax.nn.gelu({name} @ weights_of_the_projection + bias)"
    made["clusters"][2]["name"] = "broadcast_multiply_add_subtract_exponential_fusion.12"
    made["boundaries"][0]["variables"] = [name]
    made["programs"][0]["memory"]["buffers"][4]["variables"] = [name]
    made["cache"] = {
        "columns": ["n", "lines", "last line", "reason"],
        "rows": [
            ["0", "cell 3, lines 2–9", made["sources"][0]["lines"][1].strip(), f"`{name}` was added; " * 12]
        ],
        "nodes": [[]],
        "text": "1 executable",
    }
    return made


def patterned():
    """Kernels beyond the colours that there are, with labels as long as those of loops in loops."""
    made = data.measured()
    for cluster in made["clusters"]:
        cluster["colour"] = 14 * (1 + cluster["id"] % 4) + cluster["id"]
        cluster["label"] = f"c{cluster['id'] + 100}.{cluster['id']}"
    made["fates"][8]["clusters"] = [3, 4, 5]
    return made


def large():
    return data.large(300)


def recorded():
    """What lazynb itself gives: layer normalisation, as it is written by hand."""
    with lazynb.lazy():
        x, w = jnp.ones((16, 8)), jnp.ones((8, 8))
        the_deviations_from_the_mean_of_each_row = x - x.mean(-1, keepdims=True)
        variance = (the_deviations_from_the_mean_of_each_row**2).mean(-1, keepdims=True)
        normalised = the_deviations_from_the_mean_of_each_row / jnp.sqrt(variance + 1e-5)
        weights = jax.nn.softmax(jnp.where(normalised > 0, normalised, -normalised) @ w)
        return inspection(lazynb.compile(weights))


PROGRAMS = {f.__name__: f for f in (small, long, code_names, patterned, large, recorded)}


def without_dots(made):
    """The fixtures' cache has short hashes of its own making."""
    made["cache"]["rows"] = [[cell.replace("…", "") for cell in row] for row in made["cache"]["rows"]]
    return made


def looked_at(page, name):
    """What is cut in a tab, in each of its forms."""
    tab(page, name)
    page.wait_for_timeout(60)
    cut = page.evaluate(CUT)
    if name == "Graph":
        page.get_by_role("button", name="Operations", exact=True).click()
        page.wait_for_timeout(60)
        cut += page.evaluate(CUT)
        page.get_by_role("button", name="Drawing", exact=True).click()
    return cut


@pytest.mark.parametrize("width", [360, 800, 1200, 1600])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_text_is_lost(show, clean, program, width):
    page = show(without_dots(PROGRAMS[program]()), width=width)
    cut = {name: looked_at(page, name) for name in TABS}
    assert not any(cut.values()), {name: found for name, found in cut.items() if found}
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_planted_clipped_text_is_detected(show):
    """Text in a box that is too small, in dots, and in a drawing: each is found, and a tooltip heals it."""
    page = show(small())
    tab(page, "Fusion")
    page.evaluate("""() => {
      document.querySelector('.lz-card-name').style.cssText = 'width:20px;overflow:hidden;white-space:nowrap';
      document.querySelector('.lz-card-name').removeAttribute('title');
      const word = document.querySelectorAll('.lz-block-name')[1];
      word.textContent = 'a word as long as none that there is in the drawing';
      document.querySelector('.lz-reason').textContent = 'It is wri…';
    }""")
    found = page.evaluate(CUT)
    assert [one.split(":")[0] for one in found] == ["lz-block-name", "lz-card-name", "lz-reason"]
    page.evaluate(
        "document.querySelector('.lz-card-name').title = document.querySelector('.lz-card-name').textContent"
    )
    assert len(page.evaluate(CUT)) == 2


@pytest.mark.parametrize("width", [800, 1400])
def test_the_foot_tells_whole_names(show, width):
    page = show(code_names(), width=width)
    for one in ("node:6", "line:0:2", "cluster:2"):
        page.evaluate(f"document.querySelector('{thing(one)}').click()")
        assert page.evaluate(CUT) == [], one


def test_a_line_breaks_between_its_names(show):
    """Not in the middle of a word while there are signs to break after."""
    page = show(code_names(), width=1200)
    text = page.locator(f"{thing('line:0:2')} .lz-text")
    rows = text.evaluate(
        r"""(element) => {
          const rows = [];
          const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
          let top = null;
          for (let node = walk.nextNode(); node; node = walk.nextNode())
            for (let i = 0; i < node.length; i++) {
              const range = document.createRange();
              range.setStart(node, i);
              range.setEnd(node, i + 1);
              const box = range.getBoundingClientRect();
              if (!box.width) continue;
              if (top === null || box.top > top + 8) rows.push('');
              rows[rows.length - 1] += node.data[i];
              top = box.top;
            }
          return rows;
        }"""
    )
    assert len(rows) > 1 and all(row[-1] in "_.,([{=/ " for row in rows[:-1]), rows
    assert text.evaluate("element => element.textContent") == code_names()["sources"][0]["lines"][1], (
        "as it is copied"
    )


def test_a_kernel_looks_the_same_everywhere(show):
    """A pattern stands on the chip, beside the line, in the drawing and in the map; plain colours have none."""
    made = copy.deepcopy(patterned())
    page = show(made)
    chip = page.locator(f".lz-source {thing('line:0:6')} .lz-chip")
    assert "gradient" in chip.evaluate("e => getComputedStyle(e).backgroundImage")
    bars = page.locator(f"{thing('line:0:6')} .lz-bars")
    assert "repeating" in bars.evaluate("e => getComputedStyle(e).backgroundImage")
    assert bars.get_attribute("title") == "kernel c100.0"
    legend = page.get_by_role("note", name="legend of the lines")
    assert "another kernel" in legend.inner_text()
    tab(page, "Fusion")
    assert page.locator(".lz-block path[stroke-width='1.5']").count() > 0
    plain = show(small())
    assert "gradient" not in plain.locator(".lz-source .lz-chip").first.evaluate(
        "e => getComputedStyle(e).backgroundImage"
    )
    assert "another kernel" not in plain.get_by_role("note", name="legend of the lines").inner_text()
