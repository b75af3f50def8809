/** Which part of a picture that is larger than its window is shown first. */

import type { Point, Size } from "./layout";

/** What a window holds that begins at `x`. */
interface Window {
  x: number;
  boxes: number;
}

/** Of the boxes that are in sight before one could choose better: then the picture is shown from where it begins. */
const ENOUGH = 0.75;

/** The corner of a window in which nearly the most boxes of one size lie whole: the highest of such, then the leftmost. */
export function fullest(corners: readonly Point[], box: Size, sight: Size): Point | null {
  const tops = [...new Set(corners.map(({ y }) => y))].sort((a, b) => a - b);
  const windows = tops.map((top) => {
    const row = corners.filter(({ y }) => y >= top && y + box.height <= top + sight.height);
    return {
      y: top,
      ...widest(
        row.map(({ x }) => x).sort((a, b) => a - b),
        sight.width - box.width,
      ),
    };
  });
  const most = Math.max(0, ...windows.map(({ boxes }) => boxes));
  const found = windows.find(({ boxes }) => boxes >= ENOUGH * most);
  return found ? { x: found.x, y: found.y } : null;
}

/** The first window with the most boxes, whose left ends are `lefts` and no further apart than `width`. */
function widest(lefts: readonly number[], width: number): Window {
  let best: Window = { x: lefts[0] ?? 0, boxes: 0 };
  let first = 0;
  lefts.forEach((left, last) => {
    while (left > (lefts[first] as number) + width && first < last) first += 1;
    if (last - first + 1 > best.boxes) best = { x: lefts[first] as number, boxes: last - first + 1 };
  });
  return best;
}
