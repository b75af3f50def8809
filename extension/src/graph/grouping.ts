/** Cuts a program into a few parts that follow how it was written; each can be cut again. */

import type { Node } from "../model/data";
import { clip } from "../model/format";
import { isLiteral, nodeTitle } from "../model/words";

/** Most parts of one cut. */
export const MOST = 40;

export type Cut = "call" | "line" | "cell" | "chunk" | "inputs";

export interface Part {
  /** Stays the same as long as the data does. */
  key: string;
  /** null: one node. */
  cut: Cut | null;
  nodes: readonly Node[];
}

const RUNS: [Cut, (node: Node) => string | null][] = [
  ["call", (node) => (node.call === null ? null : `${node.call}`)],
  ["line", (node) => (node.place ? `${node.place.source}:${node.place.label}:${node.place.line}` : null)],
  ["cell", (node) => (node.place ? `${node.place.source}:${node.place.cell}` : null)],
];

const single = (node: Node): Part => ({ key: `n${node.id}`, cut: null, nodes: [node] });

function part(cut: Cut, nodes: readonly Node[]): Part {
  const [first] = nodes;
  if (nodes.length === 1 && first) return single(first);
  return { key: `${cut}:${first?.id}-${nodes[nodes.length - 1]?.id}`, cut, nodes };
}

/** Neighbours with the same key in one part. Without a key, each stands alone. */
function runs(nodes: readonly Node[], cut: Cut, key: (node: Node) => string | null): Part[] {
  const parts: Part[] = [];
  let start = 0;
  for (let i = 1; i <= nodes.length; i += 1) {
    const before = key(nodes[i - 1] as Node);
    if (i < nodes.length && before !== null && key(nodes[i] as Node) === before) continue;
    parts.push(part(cut, nodes.slice(start, i)));
    start = i;
  }
  return parts;
}

function chunks(nodes: readonly Node[], most: number): Part[] {
  const pieces = Math.min(most, Math.max(2, Math.ceil(nodes.length / most)));
  const parts: Part[] = [];
  for (let i = 0; i < pieces; i += 1) {
    const from = Math.round((i * nodes.length) / pieces);
    parts.push(part("chunk", nodes.slice(from, Math.round(((i + 1) * nodes.length) / pieces))));
  }
  return parts;
}

/** The finest cut with at most `most` parts: operations, calls, lines, cells, else even pieces. */
export function cutUp(nodes: readonly Node[], most = MOST): Part[] {
  if (nodes.length <= most) return nodes.map(single);
  for (const [cut, key] of RUNS) {
    const parts = runs(nodes, cut, key);
    if (parts.length > 1 && parts.length <= most) return parts;
  }
  return chunks(nodes, most);
}

/** The whole program: its inputs, in one group when there are many, then its operations. */
export function topParts(nodes: readonly Node[]): Part[] {
  const inputs = nodes.filter((node) => node.kind === "input" && !isLiteral(node));
  const operations = nodes.filter((node) => node.kind !== "input");
  const alone = inputs.length <= 12 && inputs.length + operations.length <= MOST;
  const first = alone ? inputs.map(single) : inputs.length ? [part("inputs", inputs)] : [];
  return [...first, ...cutUp(operations, MOST - first.length)];
}

/** The parts of a group. */
export const partsOf = (group: Part): Part[] => cutUp(group.nodes);

function commonScope(nodes: readonly Node[]): string {
  const scopes = new Set(nodes.map((node) => node.scope));
  const [only] = scopes;
  const last = scopes.size === 1 && only ? (only.split("/").pop() ?? "") : "";
  return last.replace(/^\w+\((.*)\)$/, "$1");
}

export function titleOf(group: Part): string {
  const first = group.nodes[0] as Node;
  const last = group.nodes[group.nodes.length - 1] as Node;
  if (group.cut === "inputs") return `${group.nodes.length} inputs`;
  if (group.cut === "call" && commonScope(group.nodes)) return commonScope(group.nodes);
  if (group.cut === "cell" && first.place) return first.place.cell === null ? first.place.label : `cell ${first.place.cell}`;
  if (group.cut !== "chunk" && first.place?.text.trim()) return clip(first.place.text.trim(), 60);
  return `${nodeTitle(first)} … ${nodeTitle(last)}`;
}

/** What is most in a group: "add, exp, mul, …" */
export function contents(nodes: readonly Node[], most = 3, name = nodeTitle): string {
  const counts = new Map<string, number>();
  for (const node of nodes) counts.set(name(node), (counts.get(name(node)) ?? 0) + 1);
  const ordered = [...counts].sort((a, b) => b[1] - a[1]).map(([one]) => one);
  return ordered.slice(0, most).join(", ") + (ordered.length > most ? ", …" : "");
}

/** "cell 3, lines 4–9": where a group was written, in as few words as say it. */
export function linesOf(nodes: readonly Node[]): string {
  const places = nodes.flatMap(({ place }) => (place ? [place] : []));
  const [first] = places;
  if (!first) return "";
  const low = places.reduce((least, { line }) => Math.min(least, line), first.line);
  const high = places.reduce((most, { line }) => Math.max(most, line), first.line);
  if (places.some(({ source, cell }) => source !== first.source || cell !== first.cell)) return "";
  return low === high ? first.label : `${first.cell === null ? "" : `cell ${first.cell}, `}lines ${low}–${high}`;
}
