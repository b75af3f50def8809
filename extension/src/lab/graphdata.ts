/** The graph of the MIME bundle (lazynb/view/graph/json_form.py) as the inspector's data: the same boxes, with nothing compiled. */

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

export function inspectionOf(data: Loose): Inspection {
  const given = (data.nodes as Loose[] | undefined)?.length ? (data.nodes as Loose[]) : boxesAsNodes(data);
  const counts = (data.counts ?? {}) as { operations?: number };
  return read({
    version: 1,
    title: data.title,
    nodes: given,
    coverage: { operations: counts.operations ?? 0 },
    fates: given.flatMap(({ id, dead }) =>
      dead ? [{ node: id, kind: "dead", clusters: [], text: "nothing uses it", label: "rule inferred" }] : [],
    ),
  });
}
