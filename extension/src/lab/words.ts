/** The words of marks and of the status bar. */

import { count, listed, seconds } from "../model/format";
import type { Busy } from "./link";
import { MOST, weightOf } from "./marks";
import type { Break, Line, State } from "./messages";

/** A line's marks in one sentence, for who cannot see them. */
export function inBrief(line: Line): string {
  const said = [];
  if (line.kernels.length)
    said.push(`${line.kernels.length === 1 ? "kernel" : "kernels"} ${listed(line.kernels.map(({ chip }) => chip))}`);
  else if (line.fates.length) said.push("in no kernel");
  if (line.breaks.length) said.push(count(breaksOf(line), "trace break"));
  return `line ${line.line}: ${said.join(", ")}`;
}

export const breaksOf = ({ breaks }: Line): number => breaks.reduce((sum, one) => sum + one.count, 0);

/** "3 times · 2 compilations · 41.5 ms · costliest of the session" */
export function costOf(one: Break): string {
  const said = [one.count === 1 ? "once" : `${one.count.toLocaleString("en")} times`];
  if (one.operations) said.push(count(one.operations, "operation"));
  if (one.compiles) said.push(count(one.compiles, "compilation"));
  said.push(seconds(one.seconds));
  if (one.rank === 1) said.push("costliest of the session");
  return said.join(" · ");
}

/** What the marks of a line mean that its card does not say by itself: dashes, colours left out, sizes of a diamond. */
export function legendOf(line: Line): string {
  const said = [];
  const colours = new Set(line.kernels.map(({ colour }) => colour)).size;
  if (colours > MOST) said.push(`The stripe has ${MOST} of its ${colours} colours.`);
  if (!line.kernels.length && line.fates.length) said.push("Dashes: its operations are in no kernel.");
  const weight = weightOf(line);
  if (weight) said.push(DIAMONDS[weight]);
  return said.join(" ");
}

export const DIAMONDS = {
  1: "A large diamond: the break that cost most in this session.",
  2: "A small full diamond: the second and third of the breaks that cost most.",
  3: "A hollow diamond: three breaks or more cost more.",
};

export interface Figure {
  name: string;
  value: string;
  title: string;
}

/** The figures of the status bar, in its order. */
export function figures(state: State): Figure[] {
  const n = (x: number) => x.toLocaleString("en");
  const words = (value: number, one: string, many = `${one}s`) => (value === 1 ? one : many);
  return [
    { name: "pending", value: n(state.pending), title: "operations recorded, not yet run" },
    { name: words(state.executables, "executable"), value: n(state.executables), title: "compiled programs in the cache" },
    {
      name: "hits",
      value: `${n(state.hits)}/${n(state.hits + state.misses)}`,
      title: "runs that found their executable, of all runs",
    },
    { name: words(state.breaks, "break"), value: n(state.breaks), title: `trace breaks; ${seconds(state.seconds)} lost to them` },
  ];
}

/** Whole seconds a compilation has taken. */
export const elapsed = (busy: Busy, now: number): number => Math.max(0, Math.floor((now - busy.since) / 1000));

/** "compiling 812 operations, cell 4, 3 s" */
export function compilingWords(busy: Busy, now: number): string {
  return [`compiling ${count(busy.operations, "operation")}`, busy.label, clock(elapsed(busy, now))].filter(Boolean).join(", ");
}

function clock(total: number): string {
  return total < 60 ? `${total} s` : `${Math.floor(total / 60)} min ${total % 60} s`;
}
