/** The instructions of a program through XLA's passes: what each is at a stage, and which of them are drawn. */

import type { Formation, FormedBox, BoxState } from "./data";

/** Most boxes that are drawn at once. */
export const MOST = 600;

/** What a box is at a stage; null if it is not there. */
export function standAt(box: FormedBox, stage: number): BoxState | null {
  if (box.end !== null && stage >= box.end) return null;
  let found: BoxState | null = null;
  for (const stand of box.stands) if (stand.stage <= stage) found = stand;
  return found;
}

/** The box that does the work of another to the end, as far as that is known. */
function heir(boxes: readonly FormedBox[], id: number): number {
  let at = id;
  for (let steps = 0; steps < boxes.length; steps += 1) {
    const next = boxes[at]?.into;
    if (next === null || next === undefined) break;
    at = next;
  }
  return at;
}

/** By box, the kernel in which it ends; of one that was removed, the one beside which it stood; "" if there is none. */
export function homesOf({ boxes, links }: Formation): string[] {
  const homes = boxes.map((box) => (box.end === null ? (box.stands.at(-1)?.kernel ?? "") : ""));
  boxes.forEach((_, id) => (homes[id] ||= homes[heir(boxes, id)] ?? ""));
  for (let changed = true; changed;) {
    changed = false;
    const give = (to: number, from: number) => {
      if (homes[to] || !homes[from]) return;
      homes[to] = homes[from];
      changed = true;
    };
    for (let i = links.length - 1; i >= 0; i -= 1) give(...(links[i]?.slice(0, 2) as [number, number])); // with what reads it
    if (!changed) for (const [from, to] of links) give(to, from);
  }
  return homes;
}

/** The boxes that are drawn: all, or those around the first of `seeds`. */
export function drawable({ boxes, links }: Formation, seeds: readonly number[], most = MOST): Set<number> {
  if (boxes.length <= most) return new Set(boxes.keys());
  const beside: number[][] = boxes.map(() => []);
  for (const [from, to] of links) {
    beside[from]?.push(to);
    beside[to]?.push(from);
  }
  boxes.forEach(({ source, into }, id) => {
    for (const other of [source, into])
      if (other !== null) {
        beside[id]?.push(other);
        beside[other]?.push(id);
      }
  });
  const found = new Set<number>();
  for (const waiting of [[...seeds], [...boxes.keys()]])
    for (let i = 0; i < waiting.length && found.size < most; i += 1) {
      const id = waiting[i] as number;
      if (found.has(id)) continue;
      found.add(id);
      if (waiting.length < 4 * most) waiting.push(...(beside[id] ?? []).filter((one) => !found.has(one)));
    }
  return found;
}
