/** How values lie on several devices: a drawing of each part in the colour of its devices. */

import type { Layout } from "../model/data";
import { listed } from "../model/format";
import { add } from "../model/program";
import type { Store } from "../model/store";
import { nodeWords } from "../model/words";
import { fill, h } from "./dom";

const MOST = 3;

/** A way to lie in words and as a picture; `names`: what lies so. */
export function figure(names: string, { text, cells }: Layout): HTMLElement {
  const rows = cells.map((row) =>
    h("tr", {}, ...row.map(([devices, colour]) => h("td", { style: `background:${colour}` }, devices))),
  );
  return h(
    "figure.way",
    {},
    h("figcaption", {}, h("b", {}, names), " ", text),
    rows.length ? h("table", { role: "img", "aria-label": text }, h("tbody", {}, ...rows)) : null,
  );
}

/** How what is pointed at lies, and what it reads where that lies otherwise; `element` is hidden where nothing is known. */
export function lyingCard(store: Store): { element: HTMLElement; update(): void } {
  const element = h("aside.lying", { hidden: true, "aria-label": "how it lies on the devices" });
  const { nodes, moves, waysOf } = store.relations;

  /** The nodes by the way in which they lie. */
  const ways = (ids: Iterable<number>): Map<Layout, string[]> => {
    const found = new Map<Layout, string[]>();
    for (const id of ids) {
      const node = nodes.get(id);
      for (const way of waysOf.get(id) ?? []) if (node) add(found, way, nodeWords(node));
    }
    return found;
  };
  const figures = (found: Map<Layout, string[]>, before = "") =>
    [...found].slice(0, MOST).map(([way, names]) => figure(`${before}${listed([...new Set(names)], 3)}`, way));

  const update = () => {
    const ids = store.shown ? [...store.highlights.nodes] : [];
    const own = ways(ids);
    const moved = ids.filter((id) => moves.has(id));
    const read = ways(moved.flatMap((id) => nodes.get(id)?.operands.map(([operand]) => operand) ?? []));
    for (const way of own.keys()) read.delete(way);
    element.hidden = !own.size && !moved.length;
    const more = own.size - MOST;
    fill(
      element,
      ...moved.slice(0, MOST).map((id) => h("p.moved", {}, `⇄ ${moves.get(id)?.text}`)),
      ...figures(read, "reads "),
      ...figures(own),
      more > 0 ? h("p", {}, `and ${more} other ways`) : null,
    );
  };
  return { element, update };
}
