/** Where the time between trace breaks went: over time, by line, by step; and what each break is. */

import type { BrokenLine, Fixed, Table, Timeline, Timelines } from "../model/data";
import { count, seconds } from "../model/format";
import { type Store } from "../model/store";
import { fill, h, prose } from "../ui/dom";
import { goTo } from "../ui/going";
import { light, reveal } from "../ui/selectable";
import type { View } from "../ui/view";
import { bar, legend, partWords, strip, total } from "./parts";
import { tableView } from "./tables";

/** `table` is shown where nothing is known of the time. Without a `store`, nothing is lit. `first`: the timeline that is shown first. */
export function timelineView(
  given: Timelines,
  table: Table,
  empty: string,
  store?: Store,
  first?: string,
): View & { name(): string } {
  if (!given.of.length) return { ...tableView(table, empty, "trace breaks"), name: () => "" };
  let shown = given.of.find(({ name }) => name === first) ?? (given.of[0] as Timeline);
  const body = h("div.scroll.timeline", { tabindex: 0, role: "region", "aria-label": "trace breaks" });
  const update = () => store && light(body, store);
  const choices = given.of.map((one) => h("button.segment", { type: "button", onclick: () => show(one) }, one.name));
  const segments = h("div.segments", { role: "group", "aria-label": "Of what", hidden: given.of.length < 2 }, ...choices);
  function show(one: Timeline): void {
    shown = one;
    choices.forEach((choice, i) => choice.setAttribute("aria-pressed", String(given.of[i] === one)));
    fill(body, ...contentOf(one, given, segments));
    update();
  }
  show(shown);
  return {
    element: h("div.pane", {}, body),
    name: () => shown.name,
    update,
    reveal: () => reveal(body),
  };
}

function contentOf(timeline: Timeline, given: Timelines, segments: HTMLElement): HTMLElement[] {
  const { rows, after, rest, parts, notes } = timeline;
  const longest = Math.max(after, ...rows.map((row) => total(row.parts)));
  const head = h(
    "div.timeline-head",
    {},
    segments,
    h("b", {}, `${seconds(timeline.seconds)} in ${timeline.title}`),
    legend(parts),
    strip(timeline.strip, `over time: ${partWords(parts)}`),
  );
  const body = h("tbody", { role: "rowgroup" }, ...rows.map((row) => rowOf(row, longest, given)));
  if (after > 0) {
    const time = h("td.spent", { role: "cell" }, bar(rest, longest), h("span.muted", {}, seconds(after)));
    body.append(
      h("tr", { role: "row" }, h("td", { role: "cell" }), h("td.muted", { role: "cell" }, "after the last break"), time),
    );
  }
  const names = ["code", "line", "time of its steps"].map((name) => h("th", { role: "columnheader" }, name));
  const table = h(
    "table.table.broken",
    { role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...names)),
    body,
  );
  return [head, table, fixedOf(timeline.fixed), ...notes.map((note) => h("p.table-words.muted", {}, note))].filter(
    (one) => one !== null,
  );
}

/** What a line's steps took, in a row; its code opens what is known of it below. */
function rowOf(row: BrokenLine, longest: number, given: Timelines): HTMLElement {
  let details: HTMLElement | null = null;
  const toggle = () => {
    if (details) details.remove();
    details = details ? null : h("tr.opened", { role: "row" }, h("td", { role: "cell", colspan: 3 }, ...detailsOf(row, given)));
    if (details) made.after(details);
    code.setAttribute("aria-expanded", String(details !== null));
  };
  const code = h(
    "button.break-code",
    { type: "button", "aria-expanded": "false", title: `What ${row.code} is, and what to write instead`, onclick: toggle },
    row.code,
  );
  const nearest = row.callers[0]?.places[0];
  const where = h(
    "td.broke",
    { role: "cell" },
    goTo(row.place, h("span.muted", {}, row.place.label), " ", h("code", {}, row.place.text)),
    h(
      "div.muted",
      {},
      ...prose(row.text),
      row.library ? ` (${row.library})` : null,
      nearest ? ` · called from ${nearest.label}${row.callers.length > 1 ? ` and ${row.callers.length - 1} more` : ""}` : null,
      row.gone === null ? null : h("span.badge.fixed", {}, `gone since run ${row.gone}`),
    ),
  );
  const time = h("td.spent", { role: "cell" }, bar(row.parts, longest), h("span.muted", {}, timesOf(row)));
  const made = h("tr", { role: "row" }, h("td", { role: "cell" }, code), where, time);
  return made;
}

/** "1,000 × · 52.3 ms · median 49 µs · first 12 ms" */
function timesOf({ count: n, parts, median, first }: BrokenLine): string {
  const said = [`${n.toLocaleString("en")} ×`, seconds(total(parts))];
  if (n > 1) said.push(`median ${seconds(median)}`, `first ${seconds(first)}`);
  return said.join(" · ");
}

function detailsOf(row: BrokenLine, given: Timelines): HTMLElement[] {
  const help = given.help.find(({ kind }) => kind === row.kind);
  const longest = Math.max(0, ...row.steps.map(total));
  const figures = [
    `${seconds(row.seconds)} until Python could go on`,
    row.operations ? `${count(row.operations, "operation")} ran` : "",
    row.compiles ? count(row.compiles, "compilation") : "",
  ];
  const made: HTMLElement[] = [
    h("p", {}, h("b", {}, `${row.code} ${row.kind}`), ": ", ...prose(help?.text ?? row.text), "."),
    h("p", {}, "Instead: ", ...prose(row.hint), "."),
    h("p.muted", {}, `${figures.filter(Boolean).join(" · ")} · ${partWords(row.parts)}`),
  ];
  if (row.callers.length) made.push(h("p", {}, h("b", {}, "Called from")), h("ul.stacks", {}, ...row.callers.map(caller)));
  if (row.steps.length > 1) {
    const named = row.steps.length < row.count ? `The first ${row.steps.length} of ${count(row.count, "step")}` : "Its steps";
    const steps = row.steps.map((parts) => h("li", {}, bar(parts, longest), h("span.muted", {}, seconds(total(parts)))));
    made.push(h("p", {}, h("b", {}, named)), h("ol.turns", {}, ...steps));
  }
  const programs = (help?.programs ?? []).map(([title, text]) => h("div", {}, h("div.muted", {}, title), h("pre", {}, text)));
  made.push(h("div.examples", {}, ...programs));
  return made;
}

function caller({ places, count: n, seconds: took }: BrokenLine["callers"][number]): HTMLElement {
  const way = places.flatMap((place, i) => [
    i ? " ← " : "",
    goTo(place, h("span.muted", {}, place.label), " ", h("code", {}, place.text)),
  ]);
  return h(
    "li",
    {},
    ...(way.length ? way : ["nowhere: it is the outermost line"]),
    h("span.muted", {}, ` ${n.toLocaleString("en")} × · ${seconds(took)}`),
  );
}

function fixedOf(fixed: readonly Fixed[]): HTMLElement | null {
  if (!fixed.length) return null;
  const items = fixed.map(({ code, place, since }) =>
    h(
      "li",
      {},
      h("b", {}, code),
      " ",
      goTo(place, place.label, " ", h("code", {}, place.text)),
      h("span.muted", {}, ` gone since run ${since}`),
    ),
  );
  return h("section.fixed-list", {}, h("b", {}, "Fixed: did not come again when the cell ran anew"), h("ul", {}, ...items));
}
