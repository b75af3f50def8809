/** How nodes are called. */

import type { CompileTimes, Node, Program } from "./data";
import { listed, seconds } from "./format";

/** A number in the user's code, which has no name but its value. */
export const isLiteral = (node: Node): boolean =>
  node.kind === "input" && node.value !== null && !node.names.length && (node.avals[0] ?? "").endsWith("[]");

/** A number as it stands in an operation: "0.01", "lr=0.01". */
export const literalWords = ({ names, value }: Node): string => (names[0] ? `${names[0]}=${value ?? ""}` : (value ?? ""));

export function nodeTitle(node: Node): string {
  if (isLiteral(node)) return node.value ?? "";
  return node.name || node.names[0] || node.primitive || node.kind;
}

export function nodeWords(node: Node): string {
  const own = node.names.filter((name) => name !== nodeTitle(node));
  return own.length ? `${nodeTitle(node)} (${listed(own, 3)})` : nodeTitle(node);
}

/** How a program was come by: "compiled in 193 ms", "loaded in 28 ms (disk)", "cache hit", "given compiled". */
export function came({ cache, compile_seconds: time }: Program): string {
  const known = Number.isFinite(time);
  if (cache === "hit") return "cache hit";
  if (cache === "given") return "given compiled"; // in a time that lazynb does not know
  if (cache === "disk") return known ? `loaded in ${seconds(time)} (disk)` : "loaded (disk)";
  if (cache === "compiled" || !cache) return known ? `compiled in ${seconds(time)}` : cache;
  return known ? `${cache} in ${seconds(time)}` : cache;
}

/** "Lowering 12 ms, compiling 50 ms, of which XLA 44 ms: XLA's own timing of this compilation." */
export function times(known: CompileTimes | null): string {
  if (!known) return "What compiling took is not known.";
  const { lowering, compiling, loading, xla, source, why_not: why } = known;
  const parts = [
    ["lowering", lowering],
    ["compiling", compiling],
    ["loading", loading],
  ].flatMap(([name, time]) => (typeof time === "number" ? [`${name} ${seconds(time)}`] : []));
  if (xla !== null) parts.push(`${compiling === null ? "" : "of which "}XLA ${seconds(xla)}`);
  const text = parts.join(", ");
  const because = xla === null ? why : `${source}.`;
  return text ? `${text[0]?.toUpperCase()}${text.slice(1)}${xla === null ? "." : ":"} ${because}`.trim() : because;
}

const SHORT: [RegExp, string][] = [
  [/^bfloat/, "bf"],
  [/^float/, "f"],
  [/^uint/, "u"],
  [/^int/, "i"],
  [/^complex/, "c"],
];

/** "f32[2,3]" of "float32[2,3]" */
export function shortAval(aval: string): string {
  const found = SHORT.find(([long]) => long.test(aval));
  return found ? aval.replace(...found) : aval;
}
