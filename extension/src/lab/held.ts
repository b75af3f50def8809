/**
 * Which lines of a cell still read as they were run. Each mark follows its line through the changes of the text; where the line reads
 * otherwise it is not shown, and comes back when the change is undone.
 */

import type { ChangeDesc, Text } from "@codemirror/state";
import { isMarked } from "./marks";
import type { Line } from "./messages";

export interface Held {
  readonly line: Line;
  /** Where its line begins, or began. */
  readonly at: number;
  /** The line there reads as it was run. */
  readonly holds: boolean;
  /** Of a line that reads otherwise: where its text was pushed to by what was typed at its beginning. */
  readonly pushed?: number;
}

/**
 * Marks as they came, put on a text: all at their own numbers, where they fit there. Otherwise the text was changed meanwhile, and
 * only a line that is like no other is sure to be the one: at its number, or where its text is found once.
 */
export function place(text: Text, lines: readonly Line[]): Held[] {
  const marked = lines.filter(isMarked);
  const fits = ({ line, text: words }: Line) => line >= 1 && line <= text.lines && text.line(line).text === words;
  const all = marked.every(fits);
  const times = new Map<string, number>();
  for (const line of marked) times.set(line.text, (times.get(line.text) ?? 0) + 1);
  const found = all ? null : spotsOf(text);
  return marked.map((line) => {
    const sure = all || (times.get(line.text) === 1 && line.text.trim() !== "");
    const spots = found?.get(line.text);
    if (sure && fits(line)) return { line, at: text.line(line.line).from, holds: true };
    if (sure && spots?.length === 1) return { line, at: spots[0] as number, holds: true };
    return { line, at: 0, holds: false };
  });
}

/** Where each line of a text begins, by what it reads. */
function spotsOf(text: Text): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (let n = 1; n <= text.lines; n += 1) {
    const { text: words, from } = text.line(n);
    const spots = found.get(words);
    if (spots) spots.push(from);
    else found.set(words, [from]);
  }
  return found;
}

/** The marks after a change of the text. Lines that were not touched come first: what was touched takes none of theirs. */
export function follow(held: readonly Held[], before: Text, after: Text, changes: ChangeDesc): Held[] {
  if (!held.length) return [];
  if (isReplaced(before, changes))
    return place(
      after,
      held.map(({ line }) => line),
    );
  const taken = new Set<number>();
  const made: (Held | null)[] = held.map(({ line, at, holds }) => {
    if (!holds || changesWithin(changes, at, at + line.text.length)) return null;
    const moved = changes.mapPos(at, 1);
    const { from, text } = after.lineAt(moved);
    if (from !== moved || text !== line.text) return null; // something was put at its beginning or its end
    taken.add(moved);
    return { line, at: moved, holds: true };
  });
  return made.map((one, i) => one ?? again(held[i] as Held, after, changes, taken));
}

/** Whether something changed between two places, not merely at one of them. */
function changesWithin(changes: ChangeDesc, from: number, to: number): boolean {
  let within = false;
  changes.iterChangedRanges((start, end) => (within ||= start < to && end > from), true);
  return within;
}

/** All of the text was put in anew, as a file that is read again is. */
function isReplaced(before: Text, changes: ChangeDesc): boolean {
  let whole = false;
  changes.iterChangedRanges((from, to) => (whole ||= from === 0 && to === before.length));
  return whole;
}

/** A mark whose line was touched: the line may have moved as it was, or be what it was again. */
function again({ line, at, pushed = at }: Held, after: Text, changes: ChangeDesc, taken: Set<number>): Held {
  const first = changes.mapPos(at, -1);
  const last = changes.mapPos(pushed, 1);
  for (const spot of [last, changes.mapPos(at, 1), first]) {
    const found = after.lineAt(spot);
    if (found.text !== line.text || taken.has(found.from)) continue;
    taken.add(found.from);
    return { line, at: found.from, holds: true };
  }
  return { line, at: first, holds: false, pushed: last };
}
