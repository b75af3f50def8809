/** A small map: kernels (or lines, when they are many) as blocks, the values that are written between them as arrows. */

import type { Boundary, Cluster } from "../model/data";
import { KINDS } from "../ui/describe";
import { h, plain, s } from "../ui/dom";
import { turnWords } from "../ui/executions";
import { bytes, clip, count, listed } from "../model/format";
import { type Point, type Size, curve, layOut } from "../graph/layout";
import { type Look, hatchPath, lookOf } from "../ui/palette";
import { add, kernelWords, lineKey, placeWords } from "../model/program";
import type { Thing } from "../model/selection";
import type { Store } from "../model/store";
import { tag } from "../ui/selectable";
import { nodeTitle } from "../model/words";

const MOST = 48;
/** Of the colour at a block's left, and what is free around its text. */
const CHIP = 30;
const FREE = 14;
const FOOT = 32;
/** Of one line of a block's name, and lines at most. */
const LETTERS = 16;
const LINES = 3;
const LINE = 14;
/** What a letter takes, in the widest font of those that are likely. */
const LETTER = 7.8;
const SMALL = 6.9;
/** What a letter of a kernel's number takes, and what is free beside the number. */
const DIGIT = 7.6;
const BESIDE = 8;
/** Of what stands below a block's name. */
const BELOW = 26;

/** What one block of the map stands for: a kernel, or all kernels of a line. */
interface Block {
  clusters: Cluster[];
  thing: Thing;
  /** Said in the block: heading and what is below it. */
  head: string;
  words: string;
  title: string;
}

/** Kernels of one line (else of one cell) in one block, in the order in which they first run. */
function together(clusters: readonly Cluster[], what: "line" | "cell"): Block[] {
  const found = new Map<string, Cluster[]>();
  for (const cluster of clusters) {
    const { place } = cluster;
    const key =
      place?.source == null ? "" : what === "line" ? lineKey(place.source, place.line) : `${place.source} ${place.cell}`;
    add(found, key, cluster);
  }
  return [...found].map(([key, all]) => {
    const place = key ? (all[0] as Cluster).place : null;
    const line = what === "line" && place;
    const file = place?.label.replace(/:\d+$/, "");
    const head = (line ? place.text.trim() || place.label : place?.cell == null ? file : `cell ${place.cell}`) || "no line";
    const kernels = count(all.length, "kernel");
    const thing: Thing = line
      ? { kind: "line", source: place.source ?? 0, line: place.line }
      : { kind: "nodes", ids: all.flatMap(({ nodes }) => nodes), key: `map ${key}`, title: head };
    const words = line ? `line ${place.line}: ${kernels}` : kernels;
    const title = [
      placeWords(line || null),
      head,
      `kernels ${listed(
        all.map(({ label }) => label),
        24,
      )}`,
    ];
    return { clusters: all, thing, head, words, title: title.filter(Boolean).join("\n") };
  });
}

function alone(cluster: Cluster, store: Store): Block {
  const names = cluster.nodes.flatMap((id) => {
    const node = store.relations.nodes.get(id);
    return node ? [nodeTitle(node)] : [];
  });
  const kind = turnWords(cluster) || cluster.library || (KINDS[cluster.kind] ?? cluster.kind);
  return {
    clusters: [cluster],
    thing: { kind: "cluster", id: cluster.id },
    head: names.length ? names.join(" ") : cluster.opcode || cluster.name,
    words: kind,
    title: `kernel ${cluster.label}: ${cluster.name}\n${kind}\n${listed(names, 24)}`,
  };
}

export function flowMap(clusters: readonly Cluster[], store: Store): HTMLElement {
  const draft = clusters.length > MOST ? together(clusters, "line") : null;
  const blocks = !draft ? clusters.map((one) => alone(one, store)) : draft.length > MOST ? together(clusters, "cell") : draft;
  const unit = draft === blocks ? "line" : "cell";
  if (blocks.length > MOST)
    return h(
      "div.muted.map-note",
      {},
      `No map: ${kernelWords(clusters)} in ${count(blocks.length, "cell")} would be too small to read.`,
    );
  const note = draft
    ? h("div.muted.map-note", {}, `${kernelWords(clusters)} are too many to draw one by one: a block is a ${unit}.`)
    : null;
  const at = new Map(blocks.flatMap((block, i) => block.clusters.map((cluster) => [cluster.id, i] as const)));
  const paired = new Map<string, Boundary[]>();
  for (const one of store.data.boundaries) {
    const [from, to] = [at.get(one.producer), one.consumer === null ? undefined : at.get(one.consumer)];
    if (from === undefined || to === undefined || from === to) continue;
    add(paired, `${from}>${to}`, one);
  }
  const pairs = [...paired.values()];
  const links = pairs.map(([one]) => [at.get(one?.producer ?? -1) ?? 0, at.get(one?.consumer ?? -1) ?? 0] as const);
  const written = blocks.map(({ head }) => inLines(head));
  const size = {
    width: Math.max(...blocks.map((block, i) => room(written[i] ?? [], block))),
    height: FOOT + LINE * Math.max(...written.map(({ length }) => length)),
  };
  const laid = layOut(
    blocks.map(() => size),
    links,
    { across: true, between: 14, layers: 34, label: { width: 58, height: 14 } },
  );
  const svg = s("svg.map", {
    style: `width:100%;max-width:${laid.width}px;min-width:${0.7 * laid.width}px`,
    viewBox: `0 0 ${laid.width} ${laid.height}`,
    role: "group",
    "aria-label": "map of the kernels",
  });
  pairs.forEach((all, i) => {
    const one = all[0] as Boundary;
    const total = bytes(all.reduce((sum, { bytes: size }) => sum + size, 0));
    const way = laid.ways[i] ?? [];
    const end = way[way.length - 1];
    const middle = laid.labels[i];
    if (!end || !middle) return;
    const text = s("text.map-bytes", { x: middle.x, y: middle.y + 4, "text-anchor": "middle" }, total);
    const group = s(
      "g.wire.crossing",
      {
        "aria-label": `${store.relations.kernel(one.producer)} to ${store.relations.consumer(one)}, ${total}: ${plain(one.text)}`,
      },
      s(
        "path.hit",
        { d: curve(way) },
        s("title", {}, all.map((each) => `${each.shape}, ${bytes(each.bytes)}: ${plain(each.text)} (${each.label})`).join("\n")),
      ),
      s("path.line", { d: curve(way) }),
      s("path.tip", { d: "M0,0L-7,-3.4L-7,3.4Z", transform: `translate(${end.x.toFixed(1)},${end.y.toFixed(1)})` }),
      text,
    );
    svg.append(tag(group, { kind: "boundary", id: one.id }));
  });
  blocks.forEach((one, i) => svg.append(draw(one, written[i] ?? [], laid.boxes[i] ?? { x: 0, y: 0 }, size)));
  return h("div.map-pane", {}, note, svg);
}

/** The pattern of a kernel above and below its number. */
function hatched({ ink, pattern }: Look, chip: number, height: number): SVGElement[] {
  const band = height / 2 - 10;
  if (!pattern) return [];
  return [2, height - band - 2].map((y) =>
    s("path", {
      d: hatchPath(pattern, 12, band),
      transform: `translate(${chip / 2 - 6},${y})`,
      stroke: ink,
      "stroke-width": pattern === 3 ? 6 : 1.5,
      fill: "none",
    }),
  );
}

/** Colours of a block's kernels below each other. */
function stripes(clusters: Cluster[], height: number): SVGElement[] {
  const shown = clusters.slice(0, 6);
  const each = height / shown.length;
  return shown.map((cluster, i) =>
    s("rect", { y: (i * each).toFixed(1), width: CHIP, height: each.toFixed(1), fill: lookOf(cluster).colour }),
  );
}

/** A block's name in a few lines, between words where it can be, or after the signs in a name. */
function inLines(head: string): string[] {
  const lines: string[] = [];
  let left = head;
  while (left.length > LETTERS && lines.length < LINES - 1) {
    const part = left.slice(0, LETTERS + 1);
    const at = [part.lastIndexOf(" "), part.slice(0, LETTERS).lastIndexOf("_") + 1].find((one) => one > 3) ?? LETTERS;
    lines.push(left.slice(0, at).trim());
    left = left.slice(at).trim();
  }
  return [...lines, clip(left, LETTERS)];
}

/** The width of the colour at a block's left, which has the number of a single kernel. */
function chipOf({ clusters }: Block): number {
  const [first, ...others] = clusters;
  return first && !others.length ? Math.max(CHIP, Math.round(first.label.length * DIGIT + BESIDE)) : CHIP;
}

/** The width of a block with this text. */
function room(lines: readonly string[], block: Block): number {
  const { words } = block;
  const longest = Math.max(...lines.map(({ length }) => length * LETTER), Math.min(words.length, BELOW) * SMALL);
  return Math.round(Math.max(120, chipOf(block) + FREE + longest));
}

function draw(block: Block, lines: readonly string[], { x, y }: Point, { width, height }: Size): SVGElement {
  const { clusters, thing, head, words, title } = block;
  const chip = chipOf(block);
  const [first] = clusters;
  const single = clusters.length === 1 && first;
  const top = (height - lines.length * LINE - 16) / 2 + 11;
  const group = s(
    "g.block",
    {
      transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`,
      "aria-label": `${single ? `kernel ${first.label}` : head}, ${words}`,
    },
    s("title", {}, title),
    s("rect.block-body", { width, height, rx: 6 }),
    ...(single
      ? [
          s("path", { d: `M6,0H${chip}V${height}H6A6,6 0 0 1 0,${height - 6}V6A6,6 0 0 1 6,0Z`, fill: lookOf(first).colour }),
          ...hatched(lookOf(first), chip, height),
          s(
            "text.block-number",
            { x: chip / 2, y: height / 2 + 4, "text-anchor": "middle", fill: lookOf(first).ink },
            first.label,
          ),
        ]
      : stripes(clusters, height)),
    s(
      "svg",
      { x: chip + 7, width: width - chip - 9, height },
      ...lines.map((line, i) => s("text.block-name", { y: top + i * LINE }, line)),
      s("text.block-kind", { y: top + lines.length * LINE + 2 }, clip(words, BELOW)),
    ),
  );
  return tag(group, thing);
}
