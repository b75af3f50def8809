/** What the user wrote, each line with the kernels that its operations went into. */

import type { BrokenLine, Source, Timelines } from "../model/data";
import { count, seconds } from "../model/format";
import { add, lineKey } from "../model/program";
import { breakable, h } from "../ui/dom";
import { bar, chips, kernelsIn } from "../ui/palette";
import { breakEntry, stripeLegend } from "../ui/legend";
import { isQuiet } from "../graph/sizes";
import { light, reveal, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";

const MOST = 600;

/** The trace breaks of each line, by its source and number: those that nobody asked for. */
function breaksOf({ of }: Timelines): Map<string, BrokenLine[]> {
  const found = new Map<string, BrokenLine[]>();
  for (const row of (of.at(-1)?.rows ?? []).filter(({ asked }) => !asked))
    if (row.place.source !== null) add(found, lineKey(row.place.source, row.place.line), row);
  return found;
}

function diamond(breaks: readonly BrokenLine[]): HTMLElement {
  const said = breaks.map(
    (one) => `trace break ${one.code}: ${one.text}, ${count(one.count, "time")}, ${seconds(one.seconds)}\n${one.hint}`,
  );
  return h("span.flag.break-mark", { role: "img", title: said.join("\n"), "aria-label": said.join("; ") }, "◆");
}

export function sourceView({ store }: Context): View {
  const { data, relations } = store;
  const breaks = breaksOf(data.timelines);
  const element = h("div.source", { role: "region", "aria-label": "source" });

  const line = (source: Source, at: number, text: string): HTMLElement => {
    const number = source.first + at;
    const index = data.sources.indexOf(source);
    const nodes = relations.nodesOfLine.get(lineKey(index, number)) ?? [];
    const clusters = relations.clustersOfLine(index, number);
    const fates = new Set(nodes.map((id) => relations.fates.get(id)?.kind));
    const moves = nodes.flatMap((id) => relations.moves.get(id) ?? []);
    const sent = moves.some((move) => move.sent) ? ".sent" : "";
    const broken = breaks.get(lineKey(index, number));
    const gone = nodes.length && !clusters.length ? ([...fates].filter(isQuiet)[0] ?? "") : "";
    const made = h(
      "div.code-line",
      { style: `--bar:${bar(clusters, relations)}`, title: text.length > 40 ? text : "" },
      h("span.number", {}, number),
      h("span.bars", { "aria-hidden": "true", title: kernelsIn(clusters, relations) || null }),
      h("code.text", {}, ...breakable(text || " ")),
      gone ? h("span.gone", { title: `its operations: ${[...fates].join(", ")}` }, gone) : null,
      moves.length ? h(`span.flag${sent}`, { title: moves.map(({ text }) => text).join("\n") }, "⇄") : null,
      broken ? diamond(broken) : null,
      clusters.length ? chips(clusters, relations, 3) : null,
    );
    return nodes.length ? tag(made, { kind: "line", source: index, line: number }) : made;
  };

  for (const source of data.sources) {
    const title = source.cell !== null ? `Cell ${source.cell}` : source.file.split(/[\\/]/).pop() || "source";
    const code = h("div.code", {}, ...source.lines.slice(0, MOST).map((text, i) => line(source, i, text)));
    if (source.lines.length > MOST) code.append(h("div.muted", {}, `${source.lines.length - MOST} more lines are not shown`));
    element.append(h("section.file", {}, h("h3.file-name", { title: source.file }, title), code));
  }
  const legend = data.sources.length ? stripeLegend(data.clusters) : null;
  if (legend) element.append(legend);
  if (element.querySelector(".lz-break-mark")) (legend ?? element).append(breakEntry());
  if (!data.sources.length) element.append(h("div.empty", {}, "The source of these operations is not known."));
  element.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const lines = [...element.querySelectorAll<HTMLElement>(".lz-code-line.lz-thing")];
    const now = lines.indexOf(document.activeElement as HTMLElement);
    const root = element.getRootNode();
    const at = now >= 0 ? now : root instanceof ShadowRoot ? lines.indexOf(root.activeElement as HTMLElement) : -1;
    if (!step || at < 0) return;
    event.preventDefault();
    lines[at + step]?.focus();
  });
  return { element, update: () => light(element, store), reveal: () => reveal(element) };
}
