/** The places of a program's instructions at each of XLA's passes: laid out once, drawn together where they are one kernel. */

import type { Formation, FormedBox, BoxState } from "../model/data";
import { homesOf, standAt } from "../model/formation";
import { add } from "../model/program";
import { type Point, type Size, layOut } from "./layout";

export const BOX: Size = { width: 128, height: 38 };
const GAP: Size = { width: 20, height: 22 };
const TIGHT: Size = { width: 6, height: 5 };
/** Room of a hull around its boxes; the name of the kernel stands in it. */
const RIM = { top: 22, side: 7, foot: 7 };
/** Room between blocks: the boxes of one kernel. */
const APART = 14;
const BELOW = 20;
/** Most boxes of a kernel that are laid out by who reads whom; more stand in rows. */
const FEW = 60;

/** A kernel of several instructions at a stage, or a part of it that stands elsewhere. */
export interface Hull extends Point, Size {
  key: string;
  /** The instruction that would run it. */
  kernel: string;
  boxes: number[];
}

export interface Frame {
  /** Upper left corner of each box that is there. */
  places: Map<number, Point>;
  hulls: Hull[];
  /** Who reads whom; whether the value goes from kernel to kernel. */
  wires: [from: number, to: number, crossing: boolean][];
}

export class Formed implements Size {
  readonly width: number;
  readonly height: number;
  /** The place of each box as long as it is alone. */
  readonly homes = new Map<number, Point>();
  private readonly blockOf = new Map<number, string>();
  private readonly frames = new Map<number, Frame>();

  /** `shown`: the boxes that have a place. */
  constructor(
    private readonly formation: Formation,
    shown: ReadonlySet<number>,
  ) {
    const kernels = homesOf(formation);
    const blocks = new Map<string, number[]>();
    for (const id of [...shown].sort((a, b) => a - b)) {
      const kernel = kernels[id] ?? "";
      this.blockOf.set(id, kernel);
      add(blocks, kernel, id);
    }
    const all = [...blocks.values()];
    const inner = all.map((ids) => this.inside(ids));
    const at = new Map(all.flatMap((ids, i) => ids.map((id) => [id, i] as const)));
    const between = this.pairs(at, (a, b) => a !== b);
    const laid = closer(inner, between, layOut(inner, between, { between: APART, layers: BELOW }).boxes);
    all.forEach((ids, i) =>
      ids.forEach((id, n) => {
        const corner = laid[i] as Point;
        const own = inner[i]?.places[n] as Point;
        this.homes.set(id, { x: corner.x + own.x, y: corner.y + own.y });
      }),
    );
    this.width = Math.max(0, ...inner.map((size, i) => size.width + (laid[i] as Point).x)) + 12;
    this.height = Math.max(0, ...inner.map((size, i) => size.height + (laid[i] as Point).y)) + 12;
  }

  /** Who reads whom at any time, each pair once, by the numbers that `at` gives the boxes. */
  private pairs(at: ReadonlyMap<number, number>, wanted: (a: number, b: number) => boolean): [number, number][] {
    const found = new Map<string, [number, number]>();
    for (const [from, to] of this.formation.links) {
      const [a, b] = [at.get(from), at.get(to)];
      if (a !== undefined && b !== undefined && wanted(a, b)) found.set(`${a},${b}`, [a, b]);
    }
    return [...found.values()];
  }

  /** The boxes of one kernel, and of what stood beside them: one that comes when another has gone takes its place. */
  private inside(ids: readonly number[]): Size & { places: Point[] } {
    const slots: { opcode: string; end: number }[] = [];
    const slotOf = ids.map((id) => {
      const { stands, end } = this.formation.boxes[id] as FormedBox;
      const [{ stage, opcode }] = stands as [BoxState];
      const free = slots.filter((slot) => slot.end <= stage);
      const slot = free.find((one) => one.opcode === opcode) ?? free[0] ?? slots[slots.push({ opcode, end: 0 }) - 1];
      return slots.indexOf(Object.assign(slot as object, { opcode: stands.at(-1)?.opcode, end: end ?? Infinity }) as never);
    });
    const laid = this.arranged(slots.length, new Map(ids.map((id, n) => [id, slotOf[n] as number])));
    return { ...laid, places: slotOf.map((slot) => laid.places[slot] as Point) };
  }

  /** The places of `count` slots, by who reads whom in them. */
  private arranged(count: number, slotOf: ReadonlyMap<number, number>): Size & { places: Point[] } {
    const rim = (size: Size): Size => ({ width: size.width, height: size.height + RIM.top - 12 });
    const lower = ({ x, y }: Point): Point => ({ x, y: y + RIM.top - 12 });
    if (count <= FEW) {
      const laid = layOut(
        Array.from({ length: count }, () => BOX),
        this.pairs(slotOf, (a, b) => a !== b),
        { between: GAP.width, layers: GAP.height },
      );
      return { ...rim(laid), places: laid.boxes.map(lower) };
    }
    const rows = Math.ceil(Math.sqrt(count * 2));
    const places = Array.from({ length: count }, (_, n) => ({
      x: 12 + Math.floor(n / rows) * (BOX.width + GAP.width),
      y: 12 + (n % rows) * (BOX.height + GAP.height),
    }));
    const last = places.at(-1) as Point;
    return {
      ...rim({ width: last.x + BOX.width + 12, height: 24 + rows * (BOX.height + GAP.height) }),
      places: places.map(lower),
    };
  }

  frame(stage: number): Frame {
    const known = this.frames.get(stage);
    if (known) return known;
    const together = new Map<string, number[]>();
    const kernelOf = new Map<number, string>();
    for (const id of this.homes.keys()) {
      const stand = standAt(this.formation.boxes[id] as Formation["boxes"][number], stage);
      if (!stand) continue;
      kernelOf.set(id, stand.kernel);
      const key = `${stand.kernel}|${this.blockOf.get(id)}`;
      add(together, key, id);
    }
    const sizes = new Map<string, number>();
    for (const kernel of kernelOf.values()) sizes.set(kernel, (sizes.get(kernel) ?? 0) + 1);
    const places = new Map<number, Point>();
    const hulls: Hull[] = [];
    for (const ids of together.values()) {
      const kernel = kernelOf.get(ids[0] as number) as string;
      if (sizes.get(kernel) === 1) places.set(ids[0] as number, this.homes.get(ids[0] as number) as Point);
      else
        hulls.push({ ...this.gather(ids, places), kernel, boxes: ids, key: `${this.blockOf.get(ids[0] as number)}|${ids[0]}` });
    }
    const made = { places, hulls, wires: this.wires(stage, kernelOf) };
    this.frames.set(stage, made);
    return made;
  }

  /** Moves boxes close to each other, in the order in which they stand; gives the hull around them. */
  private gather(ids: readonly number[], places: Map<number, Point>): Point & Size {
    const rows = new Map<number, number[]>();
    for (const id of ids) {
      add(rows, (this.homes.get(id) as Point).y, id);
    }
    const levels = [...rows].sort(([a], [b]) => a - b).map(([, row]) => row.sort((a, b) => this.x(a) - this.x(b)));
    const middle = ids.reduce((sum, id) => sum + this.x(id), 0) / ids.length + BOX.width / 2;
    const centre = ids.reduce((sum, id) => sum + (this.homes.get(id) as Point).y, 0) / ids.length + BOX.height / 2;
    const tall = levels.length * (BOX.height + TIGHT.height) - TIGHT.height;
    const wide = Math.max(...levels.map((row) => row.length * (BOX.width + TIGHT.width) - TIGHT.width));
    levels.forEach((row, i) => {
      const width = row.length * (BOX.width + TIGHT.width) - TIGHT.width;
      row.forEach((id, n) =>
        places.set(id, {
          x: middle - width / 2 + n * (BOX.width + TIGHT.width),
          y: centre - tall / 2 + i * (BOX.height + TIGHT.height),
        }),
      );
    });
    return {
      x: middle - wide / 2 - RIM.side,
      y: centre - tall / 2 - RIM.top,
      width: wide + 2 * RIM.side,
      height: tall + RIM.top + RIM.foot,
    };
  }

  private x(id: number): number {
    return (this.homes.get(id) as Point).x;
  }

  private wires(stage: number, kernelOf: ReadonlyMap<number, string>): Frame["wires"] {
    return this.formation.links.flatMap(([from, to, start, end]) => {
      const [a, b] = [kernelOf.get(from), kernelOf.get(to)];
      return stage >= start && stage < end && a !== undefined && b !== undefined ? [[from, to, a !== b] as const] : [];
    }) as Frame["wires"];
  }
}

/** Moves blocks up as far as there is room, below those that they read. */
function closer(sizes: readonly Size[], links: readonly (readonly [number, number])[], corners: readonly Point[]): Point[] {
  const made = corners.map((corner) => ({ ...corner }));
  const above = new Map<number, number[]>();
  for (const [from, to] of links) add(above, to, from);
  const order = [...made.keys()].sort((a, b) => (corners[a] as Point).y - (corners[b] as Point).y);
  order.forEach((id, n) => {
    const own = made[id] as Point;
    const right = own.x + (sizes[id] as Size).width + APART;
    own.y = 8;
    for (const other of order.slice(0, n)) {
      const [at, size] = [made[other] as Point, sizes[other] as Size];
      if (above.get(id)?.includes(other) || (at.x < right && own.x < at.x + size.width + APART))
        own.y = Math.max(own.y, at.y + size.height + BELOW);
    }
  });
  return made;
}
