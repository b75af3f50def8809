/** The recorded operations, in groups that open in place. */

import { h, put, tool } from "../ui/dom";
import { drag } from "../ui/drag";
import { count } from "../model/format";
import { isLiteral } from "../model/words";
import { lyingCard } from "../ui/layouts";
import { entry } from "../ui/legend";
import { light, reveal } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { fatesTable } from "./fates";
import { drawScene, offer, retell } from "./boxes";
import { overview } from "./overview";
import { glide, moving, smoothly } from "../ui/motion";
import { bounded, fitting, scaleTo, zoomKey, zoomTools } from "../ui/zoom";
import { ungrouped } from "../graph/parts";
import { Scenes } from "../graph/scene";

/** Smallest scale of the first picture: what does not fit at that is shown at 100 %, and scrolled to. */
const LEAST = 0.9;
/** Room above the highest box of the first picture. */
const ABOVE = 12;

export function graphView(context: Context): View {
  const { store, signal } = context;
  const { data } = store;
  if (!data.nodes.length) return { element: h("div.empty", {}, "Nothing was recorded: there is no graph to show.") };
  const tree = data.groups.length ? data.groups : ungrouped(data.nodes);
  if (!tree) return { element: h("div.empty", {}, "The groups of this graph are missing, and it is too large without them.") };
  const scenes = new Scenes(store.relations, tree);
  const stage = h("div.stage", {});
  const canvas = h(
    "div.canvas",
    {
      tabindex: 0,
      role: "group",
      "aria-label": "graph of the recorded operations; plus and minus zoom, 1 is 100 %, 0 all of it, arrows move",
    },
    stage,
  );
  const lying = lyingCard(store);
  const map = overview(canvas, store, signal);
  let zoom = 1;
  let aim = 1; // where zoom is going
  let stopZoom = () => {};
  let size = { width: 0, height: 0 };
  let fitted = false;
  let seen = { left: 0, top: 0 }; // how far it is scrolled

  const setZoom = (next: number, centre = true) => {
    const before = zoom;
    zoom = next;
    scaleTo(canvas, size, zoom, centre ? before : 0);
    map.follow();
  };
  const aimAt = (next: number) => {
    aim = bounded(next);
    level.textContent = `${Math.round(aim * 100)} %`;
  };
  const zoomTo = (next: number, done = () => {}) => {
    stopZoom();
    aimAt(next);
    stopZoom = glide(zoom, aim, (value) => {
      setZoom(value);
      if (value === aim) done();
    });
  };
  /** At 100 %, with what is selected in sight. */
  const toFull = () =>
    zoomTo(1, () => {
      const chosen = stage.querySelector(".lz-stuck.lz-box") ? ".lz-stuck.lz-box" : ".lz-lit:not(.lz-frame)"; // not what is hovered
      smoothly(canvas, () => reveal(canvas, stage, chosen));
    });
  /** The first picture: all of it if that can be read, else where it begins. */
  const begin = () => {
    if (!canvas.clientWidth || !size.width) return;
    const whole = fitting(canvas, size);
    aimAt(whole < LEAST ? 1 : whole);
    setZoom(aim, false);
    map.draw(scenes.whole());
    toTop();
    fitted = true;
  };
  /** Scrolls to where the graph begins, which may be far from the left of a wide picture. */
  const toTop = () => {
    const all = [...stage.querySelectorAll(".lz-box:not(.lz-frame)")];
    const running = all.filter((box) => !box.matches(".lz-quiet, .lz-kind-input"));
    const boxes = (running.length ? running : all).map((box) => box.getBoundingClientRect());
    const first = boxes.reduce<DOMRect | null>((best, box) => (best && best.top <= box.top ? best : box), null);
    if (!first) return;
    const place = canvas.getBoundingClientRect();
    canvas.scrollLeft += (first.left + first.right) / 2 - place.left - canvas.clientWidth / 2;
    // What is higher may stand beside what is in sight: no room is left free for that.
    const tops = [...stage.querySelectorAll(".lz-box:not(.lz-frame)")]
      .map((box) => box.getBoundingClientRect())
      .filter((box) => box.right > place.left && box.left < place.left + canvas.clientWidth)
      .map((box) => box.top);
    canvas.scrollTop += Math.min(...tops) - place.top - ABOVE;
  };
  /** The card goes to the first corner in which it hides nothing that is pointed at. */
  const stepAside = () => {
    const { element: card } = lying;
    if (card.hidden) return;
    const lit = [...stage.querySelectorAll(".lz-box.lz-lit:not(.lz-frame)")].map((box) => box.getBoundingClientRect());
    const hides = (corner: string) => {
      card.dataset.corner = corner;
      const own = card.getBoundingClientRect();
      return lit.some((box) => box.right > own.left && box.left < own.right && box.bottom > own.top && box.top < own.bottom);
    };
    if (["bottom right", "top right", "bottom left", "top left"].every(hides)) card.dataset.corner = "bottom right";
  };
  const level = h(
    "button.tool.level",
    {
      type: "button",
      "aria-live": "polite",
      title: "Show at 100 %, with what is selected in sight (1)",
      onclick: () => toFull(),
    },
    "100 %",
  );

  const draw = () => {
    const scene = scenes.whole();
    size = scene;
    const drawn = drawScene(scene, store, toggle);
    drawn.classList.add("lz-scene");
    stage.replaceChildren(drawn);
    setZoom(zoom, false);
    map.draw(scene);
    update();
  };
  const update = () => {
    light(stage, store);
    map.light();
    lying.update();
    stepAside();
    offer(stage, store, (part) => openTo(part.key));
  };

  /** Opens or closes a group; its corner stays where it was on the screen. */
  const toggle = (key: string, open?: boolean) => {
    const corner = () => stage.querySelector(`[data-part="${CSS.escape(key)}"]`)?.getBoundingClientRect();
    const before = corner();
    const move = moving(stage);
    scenes.toggle(key, open);
    draw();
    const after = corner();
    if (before && after) {
      canvas.scrollLeft += after.left - before.left;
      canvas.scrollTop += after.top - before.top;
    }
    move(zoom);
    stage.querySelector<HTMLElement>(`[data-part="${CSS.escape(key)}"] > .lz-head > .lz-toggle`)?.focus({ preventScroll: true });
    tell();
  };

  /** Opens a group, and in it those that hold what is selected, so that it can be seen. */
  const openTo = (key: string) => {
    scenes.openTo(key, store.stuckHighlights.nodes);
    toggle(key, true);
    reveal(canvas, stage.querySelector(`[data-part="${CSS.escape(key)}"]`) ?? stage, ".lz-lit:not(.lz-frame)");
  };

  const boxes = h("span.muted", {});
  const inputs = data.nodes.filter((node) => node.kind === "input" && !isLiteral(node)).length;
  const operations = data.nodes.filter((node) => node.kind === "op").length;
  const all = [count(operations, "operation"), inputs ? count(inputs, "input") : ""].filter(Boolean).join(", ");
  const tell = () => {
    const shown = stage.querySelectorAll(".lz-box:not(.lz-frame)").length;
    boxes.textContent = scenes.groups.length ? `${all} in ${count(shown, "box", "boxes")}` : all;
  };
  const collapse = () => {
    const move = moving(stage);
    for (const key of [...scenes.open]) scenes.toggle(key, false);
    draw();
    move(zoom);
    tell();
  };

  const off = store.on("figures", () => retell(stage, store.relations));
  signal.addEventListener("abort", off);

  let table: View | null = null; // made when it is looked at
  const drawing = h("button.segment", { type: "button", "aria-pressed": "true" }, "Drawing");
  const listing = h("button.segment", { type: "button", "aria-pressed": "false" }, "Operations");
  const zooming = { by: (factor: number) => zoomTo(aim * factor), fit: () => zoomTo(fitting(canvas, size)) };
  const tools = h(
    "span.tools",
    {},
    ...zoomTools(zooming, level),
    scenes.groups.length ? tool("Collapse", "Close all groups", collapse) : null,
  );
  const toolbar = h(
    "div.toolbar",
    {},
    h("span.segments", { role: "group", "aria-label": "How to show the graph" }, drawing, listing),
    boxes,
    h("span.spring", {}),
    tools,
  );
  const choose = (which: "drawing" | "table") => {
    const isTable = which === "table";
    drawing.setAttribute("aria-pressed", String(!isTable));
    listing.setAttribute("aria-pressed", String(isTable));
    canvas.hidden = ground.hidden = legendBar.hidden = tools.hidden = isTable;
    if (isTable && !table) {
      table = fatesTable(context);
      element.append(table.element);
    }
    if (table) table.element.hidden = !isTable;
    if (isTable) table?.shown?.();
    else if (!fitted) begin();
  };
  drawing.addEventListener("click", () => choose("drawing"), { signal });
  listing.addEventListener("click", () => choose("table"), { signal });

  const legendBar = legend(data.programs.length > 0, data.reshardings.length > 0);
  const ground = h("div.ground", {}, canvas, lying.element, map.element);
  const element = h("div.pane.graph", {}, toolbar, ground, legendBar);
  canvas.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "1") toFull();
      else if (!zoomKey(event.key, zooming)) return;
      event.preventDefault();
    },
    { signal },
  );
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      stopZoom();
      aimAt(zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
      setZoom(aim);
    },
    { signal, passive: false },
  );
  canvas.addEventListener("scroll", () => canvas.isConnected && (seen = { left: canvas.scrollLeft, top: canvas.scrollTop }), {
    signal,
    passive: true,
  });
  drag(canvas, signal);
  draw();
  tell();
  // A widget may be made before it has a size.
  const watch = new ResizeObserver(() => {
    if (!fitted && !canvas.hidden) begin();
    else if (!canvas.hidden) map.draw(scenes.whole());
  });
  watch.observe(canvas);

  return {
    element,
    update: () => {
      update();
      table?.update?.();
    },
    reveal: () => (canvas.hidden ? table?.reveal?.() : smoothly(canvas, () => reveal(canvas, stage))),
    shown: () => {
      canvas.scrollTo(seen.left, seen.top); // an element that was taken out of the page forgets it
      if (!fitted) begin();
      else map.follow();
      table?.shown?.();
    },
    search: () => {
      choose("table");
      table?.search?.();
    },
    dispose: () => {
      watch.disconnect();
      stopZoom();
      table?.dispose?.();
    },
  };
}

/** `compiled`: there are kernels to tell apart; `spread`: shardings change. */
function legend(compiled: boolean, spread: boolean): HTMLElement {
  const key = (kind: string, words: string) => entry(h(`span.key.key-${kind}`, { "aria-hidden": "true" }), words);
  const bar = h("div.legend", {});
  put(bar, [
    compiled && key("within", "inside a kernel"),
    compiled && key("crossing", "between kernels: written to memory"),
    key("outside", "from or to outside"),
    key("input", "input"),
    key("quiet", compiled ? "no kernel of its own" : "nothing uses it"),
    key("result", "result"),
    spread && entry(h("span.flag", { "aria-hidden": "true" }, "⇄"), "sharding changes, bold: data is sent"),
  ]);
  return bar;
}
