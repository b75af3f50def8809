/** The link to the kernel of the notebook in which an output stands. The renderer of outputs is made before the extension that has links. */

import type { Link } from "./link";

/** Milliseconds without an answer after which it is said that the kernel is busy. */
export const SLOW = 800;
export const BUSY = "The kernel is busy: this comes when it is free.";

type Find = (element: Element) => Link | null;

let find: Find = () => null;
const listeners = new Set<() => void>();

/** The extension has links. */
export function provide(how: Find): void {
  find = how;
  changed();
}

/** A link came, went or heard something. */
export function changed(): void {
  for (const listener of listeners) listener();
}

/** null: the output stands in no notebook whose kernel has lazynb. */
export function linkAt(element: Element): Link | null {
  const link = find(element);
  return link?.alive ? link : null;
}

/** Returns what stops it. */
export function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
