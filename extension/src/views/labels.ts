/** Places labels beside points so that none covers another label, a point or what is drawn already. */

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Labelled {
  x: number;
  y: number;
  width: number;
}

const HEIGHT = 13;
const GAP = 7;
const WAYS = [
  [1, 0],
  [0, -1],
  [0, 1],
  [-1, 0],
  [1, -1],
  [-1, -1],
  [1, 1],
  [-1, 1],
] as const;
const FURTHER = [0, 8, 18];

const meet = (a: Box, b: Box): boolean =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

const inside = (a: Box, b: Box): boolean =>
  a.x >= b.x && a.y >= b.y && a.x + a.width <= b.x + b.width && a.y + a.height <= b.y + b.height;

/** A box of each label, the first ones where they are best; null where there is no room. */
export function placed(points: readonly Labelled[], within: Box, taken: readonly Box[]): (Box | null)[] {
  const full = [...taken];
  return points.map(({ x, y, width }) => {
    for (const more of FURTHER)
      for (const [dx, dy] of WAYS) {
        const away = GAP + more * (dx && dy ? 0.7 : 1);
        const box = {
          x: x + dx * away - (dx > 0 ? 0 : dx < 0 ? width : width / 2),
          y: y + dy * away - (dy > 0 ? 0 : dy < 0 ? HEIGHT : HEIGHT / 2),
          width,
          height: HEIGHT,
        };
        if (inside(box, within) && !full.some((other) => meet(box, other))) {
          full.push(box);
          return box;
        }
      }
    return null;
  });
}

/** The first of several places that meets the fewest of what is drawn. */
export function freest<P extends { box: Box }>(places: readonly P[], taken: readonly Box[]): P {
  const meetings = places.map(({ box }) => taken.filter((one) => meet(one, box)).length);
  return places[meetings.indexOf(Math.min(...meetings))] as P;
}
