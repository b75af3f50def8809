/** Draws a scene: boxes as HTML (they clip their text), arrows as SVG behind them. */

import type { Group, Node } from "../model/data";
import { h, plain, prose, s } from "../ui/dom";
import { listed } from "../model/format";
import { type Part, contentsOf, keptAs, linesOf, titleOf } from "../graph/parts";
import { curve } from "../graph/layout";
import { bar, chips, kernelsIn, tint } from "../ui/palette";
import { type Relations, placeWords } from "../model/program";
import { FRAME, type Item, type Scene, type Wire } from "../graph/scene";
import { isQuiet } from "../graph/sizes";
import type { Store } from "../model/store";
import { tag, thingAt } from "../ui/selectable";
import { nodeTitle, nodeWords, shortAval } from "../model/words";

export function drawScene(scene: Scene, store: Store, toggle: (key: string) => void): HTMLElement {
  const wires = s(
    "svg.wires",
    { width: scene.width, height: scene.height, "aria-hidden": "true" },
    ...scene.wires.flatMap((one) => wire(one, store.relations)),
    ...scene.items.flatMap(stubs),
  );
  const drawn = h("div.layer", { style: `width:${scene.width}px;height:${scene.height}px` }, wires);
  for (const item of scene.items) drawn.append(box(item, store, toggle));
  return drawn;
}

/** Which kernels a boundary is between, and why it is there as far as it is known now. */
function crossingWords(id: number, relations: Relations): string {
  const boundary = relations.boundaries.get(id);
  if (!boundary) return "";
  return `${relations.kernel(boundary.producer)} → ${relations.consumer(boundary)}: ${plain(boundary.text)} (${boundary.label})`;
}

/** Writes the reasons anew that became known after a drawing was made. */
export function retell(drawn: Element, relations: Relations): void {
  for (const title of drawn.querySelectorAll(".lz-wire.lz-thing title")) {
    const thing = thingAt(title);
    if (thing?.kind === "boundary") title.textContent = crossingWords(thing.id, relations);
  }
}

function wire({ points, crossing, boundary, values }: Wire, relations: Relations): SVGElement[] {
  const end = points[points.length - 1];
  const last = points[points.length - 2] ?? end;
  if (!end || !last) return [];
  const kind = crossing ? "crossing" : "within";
  const group = s(`g.wire.${kind}`, {});
  const way = curve(points);
  const title = s("title", {}, boundary ? crossingWords(boundary.id, relations) : values > 1 ? `${values} values` : "");
  group.append(s("path.hit", { d: way }, title), s("path.line", { d: way }), head(last, end));
  return [boundary ? tag(group, { kind: "boundary", id: boundary.id }, false) : group];
}

/** An arrow's head, turned along the last piece of the way. */
function head(from: { x: number; y: number }, to: { x: number; y: number }): SVGElement {
  const turn = (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI;
  return s("path.tip", {
    d: "M0,0L-7,-3.4L-7,3.4Z",
    transform: `translate(${to.x.toFixed(1)},${to.y.toFixed(1)}) rotate(${turn.toFixed(0)})`,
  });
}

/** Short dotted ends where values come from, or go to, outside of an open group. */
function stubs({ x, y, width, height, entering, leaving }: Item): SVGElement[] {
  const at = x + width - 14;
  return [
    ...(entering ? [s("path.stub", { d: `M${at},${y - 13}V${y - 2}` })] : []),
    ...(leaving ? [s("path.stub", { d: `M${at},${y + height + 2}V${y + height + 13}` })] : []),
  ];
}

function box(item: Item, store: Store, toggle: (key: string) => void): HTMLElement {
  const { part, inner, x, y, width, height, foot } = item;
  const made = inner
    ? frame(part, inner, store, toggle)
    : part.group
      ? group(part, part.group, item.statement, store, toggle)
      : single(part.nodes[0] as Node, item, store);
  made.style.cssText += `;left:${x}px;top:${y}px;width:${width}px;height:${height}px;--foot:${foot}px`;
  made.setAttribute("data-part", part.key);
  return made;
}

function clustersOf(part: Part, store: Store): number[] {
  const found = new Set<number>();
  for (const node of part.nodes) for (const id of store.relations.clustersOf(node.id)) found.add(id);
  return [...found].sort((a, b) => a - b);
}

const statementRow = (statement: string): HTMLElement | null =>
  statement ? h("code.statement", { title: statement }, statement) : null;

/** The foot of a box that holds results; `title`: which they are. */
const band = (part: Part, title: string | null = null): HTMLElement | null => {
  const kept = keptAs(part);
  return kept ? h("div.band", { title }, kept) : null;
};

function single(node: Node, { part, literals, statement, apart }: Item, store: Store): HTMLElement {
  const { relations } = store;
  const fate = relations.fates.get(node.id);
  const clusters = relations.clustersOf(node.id);
  const quiet = isQuiet(fate?.kind);
  const move = relations.moves.get(node.id);
  const names = node.names.filter((name) => name !== nodeTitle(node));
  const foot = band(part);
  const where = node.kind === "input" ? (node.value ?? "") : placeWords(node.place);
  const title = [
    nodeTitle(node) + (node.primitive && node.primitive !== node.name ? ` (JAX's ${node.primitive})` : ""),
    literals.length ? `with ${listed(literals)}` : "",
    names.length ? `kept as ${listed(names)}` : "",
    node.avals.join(", "),
    placeWords(node.place),
    node.place?.text.trim(),
    kernelsIn(clusters, relations),
    plain(fate?.text ?? ""),
    move ? `⇄ ${move.text}` : "",
  ];
  const beside = [
    literals.length ? h("span.literal", {}, literals.join(" ")) : null,
    names.length && !foot ? h("span.vars", {}, listed(names, 3)) : null,
  ];
  const made = h(
    `div.box.kind-${node.kind}${quiet ? ".quiet" : ""}${node.output ? ".result" : ""}${foot ? ".banded" : ""}`,
    {
      title: title.filter(Boolean).join("\n"),
      style: `--bar:${bar(clusters, relations)}${tint(clusters, relations)}`,
      "aria-label": title.filter(Boolean).join(", "),
    },
    h(
      "div.first",
      {},
      h("span.name", {}, nodeTitle(node)),
      ...(apart ? [] : beside),
      h("span.spring", {}),
      move ? h(`span.flag${move.sent ? ".sent" : ""}`, {}, "⇄") : null,
      node.output && !foot ? h("span.flag", {}, "result") : null,
      clusters.length ? chips(clusters, relations, 3) : null,
    ),
    apart ? h("div.second", {}, ...beside) : null,
    h("div.second", {}, h("span.aval", {}, shortAval(node.avals[0] ?? "")), h("span.where", {}, where)),
    statementRow(statement),
    quiet ? h("div.third", {}, ...prose(fate?.text || fate?.kind || "")) : null,
    foot,
  );
  return tag(made, { kind: "node", id: node.id });
}

const nameOf = ({ group }: Part): string => (group ? titleOf(group) : "");

function toggleButton(part: Part, open: boolean, toggle: (key: string) => void): HTMLElement {
  const words = `${open ? "Close" : "Open"} ${nameOf(part)}`;
  return h(
    "button.toggle",
    { type: "button", title: words, "aria-label": words, "aria-expanded": String(open), onclick: () => toggle(part.key) },
    open ? "−" : "+",
  );
}

function onArrows(element: HTMLElement, part: Part, open: boolean, toggle: (key: string) => void): void {
  element.addEventListener("keydown", (event) => {
    if (event.target !== element && !(event.target as Element).classList.contains("lz-toggle")) return;
    if (event.key !== (open ? "ArrowLeft" : "ArrowRight")) return;
    event.preventDefault();
    event.stopPropagation();
    toggle(part.key);
  });
}

/** Rules by which a group is called what the user wrote. */
const CODE = new Set(["call", "scope", "line"]);

const groups = new WeakMap<Element, Part>();

/** Closed groups say how much they hold of what was clicked, and can be opened down to it. */
export function offer(within: Element, store: Store, open: (part: Part) => void): void {
  for (const element of within.querySelectorAll(".lz-group")) {
    const part = groups.get(element);
    const button = element.querySelector<HTMLButtonElement>(".lz-inside");
    if (!part || !button) continue;
    const held = part.nodes.filter(({ id }) => store.stuckHighlights.nodes.has(id)).length;
    const some = held > 0 && held < part.nodes.length;
    button.hidden = !some;
    if (!some) continue;
    button.textContent = `${held.toLocaleString("en")} in here: open`;
    button.title = `Open ${nameOf(part)} down to what was clicked (Enter)`;
    button.onclick = () => open(part);
  }
}

function group(part: Part, held: Group, statement: string, store: Store, toggle: (key: string) => void): HTMLElement {
  const clusters = clustersOf(part, store);
  const ids = part.nodes.map((node) => node.id);
  const title = titleOf(held);
  const words = contentsOf(held, part.nodes);
  const results = part.nodes.filter(({ output, kind }) => output && kind === "op").map(nodeWords);
  const made = h(
    `div.box.group${results.length ? ".result.banded" : ""}`,
    {
      title: [title, words, statement, kernelsIn(clusters, store.relations)].filter(Boolean).join("\n"),
      style: `--bar:${bar(clusters, store.relations)}${tint(clusters, store.relations)}`,
      role: "group", // not a button: it has buttons inside
      "aria-label": ["group " + title, words, statement, results.length ? `results ${listed(results)}` : ""]
        .filter(Boolean)
        .join(", "),
    },
    h("div.head", {}, toggleButton(part, false, toggle), h(`span.name${CODE.has(held.rule) ? ".code" : ""}`, {}, title)),
    statementRow(statement),
    h("div.second", {}, h("span.aval", {}, words), h("button.inside", { type: "button", tabindex: -1, hidden: true })),
    h("div.second", {}, h("span.where.left", {}, linesOf(held)), h("span.spring", {}), chips(clusters, store.relations, 4)),
    band(part, listed(results) || null),
  );
  onArrows(made, part, false, toggle);
  groups.set(made, part);
  made.addEventListener("keydown", (event) => {
    const inside = made.querySelector<HTMLButtonElement>(".lz-inside");
    if (event.key !== "Enter" || event.target !== made || !inside || inside.hidden) return;
    event.preventDefault();
    event.stopPropagation();
    inside.click();
  });
  return tag(made, { kind: "nodes", ids, key: part.key, title });
}

function frame(part: Part, inner: Scene, store: Store, toggle: (key: string) => void): HTMLElement {
  const layer = drawScene(inner, store, toggle);
  layer.style.cssText += `;left:${FRAME.side}px;top:${FRAME.top}px`;
  const made = h(
    "div.box.frame",
    { role: "group", "aria-label": `open group ${nameOf(part)}` },
    h(
      "div.head",
      {},
      toggleButton(part, true, toggle),
      h("span.name", {}, nameOf(part)),
      h("span.muted", {}, part.group?.rule === "inputs" ? "" : `${part.nodes.length.toLocaleString("en")} operations`),
    ),
    layer,
  );
  onArrows(made, part, true, toggle);
  return made;
}
