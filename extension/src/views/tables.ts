/** Plain tables that Python made: what the cache did, where traces broke. */

import type { LineReference, Table } from "../model/data";
import { count } from "../model/format";
import { h, prose } from "../ui/dom";
import { goTo } from "../ui/going";
import { tag } from "../ui/selectable";
import type { View } from "../ui/view";

const PAGE = 200;
const LINES = ["line", "last line"]; // columns in which the row's line stands

export function tableView(table: Table, empty: string, label: string): View {
  return {
    element: h(
      "div.pane",
      {},
      h("div.scroll.plain", { tabindex: 0, role: "region", "aria-label": label }, ...tableOf(table, empty)),
    ),
  };
}

/** A table with what is said of it; its rows stand for the nodes that they are about. */
export function tableOf(table: Table, empty: string): HTMLElement[] {
  // Where the columns find no room, CSS puts them below each other, each with its name: the roles stay what they are.
  const cell = (text: string, i: number, place: LineReference | null) => {
    const column = table.columns[i] ?? "";
    const words = place && text && LINES.includes(column) ? goTo(place, ...prose(text)) : null;
    return h(
      "td",
      { role: "cell", title: text.length > 60 ? text : null, "data-column": column },
      words ?? (text ? h("span", {}, ...prose(text)) : null),
    );
  };
  const body = h("tbody", { role: "rowgroup" });
  let shown = 0;
  const more = h("button.more-button", { type: "button" });
  const extend = () => {
    for (const [i, row] of table.rows.slice(shown, shown + PAGE).entries()) {
      const place = table.places[shown + i] ?? null;
      const made = h("tr", { role: "row" }, ...row.map((text, column) => cell(text, column, place)));
      const ids = table.nodes[shown + i];
      body.append(ids?.length ? tag(made, { kind: "nodes", ids, key: row.join("|"), title: row[0] ?? "" }) : made);
    }
    shown = Math.min(table.rows.length, shown + PAGE);
    more.hidden = shown >= table.rows.length;
    more.textContent = `Show more of ${count(table.rows.length - shown, "row")}`;
  };
  more.addEventListener("click", extend);
  extend();
  const names = table.columns.map((column) => h("th", { role: "columnheader" }, column));
  const head = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...names));
  const content = table.rows.length
    ? [h("table.table", { role: "table" }, head, body), more]
    : [h("div.empty", {}, table.text || empty)];
  const words = table.rows.length && table.text ? h("p.table-words", {}, table.text) : null;
  return words ? [words, ...content] : content;
}
