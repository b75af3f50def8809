/** The recorded operations, in groups that open in place. */

import { h, put } from "../ui/dom";
import { count } from "../model/format";
import { isLiteral } from "../model/words";
import { lyingCard } from "../ui/layouts";
import { thingAt, light, reveal } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { fatesTable } from "./fates";
import { drawScene, offer, retell } from "./boxes";
import { ungrouped } from "../graph/parts";
import { Scenes } from "../graph/scene";

const STEP = 1.2;
/** Smallest scale of the first picture: text can still be read; what does not fit is scrolled to. */
const LEAST = 0.8;
/** The same for a picture too wide for its place, which is rather scaled than scrolled. */
const LEAST_ACROSS = 0.55;

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
    { tabindex: 0, role: "group", "aria-label": "graph of the recorded operations; plus and minus zoom, arrows move" },
    stage,
  );
  const lying = lyingCard(store);
  let zoom = 1;
  let size = { width: 0, height: 0 };
  let fitted = false;

  const setZoom = (next: number, centre = true) => {
    const before = zoom;
    zoom = Math.min(2.5, Math.max(0.1, next));
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = canvas;
    stage.style.width = `${size.width * zoom}px`;
    stage.style.height = `${size.height * zoom}px`;
    (stage.firstElementChild as HTMLElement | null)?.style.setProperty("transform", `scale(${zoom})`);
    level.textContent = `${Math.round(zoom * 100)} %`;
    if (!centre) return;
    canvas.scrollLeft = ((scrollLeft + clientWidth / 2) * zoom) / before - clientWidth / 2;
    canvas.scrollTop = ((scrollTop + clientHeight / 2) * zoom) / before - clientHeight / 2;
  };
  const fit = (least = 0.1) => {
    const { clientWidth, clientHeight } = canvas;
    if (!clientWidth || !size.width) return;
    const across = Math.max(least === LEAST ? LEAST_ACROSS : 0, (clientWidth - 8) / size.width);
    setZoom(Math.min(1, across, Math.max(least, (clientHeight - 8) / size.height)), false);
    if (!fitted) toTop();
    fitted = true;
  };
  /** Scrolls to where the graph begins, which may be far from the left of a wide picture. */
  const toTop = () => {
    const boxes = [...stage.querySelectorAll(".lz-box:not(.lz-frame)")].map((box) => box.getBoundingClientRect());
    const first = boxes.reduce<DOMRect | null>((best, box) => (best && best.top <= box.top ? best : box), null);
    if (first) canvas.scrollLeft += (first.left + first.right) / 2 - canvas.getBoundingClientRect().left - canvas.clientWidth / 2;
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
  const level = h("span.level", { "aria-live": "polite" });

  const draw = () => {
    const scene = scenes.whole();
    size = scene;
    const drawn = drawScene(scene, store, toggle);
    drawn.classList.add("lz-scene");
    stage.replaceChildren(drawn);
    setZoom(zoom, false);
    update();
  };
  const update = () => {
    light(stage, store);
    lying.update();
    stepAside();
    offer(stage, store, (part) => openTo(part.key));
  };

  /** Opens or closes a group; its corner stays where it was on the screen. */
  const toggle = (key: string, open?: boolean) => {
    const corner = () => stage.querySelector(`[data-part="${CSS.escape(key)}"]`)?.getBoundingClientRect();
    const before = corner();
    scenes.toggle(key, open);
    draw();
    const after = corner();
    if (before && after) {
      canvas.scrollLeft += after.left - before.left;
      canvas.scrollTop += after.top - before.top;
    }
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
    for (const key of [...scenes.open]) scenes.toggle(key, false);
    draw();
    tell();
  };

  const off = store.on("figures", () => retell(stage, store.relations));
  signal.addEventListener("abort", off);

  const button = (label: string, title: string, act: () => void) =>
    h("button.tool", { type: "button", title, "aria-label": title, onclick: act }, label);
  let table: View | null = null; // made when it is looked at
  const drawing = h("button.segment", { type: "button", "aria-pressed": "true" }, "Drawing");
  const listing = h("button.segment", { type: "button", "aria-pressed": "false" }, "Operations");
  const tools = h(
    "span.tools",
    {},
    button("−", "Zoom out (−)", () => setZoom(zoom / STEP)),
    level,
    button("+", "Zoom in (+)", () => setZoom(zoom * STEP)),
    button("Fit", "Fit into the window (0)", () => fit()),
    scenes.groups.length ? button("Collapse", "Close all groups", collapse) : null,
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
    canvas.hidden = legendBar.hidden = tools.hidden = isTable;
    if (isTable && !table) {
      table = fatesTable(context);
      element.append(table.element);
    }
    if (table) table.element.hidden = !isTable;
    if (isTable) table?.shown?.();
    else if (!fitted) fit(LEAST);
  };
  drawing.addEventListener("click", () => choose("drawing"), { signal });
  listing.addEventListener("click", () => choose("table"), { signal });

  const legendBar = legend(data.programs.length > 0, data.reshardings.length > 0);
  const element = h("div.pane.graph", {}, toolbar, canvas, lying.element, legendBar);
  canvas.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "+" || event.key === "=") setZoom(zoom * STEP);
      else if (event.key === "-") setZoom(zoom / STEP);
      else if (event.key === "0") fit();
      else return;
      event.preventDefault();
    },
    { signal },
  );
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      setZoom(zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
    },
    { signal, passive: false },
  );
  drag(canvas, signal);
  draw();
  tell();
  // A widget may be made before it has a size.
  const watch = new ResizeObserver(() => {
    if (!fitted && !canvas.hidden) fit(LEAST);
  });
  watch.observe(canvas);

  return {
    element,
    update: () => {
      update();
      table?.update?.();
    },
    reveal: () => (canvas.hidden ? table?.reveal?.() : reveal(canvas, stage)),
    shown: () => {
      if (!fitted) fit(LEAST);
      table?.shown?.();
    },
    search: () => {
      choose("table");
      table?.search?.();
    },
    dispose: () => {
      watch.disconnect();
      table?.dispose?.();
    },
  };
}

/** Dragging the ground moves it. */
function drag(canvas: HTMLElement, signal: AbortSignal): void {
  let from: { x: number; y: number; left: number; top: number } | null = null;
  canvas.addEventListener(
    "pointerdown",
    (event) => {
      if (
        event.button !== 0 ||
        event.pointerType === "touch" ||
        thingAt(event.target) ||
        (event.target as Element).closest("button")
      )
        return;
      from = { x: event.clientX, y: event.clientY, left: canvas.scrollLeft, top: canvas.scrollTop };
    },
    { signal },
  );
  canvas.addEventListener(
    "pointermove",
    (event) => {
      if (!from) return;
      canvas.classList.add("lz-dragging");
      canvas.scrollLeft = from.left + from.x - event.clientX;
      canvas.scrollTop = from.top + from.y - event.clientY;
    },
    { signal },
  );
  const drop = () => {
    from = null;
    canvas.classList.remove("lz-dragging");
  };
  canvas.addEventListener("pointerup", drop, { signal });
  canvas.addEventListener("pointerleave", drop, { signal });
}

/** `compiled`: there are kernels to tell apart; `spread`: shardings change. */
function legend(compiled: boolean, spread: boolean): HTMLElement {
  const entry = (kind: string, text: string) => h("span.entry", {}, h(`span.key.key-${kind}`, { "aria-hidden": "true" }), text);
  const bar = h("div.legend", {});
  put(bar, [
    compiled && entry("within", "inside a kernel"),
    compiled && entry("crossing", "between kernels: written to memory"),
    entry("outside", "from or to outside"),
    entry("input", "input"),
    entry("quiet", compiled ? "no kernel of its own" : "nothing uses it"),
    entry("result", "result"),
    spread && h("span.entry", {}, h("span.flag", { "aria-hidden": "true" }, "⇄"), "sharding changes, bold: data is sent"),
  ]);
  return bar;
}
