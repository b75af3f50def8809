/** What became of every operation, one row each. */

import type { Fate, Label, Node } from "../model/data";
import { h, plain, prose } from "../ui/dom";
import { count } from "../model/format";
import { bar, chips } from "../ui/palette";
import { placeTitle, placeWords } from "../model/program";
import { lit } from "../model/selection";
import { isQuiet } from "../graph/sizes";
import { light, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { Rows } from "../ui/virtual";
import { nodeWords, shortAval } from "../model/words";

const SHORT: Record<Label, string> = {
  "compiler said": "said",
  "rule inferred": "inferred",
  "verified by recompiling": "verified",
  "lazynb decided": "decided",
  "absent in the first pass": "absent",
  "not known": "unknown",
};

/** How a statement is known; `short` where many stand below each other. */
export function badge(label: Label, short = false): HTMLElement {
  const brief = SHORT[label] ?? "unknown";
  return h(`span.badge.badge-${brief}`, { title: label }, short ? brief : label);
}

export function fatesTable({ store, signal }: Context): View {
  const { data, relations } = store;
  const operations = data.nodes.filter((node) => node.kind === "op");
  const haystacks = new Map<number, string>();
  const haystack = (node: Node): string => {
    const known = haystacks.get(node.id);
    if (known !== undefined) return known;
    const fate = relations.fates.get(node.id);
    const made = [
      node.primitive,
      node.name,
      ...node.names,
      placeWords(node.place),
      node.place?.text,
      fate?.kind,
      fate?.text,
      ...(fate?.clusters ?? []).map((id) => relations.kernel(id)),
    ]
      .join(" ")
      .toLowerCase();
    haystacks.set(node.id, made);
    return made;
  };
  let listed = operations;

  const row = (i: number): HTMLElement => {
    const node = listed[i] as Node;
    const fate: Fate | undefined = relations.fates.get(node.id);
    const clusters = fate?.clusters ?? [];
    const made = h(
      `div.row.fate${isQuiet(fate?.kind) ? ".quiet" : ""}`,
      { style: `--bar:${bar(clusters, relations)}` },
      h("span.id", {}, `#${node.id}`),
      h("span.name", { title: nodeWords(node) }, nodeWords(node)),
      h("span.where", { title: placeTitle(node.place) }, placeWords(node.place)),
      chips(clusters, relations, 3),
      fate ? badge(fate.label, true) : h("span", {}),
      h(
        "span.text",
        { title: plain(fate?.text ?? "") },
        ...prose(
          fate ? fate.text || fate.kind : data.programs.length ? "no fate was sent" : node.avals.map(shortAval).join(", "),
        ),
      ),
    );
    return tag(made, { kind: "node", id: node.id }, false);
  };
  const rows = new Rows((width) => (width > 480 ? 46 : 98), row, {
    label: "operations and what became of them",
    drawn: () => light(rows.element, store),
    preview: (i) => store.hover({ kind: "node", id: (listed[i] as Node).id }),
    activate: (i) => store.click({ kind: "node", id: (listed[i] as Node).id }),
  });

  const kinds = [...new Set(data.fates.map((fate) => fate.kind))];
  const kind = h(
    "select.select",
    { "aria-label": "Only this fate" },
    h("option", { value: "" }, "every fate"),
    ...kinds.map((one) => h("option", { value: one }, `${one} (${data.fates.filter((fate) => fate.kind === one).length})`)),
  );
  const input = h("input.search", { type: "search", placeholder: "Filter operations  /", "aria-label": "Filter operations" });
  const note = h("span.muted", { role: "status" });
  const filter = () => {
    const text = input.value.trim().toLowerCase();
    listed = operations.filter(
      (node) => (!kind.value || relations.fates.get(node.id)?.kind === kind.value) && (!text || haystack(node).includes(text)),
    );
    note.textContent =
      listed.length === operations.length
        ? count(listed.length, "operation")
        : `${listed.length.toLocaleString("en")} of ${count(operations.length, "operation")}`;
    rows.element.scrollTop = 0;
    rows.set(listed.length);
  };
  input.addEventListener("input", filter, { signal });
  kind.addEventListener("change", filter, { signal });
  filter();

  const empty = operations.length ? null : h("div.empty", {}, "No operation was recorded.");
  const element = h("div.fates", {}, h("div.toolbar.sub", {}, input, kind, note), empty ?? rows.element);
  return {
    element,
    update: () => light(rows.element, store),
    shown: () => rows.draw(true),
    reveal: () => {
      const first = listed.findIndex((node) => lit({ kind: "node", id: node.id }, store.highlights));
      if (first >= 0 && !listed.some((node, i) => rows.sees(i) && store.highlights.nodes.has(node.id))) rows.show(first);
    },
    search: () => input.focus(),
    dispose: () => rows.dispose(),
  };
}
