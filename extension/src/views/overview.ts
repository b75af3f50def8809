/** The whole graph in small, with a frame around what is in sight: beside the graph where that does not fit, so that it hides nothing. */

import { FRAME, type Item, type Scene } from "../graph/scene";
import type { Store } from "../model/store";
import { s } from "../ui/dom";

const WIDEST = 150;
/** Shares of the width and of the height of the canvas and it together. */
const ACROSS = 0.25;
const TALLEST = 0.8;
/** Of both together; in less, the graph needs all of it. */
const NARROWEST = 360;
/** How far an arrow moves, in parts of what is in sight. */
const STEP = 0.25;

interface Corner {
  x: number;
  y: number;
}

export interface Overview {
  readonly element: SVGElement;
  /** Other boxes, or another size of the canvas. */
  draw(scene: Scene): void;
  /** Another part in sight, or another scale. */
  follow(): void;
  /** Something else is lit. */
  light(): void;
}

/** All boxes of a scene, where they lie in the whole. */
function everyItem(scene: Scene, x = 0, y = 0): [Item, Corner][] {
  return scene.items.flatMap((item): [Item, Corner][] => {
    const at = { x: x + item.x, y: y + item.y };
    return [[item, at], ...(item.inner ? everyItem(item.inner, at.x + FRAME.side, at.y + FRAME.top) : [])];
  });
}

const path = (boxes: [Item, Corner][]): string =>
  boxes.map(([{ width, height }, { x, y }]) => `M${x | 0},${y | 0}h${width | 0}v${height | 0}h${-width | 0}z`).join("");

export function overview(canvas: HTMLElement, store: Store, signal: AbortSignal): Overview {
  const shapes = { frames: s("path.map-frame"), boxes: s("path.map-box"), results: s("path.map-result"), lit: s("path.map-lit") };
  const sight = s("rect.map-sight", { rx: 2 });
  const element = s(
    "svg.overview",
    { tabindex: 0, role: "slider", "aria-label": "overview: which part of the graph is in sight", hidden: true },
    ...Object.values(shapes),
    sight,
  );
  let items: [Item, Corner][] = [];
  let size = { width: 0, height: 0 };

  /** What is in sight, in the scene's measure. */
  const view = () => {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = canvas;
    const scale = parseFloat((canvas.firstElementChild as HTMLElement).style.width) / size.width || 1;
    return {
      scale,
      x: scrollLeft / scale,
      y: scrollTop / scale,
      width: Math.min(size.width, clientWidth / scale),
      height: Math.min(size.height, clientHeight / scale),
    };
  };

  const follow = () => {
    const { x, y, width, height } = view();
    const fits = width > size.width - 4 && height > size.height - 4;
    const isNarrow = (canvas.parentElement ?? canvas).clientWidth < NARROWEST;
    element.toggleAttribute("hidden", fits || isNarrow);
    if (fits || isNarrow) return;
    for (const [name, value] of Object.entries({ x, y, width, height })) sight.setAttribute(name, value.toFixed(0));
    const percent = (part: number, whole: number) => Math.round((100 * part) / Math.max(whole, 1));
    element.setAttribute("aria-valuenow", String(percent(y, Math.max(1, size.height - height))));
    element.setAttribute(
      "aria-valuetext",
      `${percent(y, size.height)} to ${percent(y + height, size.height)} % of the height, ` +
        `${percent(x, size.width)} to ${percent(x + width, size.width)} % of the width`,
    );
  };
  const light = () => {
    const { nodes } = store.highlights;
    shapes.lit.setAttribute(
      "d",
      nodes.size ? path(items.filter(([{ part, inner }]) => !inner && part.nodes.some(({ id }) => nodes.has(id)))) : "",
    );
  };
  const draw = (scene: Scene) => {
    size = scene;
    items = everyItem(scene);
    const { clientWidth, clientHeight } = canvas.parentElement ?? canvas;
    const wide = Math.min(WIDEST, ACROSS * clientWidth || WIDEST);
    const small = Math.min(wide / Math.max(scene.width, 1), (TALLEST * clientHeight || WIDEST) / Math.max(scene.height, 1));
    element.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
    element.setAttribute("width", String(Math.max(24, Math.round(scene.width * small))));
    element.setAttribute("height", String(Math.max(24, Math.round(scene.height * small))));
    const isResult = ({ part }: Item) => part.nodes.some(({ output }) => output);
    shapes.frames.setAttribute("d", path(items.filter(([{ inner }]) => inner)));
    shapes.boxes.setAttribute("d", path(items.filter(([item]) => !item.inner && !isResult(item))));
    shapes.results.setAttribute("d", path(items.filter(([item]) => !item.inner && isResult(item))));
    light();
    follow();
  };

  /** Brings a point of the scene to the middle. */
  const centre = ({ x, y }: Corner) => {
    const { scale } = view();
    canvas.scrollLeft = x * scale - canvas.clientWidth / 2;
    canvas.scrollTop = y * scale - canvas.clientHeight / 2;
  };
  /** How far from the middle of the frame it was taken hold of. */
  let held: Corner | null = null;
  const at = (event: PointerEvent): Corner => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return { x: ((event.clientX - left) * size.width) / width, y: ((event.clientY - top) * size.height) / height };
  };
  const on = <K extends keyof SVGElementEventMap>(type: K, act: (event: SVGElementEventMap[K]) => void) =>
    element.addEventListener(type, act, { signal });
  on("pointerdown", (event) => {
    const { x, y, width, height } = view();
    const point = at(event);
    const middle = { x: x + width / 2, y: y + height / 2 };
    const inFrame = Math.abs(point.x - middle.x) <= width / 2 && Math.abs(point.y - middle.y) <= height / 2;
    held = inFrame ? { x: point.x - middle.x, y: point.y - middle.y } : { x: 0, y: 0 };
    element.setPointerCapture(event.pointerId);
    if (!inFrame) centre(point);
  });
  on("pointermove", (event) => {
    if (!held) return;
    const point = at(event);
    centre({ x: point.x - held.x, y: point.y - held.y });
  });
  on("pointerup", () => (held = null));
  on("pointercancel", () => (held = null));
  on("keydown", (event) => {
    const { clientWidth, clientHeight } = canvas;
    const by = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] }[event.key];
    const page = { PageUp: -1, PageDown: 1 }[event.key];
    if (by) canvas.scrollBy((by[0] ?? 0) * clientWidth, (by[1] ?? 0) * clientHeight);
    else if (page) canvas.scrollBy(0, page * clientHeight);
    else if (event.key === "Home") canvas.scrollTo(0, 0);
    else if (event.key === "End") canvas.scrollTo(0, canvas.scrollHeight);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  canvas.addEventListener("scroll", follow, { signal, passive: true });
  return { element, draw, follow, light };
}
