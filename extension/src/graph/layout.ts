/** Boxes and arrows in layers, by dagre. */

import { graphlib, layout } from "@dagrejs/dagre";

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Laid extends Size {
  /** Upper left corner of each box. */
  boxes: Point[];
  /** The way of each link. */
  ways: Point[][];
  /** Middle of each link's label, where room was kept. */
  labels: (Point | undefined)[];
}

export interface Look {
  across?: boolean;
  between: number;
  layers: number;
  /** Room kept in the middle of each link. */
  label?: Size;
}

export function layOut(sizes: readonly Size[], links: readonly (readonly [number, number])[], look: Look): Laid {
  const graph = new graphlib.Graph();
  graph.setGraph({
    rankdir: look.across ? "LR" : "TB",
    nodesep: look.between,
    ranksep: look.layers,
    edgesep: 10,
    marginx: 12,
    marginy: 12,
  });
  sizes.forEach((size, i) => graph.setNode(String(i), { ...size }));
  for (const [from, to] of links) graph.setEdge(String(from), String(to), look.label ? { ...look.label, labelpos: "c" } : {});
  layout(graph);
  const edges = links.map(([from, to]) => graph.edge(String(from), String(to)) as { points?: Point[]; x?: number; y?: number });
  const whole = graph.graph() as Size;
  return {
    width: finite(whole.width),
    height: finite(whole.height),
    boxes: sizes.map((size, i) => {
      const at = graph.node(String(i)) as Point;
      return { x: at.x - size.width / 2, y: at.y - size.height / 2 };
    }),
    ways: edges.map(({ points }) => points ?? []),
    labels: edges.map(({ x, y }) => (x === undefined || y === undefined ? undefined : { x, y })),
  };
}

const finite = (x: number | undefined): number => (x !== undefined && Number.isFinite(x) ? x : 0);

/** A smooth path through points. */
export function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  const at = (p: Point) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`;
  let path = `M${at(first)}`;
  for (let i = 0; i < rest.length - 1; i += 1) {
    const corner = rest[i] as Point;
    const next = rest[i + 1] as Point;
    const to = i === rest.length - 2 ? next : { x: (corner.x + next.x) / 2, y: (corner.y + next.y) / 2 };
    path += `Q${at(corner)} ${at(to)}`;
  }
  if (rest.length === 1) path += `L${at(rest[0] as Point)}`;
  return path;
}
