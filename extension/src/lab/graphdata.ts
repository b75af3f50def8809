/** The graph of the MIME bundle (lazynb/report/graph/graph_json.py) as the inspector's data: the same boxes, with nothing compiled. */

import type { Inspection } from "../model/data";
import { read } from "../model/read";

type Loose = Record<string, unknown>;

const VERSION = 1;

/** Whether this is a graph of a version that can be drawn. */
export function isGraph(given: unknown): given is Loose {
  const data = given as Loose | null;
  return typeof data === "object" && data !== null && data.version === VERSION && Array.isArray(data.boxes);
}

/** Of a graph too large to describe node by node, each box is one. */
function boxesAsNodes(data: Loose): Loose[] {
  const operands = new Map<unknown, [unknown, number][]>();
  for (const { tail, head } of (data.edges as Loose[] | undefined) ?? []) {
    const list = operands.get(head) ?? [];
    list.push([tail, 0]);
    operands.set(head, list);
  }
  return (data.boxes as Loose[]).map((box) => ({
    ...box,
    kind: box.kind === "input" ? "input" : "op",
    name: [box.label, ...((box.badges as string[] | undefined) ?? []).filter((one) => one !== "output" && one !== "dead")].join(
      " ",
    ),
    primitive: "",
    operands: operands.get(box.id) ?? [],
  }));
}

/** Of a graph that was stored before its groups were: its boxes, each of which opens to all that it holds. */
function boxesAsGroups(data: Loose): unknown[] {
  const kinds = new Map((data.nodes as Loose[]).map(({ id, kind }) => [id, kind]));
  return (data.boxes as Loose[]).map((box) => {
    if (box.kind !== "group") return box.id;
    const [kind, rule] = box.operations ? ["op", "line"] : ["input", "inputs"];
    return { ...box, rule, parts: numbersIn(box.members).filter((id) => kinds.get(id) === kind) };
  });
}

/** The numbers of `[first, last]` pairs. */
function numbersIn(ranges: unknown): number[] {
  const pairs = Array.isArray(ranges) ? (ranges as [number, number][]) : [];
  return pairs.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i));
}

export function inspectionOf(data: Loose): Inspection {
  const listed = (data.nodes as Loose[] | undefined)?.length ? (data.nodes as Loose[]) : null;
  const given = listed ?? boxesAsNodes(data);
  const counts = (data.counts ?? {}) as { operations?: number };
  return read({
    version: 1,
    title: data.title,
    nodes: given,
    groups: listed ? (data.groups ?? boxesAsGroups(data)) : [],
    coverage: { operations: counts.operations ?? 0 },
    fates: given.flatMap(({ id, dead }) =>
      dead ? [{ node: id, kind: "dead", clusters: [], text: "nothing uses it", label: "rule inferred" }] : [],
    ),
  });
}
