/** The graph as it is drawn: parts with their places, an open group with its own scene inside. */

import type { Boundary, Group, Node } from "../model/data";
import { type Branch, type Part, contentsOf, idsIn, linesOf, partsOf, titleOf } from "./parts";
import { type Point, type Size, layOut } from "./layout";
import type { Relations } from "../model/program";
import { literalWords, nodeTitle, shortAval } from "../model/words";

export interface Item extends Size, Point {
  part: Part;
  inner: Scene | null;
  /** Of a single node: the numbers in the user's code that it uses, which have no box of their own. */
  literals: string[];
  /** What stands beside the name of a single node (the user's variables and numbers) has a line of its own. */
  apart: boolean;
  /** A value comes from, or goes to, outside of the group that this is in. */
  entering: boolean;
  leaving: boolean;
}

export interface Wire {
  points: Point[];
  /** The ends are in different kernels. */
  crossing: boolean;
  boundary: Boundary | null;
  values: number;
}

export interface Scene extends Size {
  items: Item[];
  wires: Wire[];
}

/** Room that an open group takes around its scene. */
export const FRAME = { top: 34, side: 6, foot: 6 };
/** Most groups that are opened at once. */
const FEW = 6;
/** A size; of a node's box also whether what stands beside its name has a line of its own. */
type Sized = Size & { apart?: boolean };

const QUIET = new Set(["dead", "cancelled", "merged", "folded", "lost"]);

/** What the chips of kernels take, of which at most `most` are drawn. */
function chipRoom(ids: readonly number[], most: number, relations: Relations): number {
  const widths = ids.map((id) => Math.max(23, relations.kernel(id).length * 7.2 + 15) + 3);
  const shown = widths.length > most ? [...widths.slice(0, most - 1), 26] : widths;
  return shown.reduce((sum, width) => sum + width, 3);
}

export const isQuiet = (kind: string | undefined): boolean => kind !== undefined && QUIET.has(kind);

export class Scenes {
  readonly open = new Set<string>();
  private readonly top: Part[];
  /** Nodes that have a box, in a group or outside. */
  private readonly boxed: ReadonlySet<number>;
  private readonly opened = new Map<string, Part[]>();
  private readonly made = new Map<string, Scene>();
  private readonly parents = new Map<string, string>();

  constructor(
    private readonly relations: Relations,
    tree: readonly Branch[],
  ) {
    this.top = partsOf(tree, relations.nodes);
    this.boxed = new Set(idsIn(tree));
    this.openAlone();
  }

  /** A box that holds everything says nothing: it is opened. */
  private openAlone(): void {
    let parts = this.top;
    for (;;) {
      const [only, ...others] = parts.filter(({ nodes }) => nodes.some(({ kind }) => kind === "op"));
      if (!only?.group || others.length) return;
      this.open.add(only.key);
      parts = this.partsIn(only.key);
    }
  }

  whole(): Scene {
    return this.scene("", this.top);
  }

  get groups(): Part[] {
    return this.top.filter((part) => part.group);
  }

  toggle(key: string, open = !this.open.has(key)): void {
    if (open) this.open.add(key);
    else this.open.delete(key);
    for (let above = this.parents.get(key); above !== undefined; above = this.parents.get(above)) this.made.delete(above);
  }

  /** Opens a group, and in it the groups that hold any of `nodes`, as long as they are few. */
  openTo(key: string, nodes: ReadonlySet<number>): void {
    let waiting = [key];
    for (let opened = 0; waiting.length && opened + waiting.length <= FEW; opened += waiting.length) {
      const next: string[] = [];
      for (const one of waiting) {
        this.toggle(one, true);
        for (const part of this.partsIn(one)) {
          const held = part.group ? part.nodes.filter(({ id }) => nodes.has(id)).length : 0;
          if (held && held < part.nodes.length) next.push(part.key);
        }
      }
      waiting = next;
    }
  }

  private partsIn(key: string): Part[] {
    const known = this.opened.get(key);
    if (known) return known;
    const whole = [this.top, ...this.opened.values()].flat().find((part) => part.key === key);
    const parts = whole ? this.divided(whole) : [];
    this.opened.set(key, parts);
    for (const part of parts) this.parents.set(part.key, key);
    return parts;
  }

  private divided(part: Part): Part[] {
    return part.group ? partsOf(part.group.parts, this.relations.nodes) : [];
  }

  private scene(key: string, parts: Part[]): Scene {
    const known = this.made.get(key);
    if (known) return known;
    for (const part of parts) this.parents.set(part.key, key);
    const scene = this.build(parts);
    this.made.set(key, scene);
    return scene;
  }

  private inside(part: Part): Scene {
    const parts = this.opened.get(part.key) ?? this.divided(part);
    this.opened.set(part.key, parts);
    return this.scene(part.key, parts);
  }

  private build(parts: Part[]): Scene {
    const items: Item[] = parts.map((part) => {
      const literals = this.literalsOf(part);
      const inner = part.group && this.open.has(part.key) ? this.inside(part) : null;
      const size: Sized = inner
        ? { width: Math.max(inner.width, 220) + 2 * FRAME.side, height: inner.height + FRAME.top + FRAME.foot }
        : this.sizeOf(part, literals);
      return { part, inner, literals, apart: false, ...size, x: 0, y: 0, entering: false, leaving: false };
    });
    const links = this.links(items);
    const laid = layOut(
      items,
      links.map(({ ends }) => ends),
      { between: 18, layers: 25 },
    );
    items.forEach((item, i) => Object.assign(item, laid.boxes[i]));
    return {
      width: laid.width,
      height: laid.height,
      items,
      wires: links.map(({ crossing, boundary, values }, i) => ({ crossing, boundary, values, points: laid.ways[i] ?? [] })),
    };
  }

  /** Which parts feed which: one link for all values between two parts. */
  private links(items: Item[]): { ends: [number, number]; crossing: boolean; boundary: Boundary | null; values: number }[] {
    const home = new Map<number, number>();
    items.forEach(({ part }, i) => part.nodes.forEach((node) => home.set(node.id, i)));
    const found = new Map<string, { ends: [number, number]; crossing: boolean; boundary: Boundary | null; values: number }>();
    items.forEach((item, to) => {
      for (const node of item.part.nodes) {
        for (const [operand] of node.operands) {
          const from = home.get(operand);
          if (from === to || this.isTakenIn(operand)) continue;
          if (from === undefined || items[from]?.part.group?.rule === "inputs") {
            item.entering = true; // arrows from all inputs at once would hide the others
            continue;
          }
          const between = this.between(operand, node.id);
          const link = found.get(`${from},${to}`) ?? { ends: [from, to], crossing: true, boundary: null, values: 0 };
          link.values += 1;
          link.crossing &&= between.crossing;
          link.boundary ??= between.boundary;
          found.set(`${from},${to}`, link);
        }
        if (!item.leaving) item.leaving = (this.relations.users.get(node.id) ?? []).some((user) => !home.has(user));
      }
    });
    return [...found.values()];
  }

  /** A number without a box: it stands in the boxes of the operations that use it. */
  private isTakenIn(id: number): boolean {
    return !this.boxed.has(id) && (this.relations.nodes.get(id)?.value ?? null) !== null;
  }

  private literalsOf(part: Part): string[] {
    const [node] = part.nodes;
    if (part.group || !node) return [];
    return node.operands.flatMap(([id]) => {
      const operand = this.relations.nodes.get(id);
      return operand && this.isTakenIn(id) ? [literalWords(operand)] : [];
    });
  }

  private between(producer: number, consumer: number): { crossing: boolean; boundary: Boundary | null } {
    const from = this.relations.clustersOf(producer);
    const to = this.relations.clustersOf(consumer);
    if (!from.length || !to.length || from.some((id) => to.includes(id))) return { crossing: false, boundary: null };
    for (const a of from) {
      for (const b of to) {
        const boundary = this.relations.boundaryBetween.get(`${a}>${b}`);
        if (boundary) return { crossing: true, boundary };
      }
    }
    return { crossing: true, boundary: null };
  }

  /** Characters beside a node's name: the user's variables and the numbers that it uses. */
  private besides(node: Node, literals: readonly string[]): number {
    const names = node.names.filter((name) => name !== nodeTitle(node));
    return [literals.join(" "), names.length ? `= ${names.join(", ")}` : ""].join(" ").trim().length;
  }

  private groupSize(part: Part, held: Group): Size {
    const flag = part.nodes.some(({ output }) => output) ? 72 : 0;
    const clusters = new Set(part.nodes.flatMap(({ id }) => this.relations.clustersOf(id)));
    const words = contentsOf(held, part.nodes).length * 6.7 + 28;
    const last = linesOf(held).length * 6.2 + chipRoom([...clusters], 4, this.relations) + 34;
    const width = Math.round(Math.min(340, Math.max(236, titleOf(held).length * 7.6 + 60 + flag, words, last)));
    return { width, height: words > width ? 81 : 66 };
  }

  private sizeOf(part: Part, literals: readonly string[]): Sized {
    if (part.group) return this.groupSize(part, part.group);
    const node = part.nodes[0];
    if (!node) return { width: 120, height: 40 };
    const fate = this.relations.fates.get(node.id);
    const beside = this.besides(node, literals) * 7.5;
    const flags =
      46 +
      chipRoom(fate?.clusters ?? [], 3, this.relations) +
      (node.output ? 51 : 0) +
      (this.relations.moves.has(node.id) ? 28 : 0);
    const label = Math.max(
      nodeTitle(node).length * 8.2 + flags,
      (shortAval(node.avals[0] ?? "").length + (node.place?.label.length ?? 0) + 3) * 6.4 + 26,
    );
    const side = nodeTitle(node).length * 8.2 + flags + beside;
    const input = node.kind === "input";
    const apart = !input && side > 300;
    const width = Math.round(Math.min(input ? 208 : 440, Math.max(118, label, apart ? beside + 26 : side)));
    if (input) return { width: width + 12, height: 40 };
    const height = apart ? 60 : 44;
    if (!isQuiet(fate?.kind)) return { width, height, apart };
    const words = (fate?.text ?? "").length * 6.1;
    const wide = Math.round(Math.max(width, 176, Math.min(words + 30, 220)));
    return { width: wide, height: height + 1 + 15 * Math.max(1, Math.min(3, Math.ceil(words / (wide - 30)))), apart };
  }
}
