/** What is selected in one program, in another program of the same operations. */

import type { Node } from "./data";
import { type Thing, highlightsOf, keyOf } from "./selection";
import type { Store } from "./store";

const signature = (node: Node | undefined): string =>
  node ? JSON.stringify([node.kind, node.primitive, node.avals, node.place?.label]) : "";

/** A line stays the line, an operation the operation; of a kernel, an instruction or an array its operations are selected. */
export function carried(from: Store, to: Store): Thing | null {
  const thing = from.stuck;
  if (!thing) return null;
  if (thing.kind === "line") return lineOf(from, to, thing.source, thing.line);
  const ids = [...highlightsOf(thing, from.relations).nodes].filter(
    (id) => to.relations.nodes.has(id) && signature(to.relations.nodes.get(id)) === signature(from.relations.nodes.get(id)),
  );
  if (thing.kind === "node") {
    if (ids.includes(thing.id)) return thing;
    const place = from.relations.nodes.get(thing.id)?.place;
    return place && place.source !== null ? lineOf(from, to, place.source, place.line) : null;
  }
  if (!ids.length) return null;
  return { kind: "nodes", ids, key: `other:${keyOf(thing)}`, title: "What was selected in the other program" };
}

function lineOf(from: Store, to: Store, source: number, line: number): Thing | null {
  const file = from.data.sources[source]?.file;
  const there = to.data.sources.findIndex((one) => one.file === file);
  return there < 0 ? null : { kind: "line", source: there, line };
}
