/** Bars of what the time between trace breaks went to. */

import { h, s } from "../ui/dom";
import { seconds } from "../model/format";

/** In the order of the data. */
export const PARTS = ["recording", "compiling", "running", "waiting", "Python", "analysing"];

const MEANING = [
  "from the first operation of a trace to its end: recording, with the Python between the operations",
  "making programs, or loading them; also those that JAX compiles by itself",
  "handing programs over; one that Python waits for may run meanwhile",
  "until the value was there",
  "the rest: other code",
  "lazynb's analyses, with the programs that only they compile and run, and its displays",
];

export const total = (parts: readonly number[]): number => parts.reduce((sum, one) => sum + one, 0);

/** "compiling 41 ms, running 1.2 ms" */
export const partWords = (parts: readonly number[]): string =>
  PARTS.flatMap((name, i) => ((parts[i] ?? 0) > 0 ? [`${name} ${seconds(parts[i])}`] : [])).join(", ");

/** `whole` seconds are as wide as the bar has room. */
export function bar(parts: readonly number[], whole: number): HTMLElement {
  const words = partWords(parts) || "nothing";
  const pieces = PARTS.map((_, i) => {
    const share = whole > 0 ? (100 * (parts[i] ?? 0)) / whole : 0;
    return share > 0 ? h(`span.part-${i}`, { style: `width:${share.toFixed(3)}%` }) : null;
  });
  return h("div.went", { role: "img", "aria-label": words, title: words }, ...pieces);
}

/** Each part with its colour and its seconds. */
export function legend(parts: readonly number[]): HTMLElement {
  const items = PARTS.map((name, i) =>
    (parts[i] ?? 0) > 0
      ? h(
          "li",
          { title: MEANING[i] ?? "" },
          h(`span.share-key.part-${i}`, { "aria-hidden": "true" }),
          `${name} ${seconds(parts[i])}`,
        )
      : null,
  );
  return h("ul.parts", {}, ...items);
}

/** The stretches of time beside each other, each a column of its parts. */
export function strip(stretches: readonly (readonly number[])[], label: string): SVGElement {
  const paths = PARTS.map(() => "");
  stretches.forEach((parts, x) => {
    const whole = total(parts);
    let top = 0;
    parts.forEach((part, i) => {
      const height = whole > 0 ? part / whole : 0;
      if (height > 0) paths[i] += `M${x},${top.toFixed(4)}h1.02v${height.toFixed(4)}h-1.02z`;
      top += height;
    });
  });
  return s(
    "svg.strip",
    { viewBox: `0 0 ${stretches.length} 1`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    ...paths.map((d, i) => (d ? s(`path.part-${i}`, { d }) : null)),
  );
}
