/** What the marks beside the user's lines mean. */

import type { Cluster } from "../model/data";
import { h } from "./dom";
import { LOOKS, PALETTE, SEGMENTS, look, stripe } from "./palette";

/** A key and what it means. */
export const entry = (key: Element, words: string): HTMLElement => h("span.entry", {}, key, words);

const bars = (numbers: number[]): HTMLElement =>
  h("span.key-stripe", { "aria-hidden": "true", style: `background:${stripe(numbers.map(look))}` });

/** Of the stripes, as far as there are any; null without kernels. */
export function stripeLegend(clusters: readonly Cluster[]): HTMLElement | null {
  if (!clusters.length) return null;
  const kernels = clusters.filter(({ kind }) => kind !== "control");
  const patterned = kernels.some(({ colour }) => colour >= PALETTE.length);
  const again = kernels.length > LOOKS;
  return h(
    "div.legend.source-legend",
    { role: "note", "aria-label": "legend of the lines" },
    entry(bars([0, 1]), `the kernels of a line, of ${SEGMENTS} at most; a colour is one kernel${again ? " or a few" : ""}`),
    patterned ? entry(bars([PALETTE.length]), "a pattern: another kernel than the plain colour") : null,
    kernels.length < clusters.length ? entry(bars([7]), "grey: a loop, branch or call around kernels") : null,
    again ? h("span.entry", {}, `Looks come again after ${LOOKS} kernels, never on neighbours: the number tells which.`) : null,
  );
}

/** Of the mark of a trace break. */
export const breakEntry = (): HTMLElement => entry(h("span.break-mark", { "aria-hidden": "true" }, "◆"), "a trace break");
