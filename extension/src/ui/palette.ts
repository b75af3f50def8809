/** The colours of clusters and the chips that carry them: a colour never stands without its number. */

import type { Cluster } from "../model/data";
import { h } from "./dom";
import type { Relations } from "../model/program";
import { tag } from "./selectable";

/** Okabe and Ito's seven and a grey; then those that are furthest from all before them, to normal and to colour-blind eyes. */
export const PALETTE = [
  "#0072B2",
  "#E69F00",
  "#009E73",
  "#CC79A7",
  "#56B4E9",
  "#D55E00",
  "#F0E442",
  "#6E6E6E",
  "#882211",
  "#663366",
  "#3322CC",
  "#8877FF",
  "#005544",
  "#BBBB88",
] as const;

/** Where the colours are used up they come again with the next of these patterns, in the colour's ink. */
const PATTERNS = 5;
/** Kernels of which each has a look of its own: one of the colours is for loops. */
export const LOOKS = (PALETTE.length - 1) * PATTERNS;

/** How a kernel looks wherever it stands. */
export interface Look {
  colour: string;
  ink: string;
  /** 0 for none. */
  pattern: number;
}

/** The look of a number that Python gave. */
export function look(number: number): Look {
  const colour = PALETTE[number % PALETTE.length] ?? PALETTE[7];
  return { colour, ink: inkOn(colour), pattern: Math.floor(number / PALETTE.length) % PATTERNS };
}

export const lookOf = (cluster: Cluster | undefined): Look => look(cluster?.colour ?? 7);

export const colourOf = (cluster: Cluster | undefined): string => lookOf(cluster).colour;

/** The images of a pattern: "/", "-", a half, "x". */
function hatch({ ink, pattern }: Look): string[] {
  const lines = (angle: number, wide: number) =>
    `repeating-linear-gradient(${angle}deg, ${ink} 0 ${wide}px, transparent ${wide}px 4px)`;
  return [
    [],
    [lines(135, 1.5)],
    [lines(0, 1.5)],
    [`linear-gradient(90deg, transparent 50%, ${ink} 50%)`],
    [lines(45, 1), lines(135, 1)],
  ][pattern] as string[];
}

/** A pattern as a path, where CSS does not reach. */
export function hatchPath(pattern: number, width: number, height: number): string {
  if (pattern === 3) return `M${0.75 * width},0V${height}`;
  let path = "";
  for (let y = 2; y < height; y += 4) {
    const up = Math.max(0, y - width);
    if (pattern === 2) path += `M0,${y}H${width}`;
    else path += `M0,${y}L${y - up},${up}`;
    if (pattern === 4) path += `M${width},${y}L${width - y + up},${up}`;
  }
  return pattern ? path : "";
}

/** What the background of a chip is. */
export function paint(one: Look): string {
  return [...hatch(one).map((image) => `${image} 0 0 / 7px 100% no-repeat`), one.colour].join(", ");
}

/** Ink that can be read on a colour (WCAG relative luminance). */
export function inkOn(colour: string): string {
  const channel = (at: number) => {
    const c = parseInt(colour.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
  return luminance > 0.179 ? "#000" : "#fff";
}

/** "c2" in its look. */
export function chip(id: number, relations: Relations, active = true): HTMLElement {
  const cluster = relations.clusters.get(id);
  const own = lookOf(cluster);
  const element = h(
    `span.chip${own.pattern ? ".hatched" : ""}`,
    {
      style: `background:${paint(own)};color:${own.ink}`,
      title: cluster ? `kernel ${cluster.label}: ${cluster.name}` : `kernel c${id}`,
    },
    relations.kernel(id),
  );
  return active ? tag(element, { kind: "cluster", id }, false) : element;
}

/** At most a few chips, then "+n". */
export function chips(ids: readonly number[], relations: Relations, most = 4, active = true): HTMLElement {
  const shown = ids.length > most ? ids.slice(0, most - 1) : ids;
  const rest = ids.length - shown.length;
  const all = h("span.chips", {}, ...shown.map((id) => chip(id, relations, active)));
  if (rest) all.append(h("span.more", { title: kernelsIn(ids, relations) }, `+${rest}`));
  return all;
}

/** "kernels c0, c1": what a bar stands for. */
export function kernelsIn(ids: readonly number[], relations: Relations): string {
  return ids.length ? `kernel${ids.length > 1 ? "s" : ""} ${ids.map((id) => relations.kernel(id)).join(", ")}` : "";
}

/** Most segments of a bar. */
export const SEGMENTS = 6;

/** A bar at the left of something, one segment a cluster, as a CSS background. */
export function bar(ids: readonly number[], relations: Relations): string {
  return stripe(ids.slice(0, SEGMENTS).map((id) => lookOf(relations.clusters.get(id)))) || "transparent";
}

/** Looks below each other, as a CSS background. */
export function stripe(looks: readonly Look[]): string {
  const last = looks.length - 1;
  return looks
    .flatMap((one, i) => {
      const place = `0 ${last ? (100 * i) / last : 0}% / 100% ${100 / looks.length}% no-repeat`;
      return [...hatch(one), `linear-gradient(${one.colour}, ${one.colour})`].map((image) => `${image} ${place}`);
    })
    .join(", ");
}

/** The fill of what went to a kernel: a tint of its colour, as a declaration of CSS; "" for what went to none. */
export function tint([first]: readonly number[], relations: Relations): string {
  return first === undefined ? "" : `;--tint:${colourOf(relations.clusters.get(first))}`;
}
