/** What compiling a program took: XLA's stages, its passes, and what each line gave it to do. */

import type { CompileTimes, LineTime, PassTime } from "../model/data";
import { count, figure, seconds } from "../model/format";
import { times as words } from "../model/words";
import { h } from "../ui/dom";
import { tag } from "../ui/selectable";

interface Row {
  cells: (string | number)[];
  seconds: number | null;
  soft?: boolean;
  line?: LineTime;
}

/** A table with a bar for the seconds of each row, which stand in the second column. */
function table(title: string, head: string[], rows: Row[]): HTMLElement {
  const most = Math.max(0, ...rows.map((row) => row.seconds ?? 0));
  const draw = (row: Row): HTMLElement => {
    const [name, ...others] = row.cells;
    const width = most && row.seconds ? (100 * row.seconds) / most : 0;
    const bar = h("span.time-bar", { style: `width:${width.toFixed(1)}%`, "aria-hidden": "true" });
    const made = h(
      `tr${row.soft ? ".muted" : ""}`,
      {},
      h("td.time-name", { role: "rowheader", title: String(name) }, name),
      h("td", {}, h("div.time", {}, h("span.time-track", {}, bar), h("span.time-figure", {}, seconds(row.seconds)))),
      ...others.map((cell) => h("td.figure", {}, cell)),
    );
    const place = row.line?.place;
    return place && place.source !== null ? tag(made, { kind: "line", source: place.source, line: place.line }) : made;
  };
  return h(
    "section.times-part",
    {},
    h("h3", {}, title),
    h(
      "table.table.spans",
      {},
      h("thead", {}, h("tr", {}, ...head.map((name, i) => h(i > 1 ? "th.figure" : "th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows.map(draw)),
    ),
  );
}

function passRows({ passes, others, checking, writing }: CompileTimes): Row[] {
  const row = (one: PassTime): Row => ({
    cells: [one.name || "all other passes", figure(one.runs), figure(one.changed)],
    seconds: one.seconds,
    soft: !one.name,
  });
  const rest: [string, number | null][] = [
    ["checking the module between passes", checking],
    ["writing it down, for this view (inferred)", writing],
  ];
  return [
    ...passes.map(row),
    ...(others ? [row(others)] : []),
    ...rest.filter(([, time]) => time !== null).map(([name, time]) => ({ cells: [name, "", ""], seconds: time, soft: true })),
  ];
}

function lineRow(line: LineTime): Row {
  const { place, operations, before, after, compiled, lowering, seconds: time } = line;
  const name = place ? `${place.label}: ${place.text}` : "no line";
  const instructions = `${before === null ? "?" : figure(before)} → ${figure(after)}`;
  return { cells: [name, figure(operations), instructions, figure(compiled), seconds(lowering)], seconds: time, line };
}

export function timesPane(times: CompileTimes | null): HTMLElement {
  const parts: HTMLElement[] = [];
  if (times?.stages.length) {
    const rows = times.stages.map(([name, time]) => ({ cells: [name], seconds: time }));
    parts.push(table("XLA's stages, one after the other", ["stage", "time"], rows));
  }
  if (times?.passes.length) parts.push(table("Passes, all runs together", ["pass", "time", "runs", "changed"], passRows(times)));
  if (times?.lines.length) {
    const head = ["line", "time, inferred", "operations", "HLO before → after", "kernels", "MLIR, by XLA"];
    const lines = table("What your lines gave the compiler to do", head, times.lines.map(lineRow));
    const left = times.lines_left ? `${count(times.lines_left, "other line")} took less. ` : "";
    lines.append(h("p.muted", {}, `${left}${times.inferred ? `XLA's time by line is ${times.inferred}.` : ""}`));
    parts.push(lines);
  }
  return h(
    "div.scroll.times-pane",
    { tabindex: 0, role: "region", "aria-label": "what compiling took" },
    h("p", {}, words(times)),
    ...parts,
  );
}
