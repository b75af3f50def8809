/** What the kernels of each line cost: each kernel on the line that most of it was written on, as often as it runs. */

import type { Cluster } from "../model/data";
import { bytes, figure, seconds } from "../model/format";
import { add, kernelsOf, placeWords } from "../model/program";
import { type Figure, allExecutions, sum } from "../model/rates";
import type { Store } from "../model/store";
import { h } from "../ui/dom";
import { chips } from "../ui/palette";
import { tag } from "../ui/selectable";

const SHOWN = 100;

const cost = (kernels: readonly Cluster[], name: Figure): number | null => sum(kernels, (kernel) => allExecutions(name, kernel));

/** Nothing where there is one line alone. */
export function lineCosts(clusters: readonly Cluster[], store: Store): HTMLElement | null {
  const lines = new Map<string, Cluster[]>();
  for (const one of kernelsOf(clusters)) if (one.place) add(lines, `${one.place.source} ${placeWords(one.place)}`, one);
  if (lines.size < 2) return null;
  const special = clusters.some(({ cost }) => cost?.transcendentals);
  const timed = clusters.some(({ time }) => time);
  const row = (kernels: Cluster[]) => {
    const place = kernels[0]!.place!;
    const made = h(
      "tr",
      {},
      h("td", {}, h("div", {}, placeWords(place)), h("code.muted", {}, place.text)),
      h(
        "td",
        {},
        chips(
          kernels.map(({ id }) => id),
          store.relations,
          4,
          false,
        ),
      ),
      h("td.figure", {}, figure(cost(kernels, "flops"))),
      special ? h("td.figure", {}, figure(cost(kernels, "transcendentals"))) : null,
      h("td.figure", {}, bytes(cost(kernels, "bytes"))),
      timed ? h("td.figure", {}, seconds(sum(kernels, ({ time }) => time?.median))) : null,
    );
    return place.source === null ? made : tag(made, { kind: "line", source: place.source, line: place.line });
  };
  const head = ["Line", "Kernels", "FLOPs", special && "Transc.", "Bytes", timed && "Time"].filter((title) => title !== false);
  const left = lines.size - SHOWN;
  return h(
    "details.by-line",
    { open: true },
    h("summary", {}, "By line: each kernel on the line that most of it was written on, as often as it runs"),
    h(
      "table.table.line-costs",
      {},
      h("thead", {}, h("tr", {}, ...head.map((title, i) => h(i < 2 ? "th" : "th.figure", {}, title)))),
      h("tbody", {}, ...[...lines.values()].slice(0, SHOWN).map(row)),
    ),
    left > 0 ? h("p.muted", {}, `${left.toLocaleString("en")} more lines`) : null,
  );
}
