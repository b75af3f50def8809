/** What Python sends (version 1) and what the widget and the kernel say to each other. A figure that is not known is null. */

export type Label = "compiler said" | "rule inferred" | "verified by recompiling";
export type FateKind = "own kernel" | "fused" | "library" | "folded" | "merged" | "cancelled" | "dead" | "lost";
export type ClusterKind = "loop" | "input" | "output" | "custom" | "library" | "single" | "control";
export type Which = "before" | "after";

export interface Inspection {
  version: 1;
  title: string;
  /** A kernel answers messages; false in saved files. */
  live: boolean;
  ran: boolean;
  sources: Source[];
  /** In trace order: operands have smaller ids. */
  nodes: Node[];
  fates: Fate[];
  /** followed + inferred + lost = operations */
  coverage: { operations: number; followed: number; inferred: number; lost: number };
  programs: Program[];
  /** Of all programs, in the order in which they run. */
  clusters: Cluster[];
  boundaries: Boundary[];
  /** Measured peak of this machine: FLOP/s and bytes/s. */
  machine: Machine | null;
  cache: Table;
  breaks: Table;
  /** Plain sentences: what is missing, and why. */
  notes: string[];
}

export interface Machine {
  flops: number | null;
  bandwidth: number | null;
  text: string;
}

export interface Table {
  columns: string[];
  rows: string[][];
  text: string;
}

export interface Source {
  file: string;
  cell: number | null;
  /** Number of the first of `lines`. */
  first: number;
  lines: string[];
}

export interface Place {
  label: string;
  line: number;
  text: string;
  cell: number | null;
  /** Index in sources. */
  source: number | null;
}

export interface Node {
  id: number;
  kind: "input" | "op";
  name: string;
  primitive: string;
  /** (node, which of its results) */
  operands: [number, number][];
  avals: string[];
  place: Place | null;
  /** Operations of one call of a function share the number. */
  call: number | null;
  scope: string;
  /** The user's variables. */
  names: string[];
  value: string | null;
  output: boolean;
  dead: boolean;
}

export interface Fate {
  node: number;
  kind: FateKind;
  clusters: number[];
  /** The node it was merged with. */
  with: number | null;
  /** The XLA pass, '' if none. */
  by: string;
  text: string;
  label: Label;
}

export interface Program {
  number: number;
  operations: number;
  cache: string;
  compile_seconds: number;
  backend: string;
  hlo: { before: Stage; after: Stage; passes: PassInfo[] };
  memory: Memory | null;
}

export interface Stage {
  /** null: too long for the message, ask for it. */
  text: string | null;
  lines: HloLine[];
}

export interface HloLine {
  text: string;
  /** '' where the line is not an instruction. */
  name: string;
  nodes: number[];
  cluster: number | null;
  computation: string;
}

export interface PassInfo {
  index: number;
  pipeline: string;
  name: string;
  /** Instructions; null where nobody has counted yet. */
  added: number | null;
  removed: number | null;
  rewritten: number | null;
  fused: number | null;
  /** null: ask for them. */
  changes: Change[] | null;
}

export interface Change {
  kind: "added" | "removed" | "rewritten" | "fused";
  name: string;
  /** The instruction's line, '' where there is none. */
  before: string;
  after: string;
  nodes: number[];
  /** The fusion instruction, for "fused". */
  into: string;
}

export interface Cluster {
  id: number;
  program: number;
  name: string;
  opcode: string;
  kind: ClusterKind;
  /** "YNNPACK", "oneDNN", "LAPACK", '' for none. */
  library: string;
  root: string;
  /** Cluster of the loop that it runs in. */
  inside: number | null;
  nodes: number[];
  instructions: string[];
  /** Nodes that are also computed in another cluster. */
  duplicated: number[];
  inputs: Value[];
  outputs: Value[];
  input_bytes: number;
  output_bytes: number;
  passes: string[];
  /** The line that most of it was written on. */
  place: Place | null;
  /** Of one execution. */
  cost: { flops: number | null; transcendentals: number | null; bytes: number | null; source: string } | null;
  /** null: not measured. */
  time: Time | null;
  /** Index in the palette. */
  colour: number;
}

/** Seconds, of all executions in one run of the program. */
export interface Time {
  median: number;
  low: number;
  high: number;
  runs: number;
  /** Executions in one run: several for a kernel in a loop. */
  calls: number;
}

export interface Value {
  /** Cluster. */
  from: number | null;
  /** Input node. */
  node: number | null;
  name: string;
  shape: string;
  bytes: number;
}

export interface Boundary {
  id: number;
  producer: number;
  /** null: the program's result. */
  consumer: number | null;
  shape: string;
  bytes: number;
  /** The instruction whose value is written. */
  value: string;
  /** "kept-alive", "several-users", ... */
  code: string;
  /** The reason, a sentence in the user's words. */
  text: string;
  /** What to change, may be ''. */
  hint: string;
  label: Label;
  /** The compiler's own words, '' if not asked. */
  said: string;
  /** The user's, that keep the value alive. */
  variables: string[];
  /** An experiment that can be run. */
  verify: string | null;
  /** What the experiment showed, '' before. */
  verdict: string;
}

export interface Memory {
  peak_bytes: number | null;
  argument_bytes: number | null;
  output_bytes: number | null;
  temp_bytes: number | null;
  alias_bytes: number | null;
  /** The instruction at each time. */
  steps: string[];
  peak_step: number | null;
  buffers: Buffer[];
  source: string;
}

export interface Buffer {
  name: string;
  bytes: number;
  start: number;
  end: number;
  kind: "argument" | "output" | "temp" | "constant";
  allocation: number;
  /** Other values in the same memory. */
  shares: string[];
  donated: boolean;
  nodes: number[];
  cluster: number | null;
}

/** What the widget asks; an `id` is added when it is sent, and the answer carries the same. */
export type Request =
  | { type: "pass"; program: number; index: number }
  | { type: "stage"; program: number; which: Which }
  | { type: "ask" }
  | { type: "verify"; boundary: number }
  | { type: "profile" };

export type Answer =
  | { type: "pass"; program: number; index: number; changes: Change[] }
  | { type: "stage"; program: number; which: Which; stage: Stage }
  | { type: "boundaries"; boundaries: Boundary[] }
  | { type: "boundary"; boundary: Boundary }
  | { type: "times"; clusters: { id: number; time: Time | null }[]; machine: Machine | null }
  | { type: "error"; message: string };
