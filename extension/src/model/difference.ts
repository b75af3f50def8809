/** The words in which two lines differ. */

export type Range = readonly [from: number, to: number];

/** Words above this many are compared at the ends alone. */
const MOST = 500;
const WORD = /[\w.#-]+|\s+|[^\w\s]/g;

/** Where the words are that only one of two texts has, in each. */
export function difference(before: string, after: string): { before: Range[]; after: Range[] } {
  const a = before.match(WORD) ?? [];
  const b = after.match(WORD) ?? [];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const kept = common(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return {
    before: ranges(a, head, a.length - tail, new Set(kept.map(([i]) => i))),
    after: ranges(b, head, b.length - tail, new Set(kept.map(([, j]) => j))),
  };
}

/** The longest common subsequence, as pairs of positions. */
function common(a: readonly string[], b: readonly string[]): [number, number][] {
  if (a.length > MOST || b.length > MOST) return [];
  const width = b.length + 1;
  const length = new Uint16Array((a.length + 1) * width);
  const at = (i: number, j: number) => length[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      length[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const found: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) found.push([i++, j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i += 1;
    else j += 1;
  }
  return found;
}

/** The words from `head` to `end` but for those that are kept; neighbours are one range. */
function ranges(words: readonly string[], head: number, end: number, kept: ReadonlySet<number>): Range[] {
  const found: [number, number][] = [];
  let at = 0;
  words.forEach((word, i) => {
    if (i >= head && i < end && !kept.has(i - head)) {
      const last = found.at(-1);
      if (last && last[1] === at) last[1] += word.length;
      else found.push([at, at + word.length]);
    }
    at += word.length;
  });
  return found;
}
