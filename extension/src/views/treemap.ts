/** What lies in memory at a step of the program, as areas; a slider goes over the steps. */

import { treemapSquarify } from "d3-hierarchy";
import type { Buffer, Memory } from "../model/data";
import { bytes, count, listed } from "../model/format";
import { add, placeWords } from "../model/program";
import type { Store } from "../model/store";
import { fill, h } from "../ui/dom";
import { colourOf } from "../ui/palette";
import { light, tag } from "../ui/selectable";

const SHOWN = 60;
const WIDTH = 1000;
const HEIGHT = 260; // only their ratio matters

export interface Lying {
  buffer: Buffer;
  /** What it takes, without what another that is listed takes already. */
  bytes: number;
  /** In its memory at the same step. */
  with: Buffer[];
}

/** What lies in the device's own memory at a step, the largest first; what lies in the same place counts once. */
export function lyingAt({ buffers }: Memory, step: number): Lying[] {
  const allocations = new Map<number, Buffer[]>();
  for (const buffer of buffers) {
    if (buffer.start > step || buffer.end < step || buffer.kind === "constant" || buffer.space || !buffer.bytes) continue;
    add(allocations, buffer.allocation, buffer);
  }
  const lying: Lying[] = [];
  for (const values of allocations.values()) {
    values.sort((a, b) => a.offset - b.offset || b.bytes - a.bytes);
    let covered = 0;
    let last: Lying | undefined;
    for (const buffer of values) {
      const end = buffer.offset + buffer.bytes;
      const own = end - Math.max(covered, buffer.offset);
      if (own > 0) lying.push((last = { buffer, bytes: own, with: [] }));
      else last?.with.push(buffer);
      covered = Math.max(covered, end);
    }
  }
  return lying.sort((a, b) => b.bytes - a.bytes);
}

/** The user's name, else the line that wrote it, else XLA's name. */
function nameOf({ variables, nodes, name }: Buffer, store: Store): string {
  const node = store.relations.nodes.get(nodes.at(-1) ?? -1);
  return variables[0] ?? (node ? [node.name, placeWords(node.place)].filter(Boolean).join(", ") : name);
}

interface Rectangle {
  value: number;
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

function arranged(sizes: number[]): Rectangle[] {
  const children = sizes.map((value) => ({ value, x0: 0, y0: 0, x1: 0, y1: 0 }));
  const parent = { value: sizes.reduce((sum, one) => sum + one, 0), children };
  if (children.length) treemapSquarify(parent as never, 0, 0, WIDTH, HEIGHT);
  return children;
}

/** As a declaration of CSS. */
const placeOf = ({ x0, y0, x1, y1 }: Rectangle): string =>
  `left:${(100 * x0) / WIDTH}%;top:${(100 * y0) / HEIGHT}%;width:${(100 * (x1 - x0)) / WIDTH}%;height:${(100 * (y1 - y0)) / HEIGHT}%`;

/** `changed` is told which step is shown. */
export function memoryMap(
  memory: Memory,
  store: Store,
  changed: (step: number) => void,
): { element: HTMLElement; go(step: number): void } {
  const last = memory.in_use.length - 1;
  const peak = memory.peak_step ?? 0;
  const words = h("span.map-words", { "aria-live": "polite" });
  const area = h("div.memory-map", { role: "group", "aria-label": "what lies in memory at this step" });
  const slider = h("input.slider", {
    type: "range",
    min: 0,
    max: last,
    value: peak,
    "aria-label": "Step",
    oninput: () => draw(Number(slider.value)),
  });
  const toPeak = h("button.tool", { type: "button", title: "The step at which most is in use", onclick: () => go(peak) }, "Peak");

  function tile({ buffer, bytes: own, with: others }: Lying, place: Rectangle): HTMLElement {
    const cluster = buffer.cluster === null ? undefined : store.relations.clusters.get(buffer.cluster);
    const name = nameOf(buffer, store);
    const colour = cluster ? colourOf(cluster) : null;
    const said = [
      `${name}: ${bytes(own)}`,
      `${buffer.kind === "temp" ? "temporary" : buffer.kind === "output" ? "result" : buffer.kind}${cluster ? `, written by ${cluster.label}` : ""}`,
      name === buffer.name ? "" : buffer.name,
      others.length
        ? `in the same memory: ${listed(
            others.map((one) => nameOf(one, store)),
            4,
          )}`
        : "",
    ]
      .filter(Boolean)
      .join("\n");
    const made = h(
      `div.patch.patch-${buffer.kind}`,
      { style: `${placeOf(place)}${colour ? `;--colour:${colour}` : ""}`, title: said, "aria-label": said },
      h("span.patch-name", {}, name),
      h("span.patch-bytes", {}, bytes(own)),
    );
    return tag(made, { kind: "value", name: buffer.name, nodes: buffer.nodes, cluster: buffer.cluster });
  }

  function draw(step: number): void {
    const lying = lyingAt(memory, step);
    const shown = lying.slice(0, SHOWN);
    const rest = lying.slice(SHOWN);
    const left = rest.reduce((sum, one) => sum + one.bytes, 0);
    const places = arranged([...shown.map((one) => one.bytes), ...(left ? [left] : [])]);
    const tiles = shown.map((one, i) => tile(one, places[i] as Rectangle));
    if (left) {
      const place = placeOf(places[shown.length] as Rectangle);
      const said = `${count(rest.length, "smaller value")}: ${bytes(left)}`;
      tiles.push(h("div.patch.patch-rest", { style: place, title: said }, h("span.patch-name", {}, said)));
    }
    fill(area, ...(tiles.length ? tiles : [h("div.empty.small", {}, "Nothing lies in memory at this step.")]));
    const at = step < memory.steps.length ? memory.steps[step] : "the end";
    const said = `step ${step} of ${last}, ${at}: ${bytes(memory.in_use[step])} in use${step === memory.peak_step ? ", the peak" : ""}`;
    words.textContent = said;
    slider.setAttribute("aria-valuetext", said);
    light(area, store);
    changed(step);
  }

  function go(step: number): void {
    slider.value = String(step);
    draw(Math.min(last, Math.max(0, step)));
  }

  const element = h("div.memory-map-holder", {}, h("div.map-head", {}, slider, toPeak, words), area);
  draw(peak);
  return { element, go };
}
