/**
 * What Python sends (version 1), and what the widget and the kernel say to each other.
 * A figure that is not known is null.
 *
 * Made from lazynb/xla/inspection_schema.py by scripts/front_end_data.py: change it there, run the script.
 */

/** How something about a compiled program is known. */
export type Label =
  "compiler said" | "rule inferred" | "verified by recompiling" | "lazynb decided" | "absent in the first pass" | "not known";

export type FateKind = "own kernel" | "fused" | "library" | "transfer" | "folded" | "merged" | "cancelled" | "dead" | "lost";

export type ClusterKind = "loop" | "input" | "output" | "custom" | "library" | "single" | "transfer" | "control";

export type HloStage = "before" | "after";

/**
 * Nodes that are drawn as one box until it is opened; `parts` are node ids and groups, two or more. `rule` says what put them
 * together: `call`, `loop` (turns of the user's), `turns` (some of them), `scope`, `line`, `cell`, `chunk`, `inputs`, or `dead`
 * for the operations that a stored drawing leaves out. A loop opens to its first turn, and a group of the others. `inside` says
 * in brief what the group holds, `where` the lines on which that was written; both are empty for a turn, since its loop says so.
 */
export interface Group {
  id: number;
  rule: string;
  label: string;
  inside: string;
  where: string;
  parts: (number | Group)[];
}

/** A cell or a part of a file, as written. */
export interface Source {
  file: string;
  cell: number | null;
  /** Number of the first of `lines`. */
  first: number;
  lines: string[];
}

/** A line of the user's code. */
export interface Place {
  label: string;
  line: number;
  text: string;
  cell: number | null;
  /** Index in the inspection's sources. */
  source: number | null;
}

/** A line of the user's code, whether or not it recorded anything. */
export interface LineReference {
  label: string;
  line: number;
  text: string;
  cell: number | null;
  /** Index in the inspection's sources. */
  source: number | null;
  /** The key of its file, see `file_key`. */
  file: string;
}

/** A recorded operation or an input. */
export interface Node {
  id: number;
  kind: "input" | "op";
  name: string;
  primitive: string;
  /** (node, which of its results) */
  operands: [number, number][];
  avals: string[];
  place: Place | null;
  /** The other lines it stands on: of calls that it is inside of, of a gradient. */
  callers: Place[];
  /** Operations of one call of a function share the number. */
  call: number | null;
  scope: string;
  /** The user's variables. */
  names: string[];
  value: string | null;
  output: boolean;
  dead: boolean;
}

/** What became of one operation. */
export interface Fate {
  node: number;
  kind: FateKind;
  clusters: number[];
  /** The node that it was merged with. */
  with: number | null;
  /** The XLA pass, '' if none. */
  by: string;
  text: string;
  label: Label;
}

/** followed + inferred + lost = operations. */
export interface Coverage {
  operations: number;
  followed: number;
  inferred: number;
  lost: number;
}

/** A line of a module. */
export interface HloLine {
  text: string;
  /** '' if the line is no instruction */
  name: string;
  nodes: number[];
  cluster: number | null;
  computation: string;
}

/** A module's text without metadata. */
export interface Stage {
  /** Null: too long for the message, to be asked for. */
  text: string | null;
  lines: HloLine[];
}

/** An instruction that a pass changed. */
export interface Change {
  kind: "added" | "removed" | "rewritten" | "fused";
  name: string;
  /** The instruction's line, '' if there is none. */
  before: string;
  after: string;
  nodes: number[];
  /** The fusion instruction, for "fused". */
  into: string;
}

/** A pass that changed the module. The numbers of instructions are null until they are counted. */
export interface PassInfo {
  index: number;
  pipeline: string;
  name: string;
  added: number | null;
  removed: number | null;
  rewritten: number | null;
  fused: number | null;
  /** Null: to be asked for. */
  changes: Change[] | null;
  /** By XLA's profiler, less what writing the module's text took (inferred). */
  seconds: number | null;
}

/** What all runs of the passes of one name took. */
export interface PassTime {
  /** '' for the passes that are not listed */
  name: string;
  runs: number;
  /** Runs that changed the module. */
  changed: number;
  /** Less what writing the module's text took (inferred), as far as that is known. */
  seconds: number;
}

/** What one line gave the compiler to do. */
export interface LineTime {
  place: Place | null;
  operations: number;
  /** HLO instructions. */
  before: number | null;
  after: number;
  /** Kernels. */
  compiled: number;
  /** Seconds of MLIR for these kernels. */
  lowering: number | null;
  /** Of XLA, inferred. */
  seconds: number | null;
}

/** Seconds that compiling took. What nobody timed is null. */
export interface CompileTimes {
  lowering: number | null;
  compiling: number | null;
  loading: number | null;
  /** The part of `compiling` that XLA timed. */
  xla: number | null;
  /** They add up to `xla`. */
  stages: [string, number][];
  /** The longest first. */
  passes: PassTime[];
  /** The passes that are not listed. */
  others: PassTime | null;
  checking: number | null;
  /** The modules' text, for the inspector: inferred. */
  writing: number | null;
  kernels: number;
  /** The longest first. */
  lines: LineTime[];
  /** Not listed. */
  lines_left: number;
  /** How the seconds of the lines are known, '' if they have none. */
  inferred: string;
  source: string;
  /** Why XLA timed nothing, '' if it did. */
  why_not: string;
}

/** What a box is from a stage on. */
export interface BoxState {
  /** 0 before the first pass, 1 after it */
  stage: number;
  name: string;
  opcode: string;
  /** Name of the instruction that would run it. */
  kernel: string;
  nodes: number[];
}

/** An instruction through the passes. */
export interface FormedBox {
  shape: string;
  stands: BoxState[];
  /** The first stage at which it is no more. */
  end: number | null;
  /** The box that it was copied from. */
  source: number | null;
  /** The box that is read in its place since it ended. */
  into: number | null;
}

/** What a pass did to the boxes; of the first stage, what was there. */
export interface FormationStep {
  /** That would run after it. */
  kernels: number;
  /** Boxes that were alone. */
  together: number;
  apart: number;
  copied: number;
  added: number;
  /** With another box. */
  merged: number;
  removed: number;
  rewritten: number;
}

/** An operation of which nothing is left. */
export interface EliminatedOperation {
  node: number;
  /** The first without it; 0: nothing of it ever was an instruction that computes. */
  stage: number;
  text: string;
}

/** How the kernels of a program came about. */
export interface Formation {
  boxes: FormedBox[];
  /** (box, box that reads it, from stage, until before stage) */
  links: [number, number, number, number][];
  /** One a stage: one more than passes. */
  steps: FormationStep[];
  gone: EliminatedOperation[];
}

/** A program's text before and after the passes. */
export interface Hlo {
  before: Stage;
  after: Stage;
  passes: PassInfo[];
  /** That would run before the first pass and after each; empty: not counted. */
  kernels: number[];
  /** Null: to be asked for. */
  formation: Formation | null;
}

/** A value in memory, alive from step `start` to `end`. */
export interface Buffer {
  name: string;
  bytes: number;
  start: number;
  end: number;
  kind: "argument" | "output" | "temp" | "constant";
  allocation: number;
  /** In the allocation. */
  offset: number;
  /** Other values in the same memory. */
  shares: string[];
  donated: boolean;
  /** The user's names for an argument or a result. */
  variables: string[];
  /** With its layout, '' if it is not known. */
  shape: string;
  /** '' for the device's own memory, else 'VMEM', 'SMEM', ... */
  space: string;
  /** How many times its elements' size it takes. */
  padding: number | null;
  nodes: number[];
  cluster: number | null;
}

/** Another memory than the device's own, and what a program takes in it. */
export interface MemorySpace {
  name: string;
  bytes: number;
  text: string;
}

/** Memory of a program. */
export interface Memory {
  /** What a run takes. */
  allocated_bytes: number | null;
  /** The most of `in_use`. */
  peak_bytes: number | null;
  argument_bytes: number | null;
  output_bytes: number | null;
  temp_bytes: number | null;
  alias_bytes: number | null;
  /** Part of the executable, in no other figure. */
  constant_bytes: number | null;
  /** Bytes at each step and after the last, what lies in the same place once. */
  in_use: number[];
  /** The instruction at each time. */
  steps: string[];
  peak_step: number | null;
  buffers: Buffer[];
  elsewhere: MemorySpace[];
  source: string;
}

/** One executable; a graph that spans cells has several. */
export interface Program {
  number: number;
  operations: number;
  cache: string;
  compile_seconds: number;
  backend: string;
  /** On which it runs, each with its part; costs and memory are those of one. */
  devices: number;
  /** Before the inspector's own: at trace breaks of the cell. */
  runs: number;
  hlo: Hlo;
  memory: Memory | null;
  total: Total | null;
  times: CompileTimes | null;
}

/** A line and the number of operations that it recorded. */
export interface WrittenLine {
  label: string;
  text: string;
  operations: number;
}

/** What an earlier cell had left pending, and was compiled with the cell; not counted anywhere else. */
export interface EarlierCell {
  /** Null: not known. */
  cell: number | null;
  operations: number;
  /** Null: the backend does not tell. */
  kernels: number | null;
  lines: WrittenLine[];
}

/** An array that enters or leaves a cluster. */
export interface Value {
  /** Cluster that writes it. */
  from: number | null;
  /** Input node that it is. */
  node: number | null;
  name: string;
  shape: string;
  bytes: number;
}

/** What one execution costs, by XLA's analysis. */
export interface Cost {
  flops: number | null;
  transcendentals: number | null;
  bytes: number | null;
  source: string;
  /** In one run of the program; null: not known. */
  executions: number | null;
}

/** A figure that lies between two; it is known if they are one. */
export interface Bounds {
  low: number;
  /** Null: no bound. */
  high: number | null;
}

/** What one run of a program costs: each kernel as often as it runs. */
export interface Total {
  flops: Bounds;
  transcendentals: Bounds;
  bytes: Bounds;
  /** Why a figure may not be known. */
  unknown: string[];
}

/** Measured seconds of all executions in one run of the program. */
export interface Time {
  median: number;
  low: number;
  high: number;
  runs: number;
  /** Executions in one run: several for a kernel in a loop. */
  calls: number;
}

/** What one execution of a kernel takes at least, by the chip's published figures. */
export interface LowerBound {
  seconds: number;
  limit: "memory" | "arithmetic";
  /** Bytes to and from the chip's own memory. */
  moved: number;
  /** Operations of products of matrices and convolutions. */
  matrix: number | null;
  /** Operations a second: the rate of the type that it multiplies, else the highest. */
  peak: number;
}

/** What the compiler made of a kernel. Each text is '' where there is none. */
export interface Code {
  hlo: string;
  /** ('grid', '2048 × 1 × 1') */
  facts: [string, string][];
  /** Of `assembly`: 'PTX'. */
  language: string;
  assembly: string;
  llvm: string;
  /** What is missing, and why. */
  note: string;
}

/** A kernel, a loop around kernels (`control`), or a value on its way to another memory (`transfer`). */
export interface Cluster {
  id: number;
  /** 'c3'; 'c3.0' for the first that the loop c3 runs */
  label: string;
  program: number;
  name: string;
  opcode: string;
  kind: ClusterKind;
  /** "YNNPACK", "oneDNN", "LAPACK", '' if it is none */
  library: string;
  root: string;
  /** Cluster of the loop that it runs in. */
  inside: number | null;
  /** Of a loop, each time it runs; null: not known, or no loop. */
  turns: number | null;
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
  cost: Cost | null;
  /** Null: not measured. */
  time: Time | null;
  /** Null: not for another chip. */
  at_least: LowerBound | null;
  /** The compiler's own estimate of one execution. */
  cycles: number | null;
  /** Null: to be asked for. */
  code: Code | null;
  /** Its look: the colour in the palette, and each time that is used up the next pattern. */
  colour: number;
}

/** An array between two clusters and why it is not fused away. */
export interface Boundary {
  id: number;
  producer: number;
  /** Null: the program's result. */
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
  /** The compiler's own words, '' if it was not asked. */
  said: string;
  /** The user's, that keep the value alive. */
  variables: string[];
  /** An experiment that can be run. */
  verify: string | null;
  /** What the experiment showed, '' before. */
  verdict: string;
}

/** What stands out, in a sentence. */
export interface Finding {
  kind: "boundary" | "library" | "again" | "held" | "padding";
  text: string;
  bytes: number;
  label: Label;
  clusters: number[];
  nodes: number[];
  /** The boundary that it is about. */
  boundary: number | null;
  /** The user's, that keep the value. */
  variables: string[];
  /** What an experiment showed, '' before. */
  verdict: string;
}

/** Measured peak of this machine: FLOP/s, bytes/s. */
export interface Machine {
  flops: number | null;
  bandwidth: number | null;
  text: string;
  /** Bytes of the largest processor cache; null: not known. */
  cache: number | null;
}

/** What is published of the chip that it was compiled for; of one device. */
export interface Chip {
  title: string;
  devices: number;
  memory: number;
  bandwidth: number;
  /** Operations a second by type of element, the highest first. */
  peaks: [string, number][];
  text: string;
}

/** Rows of text; `text` says it in one line. */
export interface Table {
  columns: string[];
  rows: string[][];
  /** That each row is about; empty where rows are about none. */
  nodes: number[][];
  /** Of each row; empty where rows have none. */
  places: (LineReference | null)[];
  text: string;
}

/** Who called the function in which a line breaks the trace. */
export interface CalledFrom {
  /** The nearest first; empty: nobody. */
  places: LineReference[];
  count: number;
  seconds: number;
}

/**
 * The steps that ended in a trace break of one kind at one line. Parts are seconds of recording, compiling, running, waiting, and
 * of Python, which is the rest.
 */
export interface BrokenLine {
  /** 'LNB103' */
  code: string;
  kind: string;
  /** It was asked for as such. */
  asked: boolean;
  /** What Python needed. */
  text: string;
  hint: string;
  place: LineReference;
  /** The place in a library that asked, '' if the line itself did. */
  library: string;
  count: number;
  operations: number;
  compiles: number;
  /** Until Python could go on, all together. */
  seconds: number;
  /** Of the steps, all together. */
  parts: number[];
  /** Of a step. */
  median: number;
  first: number;
  /** The first of them. */
  steps: number[][];
  callers: CalledFrom[];
  /** The run since which it has not come again. */
  gone: number | null;
}

/** A trace break that has not come again since a run of its cell. */
export interface Fixed {
  code: string;
  kind: string;
  place: LineReference;
  /** That run. */
  since: number;
}

/** Where the time of a cell or session went, step by step; the parts are those of `BrokenLine`. */
export interface Timeline {
  /** 'This cell', 'Session' */
  name: string;
  /** 'cell 4', '3 runs of cells' */
  title: string;
  /** That went by: `parts` adds up to it. */
  seconds: number;
  parts: number[];
  /** What went by after the last break. */
  after: number;
  /** The parts of equal stretches of the time. */
  strip: number[][];
  /** The one with most time first. */
  rows: BrokenLine[];
  fixed: Fixed[];
  /** What is not in it. */
  notes: string[];
}

/** What a kind of trace break is. */
export interface BreakHelp {
  code: string;
  kind: string;
  text: string;
  hint: string;
  /** Title and text: one that has it, and the same without it. */
  programs: [string, string][];
}

/** Timelines, and what their kinds of trace break are. */
export interface Timelines {
  of: Timeline[];
  help: BreakHelp[];
}

/** A way in which values lie on the devices of a program. */
export interface Layout {
  /** "f32[64,256] as P('data') over data=2 × model=4: 32×256 on each of 8 devices; copies: 4" */
  text: string;
  /** The devices of each part, and its colour; empty: too many parts. */
  cells: [string, string][][];
}

/** How a value lies. */
export interface ValueLayout {
  node: number;
  result: number;
  /** Index in the inspection's layouts. */
  layout: number;
}

/** An operation whose result lies otherwise than what it reads, or for which XLA moves what it reads. */
export interface Resharding {
  node: number;
  /** "P('data') → P('model'): all-to-all on data (rule inferred, row 1 of Collectives)" */
  text: string;
  /** False: each device has its part already. */
  sent: boolean;
}

/** The program that `jax.jit` of the same code would run, which the inspector can be switched to. */
export interface JitCounterpart {
  /** The figures of the program that the inspection shows: '5 kernels, 26 KiB through memory'. */
  own: string;
  /** Of the other; '' before it is compiled. */
  figures: string;
  /** Why there is no other; '' if there is one, or may be. */
  why: string;
  /** Null: to be asked for. */
  inspection: Inspection | null;
}

/** All of a compilation. */
export interface Inspection {
  version: 1;
  title: string;
  /** A kernel answers requests; false in saved files. */
  live: boolean;
  ran: boolean;
  /** What it was compiled for, such as 'TPU v5e'; '' for this machine. */
  target: string;
  /** Compiled as `jax.jit` of the code would be: what is a result, an argument, a constant; else ''. */
  form: string;
  /** Where there is no program: what to do, in a sentence; '' if nobody knows. */
  instead: string;
  /** Null: there is one program alone. */
  other: JitCounterpart | null;
  /** Null: this machine. */
  chip: Chip | null;
  /** That recorded the operations; null if it is not known, or not one. */
  cell: number | null;
  earlier: EarlierCell[];
  /** What `earlier` is, in a phrase; '' if there is nothing. */
  apart: string;
  sources: Source[];
  /** In trace order: operands have smaller ids. */
  nodes: Node[];
  /** What the graph shows: node ids, and groups that open. */
  groups: (number | Group)[];
  fates: Fate[];
  coverage: Coverage;
  programs: Program[];
  /** Of all programs, in the order in which they run. */
  clusters: Cluster[];
  boundaries: Boundary[];
  /** At most three, the most bytes first. */
  findings: Finding[];
  collectives: Table;
  /** How values lie on several devices. */
  shardings: Table;
  layouts: Layout[];
  /** Of the values of which it is known. */
  tiles: ValueLayout[];
  reshardings: Resharding[];
  machine: Machine | null;
  cache: Table;
  breaks: Table;
  timelines: Timelines;
  /** Plain sentences: what is missing, and why. */
  notes: string[];
  /** What XLA did is still read: there is what was recorded and nothing else. */
  reading: boolean;
}

/** What of a compilation is known before what XLA did is read: keys of `Inspection`. */
export interface RecordedGraph {
  version: 1;
  /** True. */
  reading: boolean;
  cell: number | null;
  sources: Source[];
  nodes: Node[];
  groups: (number | Group)[];
}

/** A line of one of two compilations that are compared, and the same one of the other. */
export interface SameLine {
  /** Index of its source. */
  before: number;
  before_line: number;
  now: number;
  now_line: number;
}

/** Two compilations side by side. */
export interface Compared {
  version: 1;
  /** What the user calls the two, and the flags that only one has. */
  names: string[];
  before: Inspection;
  now: Inspection;
  /** Operations that correspond. */
  nodes: [number, number][];
  lines: SameLine[];
}

/** For the changes of a pass. */
export interface PassRequest {
  type: "pass";
  program: number;
  index: number;
}

/** For how the kernels came about. */
export interface FormationRequest {
  type: "formation";
  program: number;
}

/** For a module's text. */
export interface StageRequest {
  type: "stage";
  program: number;
  which: HloStage;
}

/** For the compiler's own words about its boundaries. */
export interface AskRequest {
  type: "ask";
}

/** For an experiment with a boundary. */
export interface VerifyRequest {
  type: "verify";
  boundary: number;
}

/** For the program beside the one that it would be if nobody held these variables. */
export interface WithoutRequest {
  type: "without";
  variables: string[];
}

/** For the times of the kernels. */
export interface ProfileRequest {
  type: "profile";
}

/** For what the compiler made of a kernel. */
export interface CodeRequest {
  type: "code";
  cluster: number;
}

/** For the other program, which is compiled and not run. */
export interface OtherRequest {
  type: "other";
}

/**
 * What the front end asks. It sends an `id` with each request, and the answer carries the same; what it asks about the other
 * program has `of: "other"`.
 */
export type Request =
  | PassRequest
  | StageRequest
  | AskRequest
  | VerifyRequest
  | WithoutRequest
  | FormationRequest
  | ProfileRequest
  | CodeRequest
  | OtherRequest;

/** The changes of a pass. */
export interface PassAnswer {
  type: "pass";
  program: number;
  index: number;
  changes: Change[];
}

/** How the kernels came about, and the passes, which may not have been at hand. */
export interface FormationAnswer {
  type: "formation";
  program: number;
  formation: Formation;
  passes: PassInfo[];
}

/** A module's text. */
export interface StageAnswer {
  type: "stage";
  program: number;
  which: HloStage;
  stage: Stage;
}

/** All boundaries, with what the compiler said. */
export interface BoundariesAnswer {
  type: "boundaries";
  boundaries: Boundary[];
  findings: Finding[];
}

/** A boundary, with what the experiment showed. */
export interface BoundaryAnswer {
  type: "boundary";
  boundary: Boundary;
  findings: Finding[];
}

/** Both programs, and what is now known of the first. */
export interface WithoutAnswer {
  type: "without";
  compared: Compared;
  findings: Finding[];
}

/** The time of a cluster. */
export interface ClusterTime {
  id: number;
  time: Time | null;
}

/** What was measured. */
export interface TimesAnswer {
  type: "times";
  clusters: ClusterTime[];
  machine: Machine | null;
}

/** What the compiler made of a kernel. */
export interface CodeAnswer {
  type: "code";
  cluster: number;
  code: Code;
}

/** The other program. */
export interface OtherAnswer {
  type: "other";
  other: JitCounterpart;
}

/** What went wrong. */
export interface ErrorAnswer {
  type: "error";
  message: string;
}

/** What the kernel answers. */
export type Answer =
  | PassAnswer
  | FormationAnswer
  | StageAnswer
  | BoundariesAnswer
  | BoundaryAnswer
  | WithoutAnswer
  | TimesAnswer
  | CodeAnswer
  | OtherAnswer
  | ErrorAnswer;
