/** What the marks in the gutter mean, at the foot of the side panel. */

import { h } from "../ui/dom";
import { PALETTE, look, stripe } from "../ui/palette";
import { diamond } from "./gutter";
import { MOST } from "./marks";
import { DIAMONDS } from "./words";

const bar = (background: string, kind = ""): HTMLElement => h(`span.stripe${kind}`, { style: `--stripe:${background}` });

export function marksLegend(): HTMLElement {
  const entry = (key: Element, words: string) =>
    h("li", {}, h("span.mark-key", { "aria-hidden": "true" }, key), h("span", {}, words));
  return h(
    "details.marks-legend",
    {},
    h("summary", {}, "Marks beside the lines"),
    h(
      "ul",
      {},
      entry(bar(stripe([0, 1].map(look))), `A stripe: the kernels of the line, a colour each, ${MOST} at most.`),
      entry(
        bar(stripe([look(PALETTE.length)])),
        "A pattern: another kernel than the plain colour; it comes where the colours are used up.",
      ),
      entry(bar("none", ".none"), "Dashes: its operations are in no kernel."),
      ...([1, 2, 3] as const).map((weight) => entry(diamond(weight), DIAMONDS[weight])),
    ),
  );
}
