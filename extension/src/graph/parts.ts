/** The parts of the drawing: single nodes, and the groups that Python made of the others (lazynb/report/graph/graph_json.py). */

import { clip, count, listed } from "../model/format";
import type { Group, Node } from "../model/data";
import { isLiteral, nodeTitle } from "../model/words";

/** What a tree of groups is made of. */
export type Branch = number | Group;

export interface Part {
  /** Stays the same as long as the data does. */
  key: string;
  /** null: one node. */
  group: Group | null;
  nodes: readonly Node[];
}

/** Most nodes that are drawn where Python gave no groups of them. */
export const MOST = 500;

/** One part for each branch, without those of which no node is known. */
export function partsOf(branches: readonly Branch[], nodes: ReadonlyMap<number, Node>): Part[] {
  return branches.map((branch) => part(branch, nodes)).filter((one) => one.nodes.length > 0);
}

function part(branch: Branch, nodes: ReadonlyMap<number, Node>): Part {
  const ids = idsIn([branch]);
  const known = ids.flatMap((id) => nodes.get(id) ?? []);
  if (typeof branch === "number") return { key: `n${branch}`, group: null, nodes: known };
  return { key: `${branch.rule}:${branch.id}-${ids[ids.length - 1]}`, group: branch, nodes: known };
}

/** The nodes in a tree, in its order. */
export function idsIn(branches: readonly Branch[], found: number[] = []): number[] {
  for (const branch of branches) {
    if (typeof branch === "number") found.push(branch);
    else idsIn(branch.parts, found);
  }
  return found;
}

/** Each node by itself: for data that came without groups. null: there are too many nodes. */
export function ungrouped(nodes: readonly Node[]): Branch[] | null {
  const drawn = nodes.filter((node) => !isLiteral(node));
  return drawn.length <= MOST ? drawn.map(({ id }) => id) : null;
}

export const titleOf = ({ label }: Group): string => clip(label.trim(), 60);

/** What a group holds: "12 operations · add ×7, mul ×5". */
export function contentsOf({ rule, inside }: Group, nodes: readonly Node[]): string {
  return rule === "inputs" ? inside : [`${nodes.length.toLocaleString("en")} operations`, inside].filter(Boolean).join(" · ");
}

/** Where a group was written, unless its title says so. */
export const linesOf = ({ label, where }: Group): string => (where === label ? "" : where);

/** The variables that hold the results of a part: "→ q"; null: it has none. */
export function keptAs({ nodes }: Part): string | null {
  const results = nodes.filter(({ output, kind }) => output && kind === "op");
  if (!results.length) return null;
  const names = [...new Set(results.flatMap((node) => node.names.filter((name) => name !== nodeTitle(node))))];
  return `→ ${names.length ? listed(names, 3) : results.length > 1 ? count(results.length, "result") : "result"}`;
}

/** The line on which all of a part was written; "" where there are several, or its title says it. */
export function statementOf({ nodes, group }: Part): string {
  const [first] = nodes;
  const text = first?.kind === "op" ? (first.place?.text.trim() ?? "") : "";
  if (!text || group?.label.trim() === text) return "";
  const same = nodes.every(({ place }) => place?.line === first?.place?.line && place?.label === first?.place?.label);
  return same ? clip(text, 120) : "";
}
