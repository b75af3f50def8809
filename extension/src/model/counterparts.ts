/** What corresponds in two compilations that are compared: Python has matched their operations and lines. */

import type { Compared } from "./data";
import { lineKey } from "./program";
import { type Thing, highlightsOf, keyOf } from "./selection";
import type { Store } from "./store";

interface Side {
  nodes: Map<number, number>;
  lines: Map<string, Thing>;
}

export class Counterparts {
  private readonly sides = new Map<Store, Side>();

  constructor({ nodes, lines }: Compared, before: Store, now: Store) {
    this.sides.set(before, {
      nodes: new Map(nodes),
      lines: new Map(
        lines.map((one) => [lineKey(one.before, one.before_line), { kind: "line", source: one.now, line: one.now_line }]),
      ),
    });
    this.sides.set(now, {
      nodes: new Map(nodes.map(([a, b]) => [b, a])),
      lines: new Map(
        lines.map((one) => [lineKey(one.now, one.now_line), { kind: "line", source: one.before, line: one.before_line }]),
      ),
    });
  }

  /** A line becomes its line, an operation its operation; of anything else the operations are taken. */
  of(thing: Thing | null, from: Store): Thing | null {
    const side = this.sides.get(from);
    if (!thing || !side) return null;
    if (thing.kind === "line") return side.lines.get(lineKey(thing.source, thing.line)) ?? null;
    const ids = [...highlightsOf(thing, from.relations).nodes].map((id) => side.nodes.get(id)).filter((id) => id !== undefined);
    const [first] = ids;
    if (first === undefined) return null;
    if (thing.kind === "node") return { kind: "node", id: first };
    return { kind: "nodes", ids, key: `other:${keyOf(thing)}`, title: "The same operations" };
  }
}
