/** Who belongs to whom: the relations between lines, nodes, clusters, instructions and boundaries, looked up by id. */

import type { Boundary, Cluster, Fate, HloLine, Inspection, Layout, Node, Place, Program, Resharding } from "./data";
import { count } from "./format";

/** What runs; a loop or a branch around kernels is none, and no transfer. */
export const kernelsOf = (clusters: readonly Cluster[]): Cluster[] =>
  clusters.filter(({ kind }) => kind !== "control" && kind !== "transfer");

const isEnd = ({ opcode }: Cluster): boolean => /-(done|update)$/.test(opcode);

/** Values that are brought to another memory, each once: the end of a transfer is no second one. */
export const transfersOf = (clusters: readonly Cluster[]): Cluster[] =>
  clusters.filter((cluster) => cluster.kind === "transfer" && !isEnd(cluster));

/** "17 kernels and 6 transfers" */
export function kernelWords(clusters: readonly Cluster[]): string {
  const moving = transfersOf(clusters).length;
  return `${count(kernelsOf(clusters).length, "kernel")}${moving ? ` and ${count(moving, "transfer")}` : ""}`;
}

/** What lies between two kernels; a result of the program is written, but no boundary. */
export const between = (boundaries: readonly Boundary[]): Boundary[] => boundaries.filter(({ consumer }) => consumer !== null);

/** "8 devices" where programs run on several, of which all figures are of one; else "". */
export function perDevice(programs: readonly Program[]): string {
  const counts = [...new Set(programs.map(({ devices }) => devices))].sort((a, b) => a - b);
  return Math.max(1, ...counts) > 1 ? `${counts.map((n) => n.toLocaleString("en")).join(" or ")} devices` : "";
}

/** "on all 8 devices 32 KiB"; empty of one device. */
export const onAll = (devices: number, words: string): string =>
  devices > 1 ? `on all ${devices.toLocaleString("en")} devices ${words}` : "";

export const lineKey = (source: number, line: number): string => `${source}:${line}`;

/** Appends to the list of a key. */
export function add<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

export class Relations {
  readonly nodes = new Map<number, Node>();
  readonly fates = new Map<number, Fate>();
  readonly clusters = new Map<number, Cluster>();
  readonly boundaries = new Map<number, Boundary>();
  /** Users of a node's results. */
  readonly users = new Map<number, number[]>();
  readonly nodesOfLine = new Map<string, number[]>();
  readonly boundariesOf = new Map<number, Boundary[]>();
  /** The producer and consumer of each boundary, "producer>consumer". */
  readonly boundaryBetween = new Map<string, Boundary>();
  /** A kernel's own instruction, "program:name", and the kernel. */
  readonly kernelNamed = new Map<string, Cluster>();
  /** How the results of a node lie on several devices. */
  readonly waysOf = new Map<number, Layout[]>();
  /** The nodes for which values move between devices, or lie otherwise. */
  readonly moves = new Map<number, Resharding>();
  private readonly ordered: Inspection;
  private named: Map<string, HloLine> | null = null;

  constructor(data: Inspection) {
    this.ordered = data;
    for (const fate of data.fates) this.fates.set(fate.node, fate);
    this.setClusters(data.clusters);
    for (const node of data.nodes) {
      this.nodes.set(node.id, node);
      if (node.kind === "op") for (const line of linesOf(node)) add(this.nodesOfLine, line, node.id);
      for (const [operand] of node.operands) add(this.users, operand, node.id);
    }
    this.setBoundaries(data.boundaries);
    for (const { node, layout } of data.tiles) {
      const way = data.layouts[layout];
      if (way) add(this.waysOf, node, way);
    }
    for (const one of data.reshardings) this.moves.set(one.node, one);
  }

  setClusters(clusters: Cluster[]): void {
    for (const cluster of clusters) {
      this.clusters.set(cluster.id, cluster);
      this.kernelNamed.set(`${cluster.program}:${cluster.name}`, cluster);
    }
  }

  setBoundaries(boundaries: Boundary[]): void {
    this.boundaries.clear();
    this.boundariesOf.clear();
    this.boundaryBetween.clear();
    for (const one of boundaries) {
      this.boundaries.set(one.id, one);
      add(this.boundariesOf, one.producer, one);
      if (one.consumer !== null && one.consumer !== one.producer) add(this.boundariesOf, one.consumer, one);
      this.boundaryBetween.set(`${one.producer}>${one.consumer}`, one);
    }
  }

  /** "c3", or "c3.0" for the first that the loop c3 runs. */
  kernel(id: number): string {
    return this.clusters.get(id)?.label ?? `c${id}`;
  }

  /** "c4", or "result": where a boundary ends. */
  consumer({ consumer }: Boundary): string {
    return consumer === null ? "result" : this.kernel(consumer);
  }

  clustersOf(node: number): number[] {
    return this.fates.get(node)?.clusters ?? [];
  }

  clustersOfLine(source: number, line: number): number[] {
    const found = new Set<number>();
    for (const node of this.nodesOfLine.get(lineKey(source, line)) ?? []) for (const c of this.clustersOf(node)) found.add(c);
    return [...found].sort((a, b) => a - b);
  }

  /** An instruction of the compiled module, by name. */
  instruction(program: number, name: string): HloLine | undefined {
    if (!this.named) {
      this.named = new Map();
      for (const { number, hlo } of this.ordered.programs) {
        for (const stage of [hlo.before, hlo.after])
          for (const line of stage.lines) if (line.name) this.named.set(`${number}:${line.name}`, line);
      }
    }
    return this.named.get(`${program}:${name}`);
  }

  /** The instructions were asked for later. */
  forgetInstructions(): void {
    this.named = null;
  }

  boundaryNodes(boundary: Boundary): number[] {
    const producer = this.clusters.get(boundary.producer);
    const line = producer && this.instruction(producer.program, boundary.value);
    return line?.nodes ?? [];
  }
}

/** The lines that a node stands on: its own, and those that called the jitted functions that it is inside of. */
function linesOf(node: Node): Set<string> {
  const places = [node.place, ...node.callers].filter((place) => place !== null);
  return new Set(places.flatMap(({ source, line }) => (source === null ? [] : [lineKey(source, line)])));
}

export function placeWords(place: Place | null): string {
  if (!place) return "";
  return place.label || (place.cell !== null ? `cell ${place.cell}, line ${place.line}` : `line ${place.line}`);
}

/** A place and what stands there. */
export const placeTitle = (place: Place | null): string => [placeWords(place), place?.text].filter(Boolean).join("\n");
