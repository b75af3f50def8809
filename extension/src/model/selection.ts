/** The one selection that all views share: a thing that was pointed at, and everything that belongs to it. */

import type { HloLine } from "./data";
import { type Relations, lineKey } from "./program";

export type Thing =
  | { kind: "node"; id: number }
  | { kind: "nodes"; ids: readonly number[]; key: string; title: string }
  | { kind: "cluster"; id: number }
  | { kind: "line"; source: number; line: number }
  | { kind: "instruction"; program: number; line: HloLine }
  | { kind: "boundary"; id: number }
  | { kind: "value"; name: string; nodes: readonly number[]; cluster: number | null };

export interface Highlights {
  nodes: ReadonlySet<number>;
  /** Clusters that something highlighted is in. */
  clusters: ReadonlySet<number>;
  /** Clusters that are highlighted themselves: all of their instructions are. */
  whole: ReadonlySet<number>;
  lines: ReadonlySet<string>;
  /** "program:name" */
  instructions: ReadonlySet<string>;
  boundaries: ReadonlySet<number>;
}

export const nothing: Highlights = {
  nodes: new Set(),
  clusters: new Set(),
  whole: new Set(),
  lines: new Set(),
  instructions: new Set(),
  boundaries: new Set(),
};

export function keyOf(thing: Thing): string {
  if (thing.kind === "line") return `line:${lineKey(thing.source, thing.line)}`;
  if (thing.kind === "instruction") return `instruction:${thing.program}:${thing.line.name}`;
  if (thing.kind === "nodes") return `nodes:${thing.key}`;
  if (thing.kind === "value") return `value:${thing.name}`;
  return `${thing.kind}:${thing.id}`;
}

export const same = (a: Thing | null, b: Thing | null): boolean => a === b || (a !== null && b !== null && keyOf(a) === keyOf(b));

class Highlighting {
  readonly nodes = new Set<number>();
  readonly clusters = new Set<number>();
  readonly whole = new Set<number>();
  readonly lines = new Set<string>();
  readonly instructions = new Set<string>();
  readonly boundaries = new Set<number>();
  constructor(private readonly relations: Relations) {}

  node(id: number): void {
    this.nodes.add(id);
    for (const cluster of this.relations.clustersOf(id)) this.clusters.add(cluster);
    const place = this.relations.nodes.get(id)?.place;
    if (place && place.source !== null) this.lines.add(lineKey(place.source, place.line));
  }

  cluster(id: number): void {
    this.clusters.add(id);
    this.whole.add(id);
    const cluster = this.relations.clusters.get(id);
    if (!cluster) return;
    for (const node of cluster.nodes) {
      this.nodes.add(node);
      const place = this.relations.nodes.get(node)?.place;
      if (place && place.source !== null) this.lines.add(lineKey(place.source, place.line));
    }
    for (const name of cluster.instructions) this.instructions.add(`${cluster.program}:${name}`);
    this.instructions.add(`${cluster.program}:${cluster.name}`);
    for (const boundary of this.relations.boundariesOf.get(id) ?? []) this.boundaries.add(boundary.id);
  }

  boundary(id: number): void {
    const boundary = this.relations.boundaries.get(id);
    if (!boundary) return;
    this.boundaries.add(id);
    for (const node of this.relations.boundaryNodes(boundary)) this.node(node);
    this.clusters.clear();
    this.clusters.add(boundary.producer);
    if (boundary.consumer !== null) this.clusters.add(boundary.consumer);
    const producer = this.relations.clusters.get(boundary.producer);
    if (producer && boundary.value) this.instructions.add(`${producer.program}:${boundary.value}`);
  }

  instruction(program: number, line: HloLine): void {
    const kernel = this.relations.kernelNamed.get(`${program}:${line.name}`);
    if (kernel) return this.cluster(kernel.id);
    this.instructions.add(`${program}:${line.name}`);
    line.nodes.forEach((node) => this.node(node));
    if (line.cluster !== null) {
      this.clusters.clear(); // the very kernel, though a node may be computed in others as well
      this.clusters.add(line.cluster);
    }
  }
}

export function highlightsOf(thing: Thing | null, relations: Relations): Highlights {
  if (!thing) return nothing;
  const highlighting = new Highlighting(relations);
  switch (thing.kind) {
    case "node":
      highlighting.node(thing.id);
      break;
    case "nodes":
      thing.ids.forEach((id) => highlighting.node(id));
      break;
    case "cluster":
      highlighting.cluster(thing.id);
      break;
    case "line":
      (relations.nodesOfLine.get(lineKey(thing.source, thing.line)) ?? []).forEach((id) => highlighting.node(id));
      highlighting.lines.add(lineKey(thing.source, thing.line));
      break;
    case "boundary":
      highlighting.boundary(thing.id);
      break;
    case "instruction":
      highlighting.instruction(thing.program, thing.line);
      break;
    case "value":
      thing.nodes.forEach((id) => highlighting.node(id));
      if (thing.cluster !== null) highlighting.clusters.add(thing.cluster);
      break;
  }
  return highlighting;
}

/** Whether a thing is among what is highlighted. */
export function lit(thing: Thing, highlights: Highlights): boolean {
  switch (thing.kind) {
    case "node":
      return highlights.nodes.has(thing.id);
    case "nodes":
      return highlights.nodes.size > 0 && thing.ids.some((id) => highlights.nodes.has(id));
    case "cluster":
      return highlights.clusters.has(thing.id);
    case "line":
      return highlights.lines.has(lineKey(thing.source, thing.line));
    case "boundary":
      return highlights.boundaries.has(thing.id);
    case "instruction":
      return litLine(thing.line, thing.program, highlights);
    case "value":
      return (
        thing.nodes.some((id) => highlights.nodes.has(id)) || (thing.cluster !== null && highlights.whole.has(thing.cluster))
      );
  }
}

export function litLine(line: HloLine, program: number, highlights: Highlights): boolean {
  if (!line.name) return false;
  if (highlights.instructions.has(`${program}:${line.name}`)) return true;
  if (line.cluster !== null && highlights.whole.has(line.cluster)) return true;
  if (highlights.whole.size)
    return highlights.whole.size > 0 && line.cluster === null && line.nodes.some((id) => highlights.nodes.has(id));
  return line.nodes.some((id) => highlights.nodes.has(id));
}
