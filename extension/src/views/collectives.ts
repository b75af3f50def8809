/** What the devices say to each other, where shardings change, and how the values lie. */

import { h } from "../ui/dom";
import { figure } from "../ui/layouts";
import { light, reveal, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { listed } from "../model/format";
import { nodeWords } from "../model/words";
import { tableOf } from "./tables";

const DRAWN = 24;

export function collectivesView({ store }: Context): View {
  const { data, relations } = store;
  const words = (id: number): string => {
    const node = relations.nodes.get(id);
    return node ? nodeWords(node) : `node ${id}`;
  };
  const section = (title: string, ...content: (HTMLElement | null)[]) =>
    content.length ? h("section", {}, h("h3.listing-title", {}, title), ...content) : null;
  const moves = data.reshardings.map(({ node, text }) => {
    const place = relations.nodes.get(node)?.place?.label;
    return tag(h("p.moved", {}, `⇄ ${words(node)}${place ? ` (${place})` : ""}: ${text}`), { kind: "node", id: node });
  });
  const ways = data.layouts.slice(0, DRAWN).map((way, i) => {
    const ids = data.tiles.filter(({ layout }) => layout === i).map(({ node }) => node);
    const names = listed([...new Set(ids.map(words))], 3);
    return tag(figure(names, way), { kind: "nodes", ids, key: `way${i}`, title: `lie as ${names}` });
  });
  const left = data.layouts.length - DRAWN;
  if (left > 0) ways.push(h("p", {}, `${left} other ways are not drawn`));
  const element = h(
    "div.scroll.plain",
    { tabindex: 0, role: "region", "aria-label": "collectives and shardings" },
    ...tableOf(data.collectives, "The devices say nothing to each other."),
    section("Where a sharding changes", ...moves),
    ways.length ? section("How values lie", h("div.ways", {}, ...ways)) : null,
    data.shardings.rows.length ? section("Values", ...tableOf(data.shardings, "")) : null,
  );
  return { element: h("div.pane", {}, element), update: () => light(element, store), reveal: () => reveal(element) };
}
