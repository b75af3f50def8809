/** The colours of clusters and the chips that carry them: a colour never stands without its number. */

import type { Cluster } from "../model/data";
import { h } from "./dom";
import type { Relations } from "../model/program";
import { tag } from "./selectable";

/** Okabe and Ito's seven and a grey; then those that are furthest from all before them, also for colour-blind eyes
    (glasbey 0.4, colorblind_safe). */
export const PALETTE = [
  "#0072B2",
  "#E69F00",
  "#009E73",
  "#CC79A7",
  "#56B4E9",
  "#D55E00",
  "#F0E442",
  "#8C8C8C",
  "#315200",
  "#840063",
  "#1010FF",
  "#FFADE6",
  "#E610D6",
  "#088421",
  "#52E6AD",
  "#086B5A",
  "#730094",
  "#4ABD63",
  "#9C5284",
  "#6B10F7",
  "#4A8CFF",
  "#00CEBD",
] as const;

export function colourOf(cluster: Cluster | undefined): string {
  return PALETTE[(cluster?.colour ?? 7) % PALETTE.length] ?? PALETTE[7];
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

/** "c2" on its colour. */
export function chip(id: number, relations: Relations, active = true): HTMLElement {
  const cluster = relations.clusters.get(id);
  const colour = colourOf(cluster);
  const element = h(
    "span.chip",
    {
      style: `background:${colour};color:${inkOn(colour)}`,
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
  if (rest) all.append(h("span.more", { title: ids.map((id) => relations.kernel(id)).join(" ") }, `+${rest}`));
  return all;
}

/** A bar at the left of something, one segment a cluster, as a CSS background. */
export function bar(ids: readonly number[], relations: Relations): string {
  if (!ids.length) return "transparent";
  const colours = ids.slice(0, 6).map((id) => colourOf(relations.clusters.get(id)));
  const step = 100 / colours.length;
  return `linear-gradient(to bottom, ${colours.map((c, i) => `${c} ${i * step}% ${(i + 1) * step}%`).join(", ")})`;
}

/** The fill of what went to a kernel: a tint of its colour, as a declaration of CSS; "" for what went to none. */
export function tint([first]: readonly number[], relations: Relations): string {
  return first === undefined ? "" : `;--tint:${colourOf(relations.clusters.get(first))}`;
}
