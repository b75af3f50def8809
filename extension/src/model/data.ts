/**
 * What Python sends (version 1), and what the widget and the kernel say to each other.
 * A figure that is not known is null.
 *
 * Made from lazynb/xla/inspection_schema.py by scripts/front_end_data.py: change it there, run the script.
 */

/** How a statement about a compiled program is known. */
export type Label =
  "compiler said" | "rule inferred" | "verified by recompiling" | "lazynb decided" | "absent in the first pass" | "not known";

export type FateKind = "own kernel" | "fused" | "library" | "transfer" | "folded" | "merged" | "cancelled" | "dead" | "lost";

export type ClusterKind = "loop" | "input" | "output" | "custom" | "library" | "single" | "transfer" | "control";

export type HloStage = "before" | "after";

/**
 * Nodes drawn as one box until it is opened; `parts` are node ids and groups, two or more. `rule` says why they are grouped:
 * `call`, `loop` (the iterations of a user's loop), `turns` (some of them), `scope`, `line`, `cell`, `chunk`, `inputs`, or `dead`
 * for the operations that a stored drawing leaves out. A loop opens to its first iteration and a group of the others. `inside`
 * describes the contents in short, `where` the lines of code; both are empty for an iteration.
 */
export interface Group {
  id: number;
  rule: string;
  label: string;
  inside: string;
  where: string;
  parts: (number | Group)[];
}

/** A cell or a part of a file, as source text. */
export interface Source {
  file: string;
  cell: number | null;
  /** Line number of the first of `lines`. */
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

/** A line of the user's code, with or without recorded operations. */
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
  /** (node, number of its result) */
  operands: [number, number][];
  avals: string[];
  place: Place | null;
  /** Other lines of it: of enclosing calls, of a gradient. */
  callers: Place[];
  /** Same number for all operations of one call of a function. */
  call: number | null;
  scope: string;
  /** The user's variables. */
  names: string[];
  value: string | null;
  output: boolean;
  dead: boolean;
}

/** What XLA made of one operation. */
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

/** Counts of operations: followed + inferred + lost = operations. */
export interface Coverage {
  operations: number;
  followed: number;
  inferred: number;
  lost: number;
}

/** A line of a module. */
export interface HloLine {
  text: string;
  /** '' if the line is not an instruction */
  name: string;
  nodes: number[];
  cluster: number | null;
  computation: string;
}

/** A module's text without metadata. */
export interface Stage {
  /** Null: too long for the message; send a StageRequest. */
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

/** A pass that changed the module. The counts of instructions are null until they are computed. */
export interface PassInfo {
  index: number;
  pipeline: string;
  name: string;
  added: number | null;
  removed: number | null;
  rewritten: number | null;
  fused: number | null;
  /** Null: send a PassRequest. */
  changes: Change[] | null;
  /** By XLA's profiler, minus the time of dumping the module (inferred). */
  seconds: number | null;
}

/** All runs of the passes of one name. */
export interface PassTime {
  /** '' for the sum of unlisted passes */
  name: string;
  runs: number;
  /** Runs that changed the module. */
  changed: number;
  /** Minus the time of dumping the module (inferred), as far as known. */
  seconds: number;
}

/** The compiler's work for one line. */
export interface LineTime {
  place: Place | null;
  operations: number;
  /** HLO instructions. */
  before: number | null;
  after: number;
  /** Kernels. */
  compiled: number;
  /** Seconds of MLIR lowering for these kernels. */
  lowering: number | null;
  /** Seconds of XLA, inferred. */
  seconds: number | null;
}

/** Compile times in seconds. Figures without a timing are null. */
export interface CompileTimes {
  lowering: number | null;
  compiling: number | null;
  loading: number | null;
  /** The part of `compiling` that XLA timed. */
  xla: number | null;
  /** Their sum is `xla`. */
  stages: [string, number][];
  /** Longest first. */
  passes: PassTime[];
  /** The sum of unlisted passes. */
  others: PassTime | null;
  checking: number | null;
  /** Dumping the modules for the inspector; inferred. */
  writing: number | null;
  kernels: number;
  /** Longest first. */
  lines: LineTime[];
  /** Number of unlisted lines. */
  lines_left: number;
  /** How the seconds of the lines are known, '' if they have none. */
  inferred: string;
  source: string;
  /** Why there is no timing by XLA, '' if there is. */
  why_not: string;
}

/** The state of a box from one stage on. */
export interface BoxState {
  /** 0 before the first pass, 1 after it */
  stage: number;
  name: string;
  opcode: string;
  /** Name of the kernel instruction that would run it. */
  kernel: string;
  nodes: number[];
}

/** An instruction followed through the passes. */
export interface FormedBox {
  shape: string;
  stands: BoxState[];
  /** The first stage without it. */
  end: number | null;
  /** The box that it was copied from. */
  source: number | null;
  /** The box that replaces it from then on. */
  into: number | null;
}

/** The changes of a pass to the boxes; for the first stage, the initial counts. */
export interface FormationStep {
  /** Kernels that would run after it. */
  kernels: number;
  /** Boxes fused together that were alone before. */
  together: number;
  apart: number;
  copied: number;
  added: number;
  /** Merged with another box. */
  merged: number;
  removed: number;
  rewritten: number;
}

/** An operation that left no instruction. */
export interface EliminatedOperation {
  node: number;
  /** The first without it; 0: it never was an instruction that computes. */
  stage: number;
  text: string;
}

/** The history of a program's kernels through the passes. */
export interface Formation {
  boxes: FormedBox[];
  /** (box, box that reads it, from stage, until before stage) */
  links: [number, number, number, number][];
  /** One per stage: one more than passes. */
  steps: FormationStep[];
  gone: EliminatedOperation[];
}

/** A program's text before and after the passes. */
export interface Hlo {
  before: Stage;
  after: Stage;
  passes: PassInfo[];
  /** Counts before the first pass and after each; empty: not counted. */
  kernels: number[];
  /** Null: send a FormationRequest. */
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
  /** Bytes from the start of the allocation. */
  offset: number;
  /** Other values in the same memory. */
  shares: string[];
  donated: boolean;
  /** The user's names for an argument or a result. */
  variables: string[];
  /** With its layout, '' if unknown. */
  shape: string;
  /** '' for device memory (HBM, RAM), else 'VMEM', 'SMEM', ... */
  space: string;
  /** Its bytes divided by the bytes of its elements. */
  padding: number | null;
  nodes: number[];
  cluster: number | null;
}

/** Use of a memory space other than device memory. */
export interface MemorySpace {
  name: string;
  bytes: number;
  text: string;
}

/** Memory of a program. */
export interface Memory {
  /** Total of a run. */
  allocated_bytes: number | null;
  /** Maximum of `in_use`. */
  peak_bytes: number | null;
  argument_bytes: number | null;
  output_bytes: number | null;
  temp_bytes: number | null;
  alias_bytes: number | null;
  /** Part of the executable, not in the other figures. */
  constant_bytes: number | null;
  /** Bytes at each step and after the last; shared memory counts once. */
  in_use: number[];
  /** The instruction at each step. */
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
  /** It runs on these as an SPMD program; costs and memory are per device. */
  devices: number;
  /** Runs at trace breaks of the cell, without the inspector's own. */
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

/** Pending work of an earlier cell, compiled with this cell; not counted anywhere else. */
export interface EarlierCell {
  /** Null: unknown. */
  cell: number | null;
  operations: number;
  /** Null: the backend gives no HLO. */
  kernels: number | null;
  lines: WrittenLine[];
}

/** An array that enters or leaves a cluster. */
export interface Value {
  /** Cluster that writes it. */
  from: number | null;
  /** Its input node. */
  node: number | null;
  name: string;
  shape: string;
  bytes: number;
}

/** Cost of one execution, by XLA's analysis. */
export interface Cost {
  flops: number | null;
  transcendentals: number | null;
  bytes: number | null;
  source: string;
  /** In one run of the program; null: unknown. */
  executions: number | null;
}

/** Bounds of a figure, which is exact if they are equal. */
export interface Bounds {
  low: number;
  /** Null: no bound. */
  high: number | null;
}

/** Cost of one run of a program, where each kernel counts as often as it runs. */
export interface Total {
  flops: Bounds;
  transcendentals: Bounds;
  bytes: Bounds;
  /** Why a figure may be unknown. */
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

/** Lower bound for one execution of a kernel, by the chip's published figures. */
export interface LowerBound {
  seconds: number;
  limit: "memory" | "arithmetic";
  /** Bytes to and from device memory. */
  moved: number;
  /** Operations of matrix products and convolutions. */
  matrix: number | null;
  /** Operations per second for the dtype that it multiplies, else the highest rate. */
  peak: number;
}

/** The code of a kernel. Each text is '' if the compiler dumped none. */
export interface Code {
  hlo: string;
  /** ('grid', '2048 × 1 × 1') */
  facts: [string, string][];
  /** Of `assembly`: 'PTX'. */
  language: string;
  assembly: string;
  llvm: string;
  /** The missing parts, and why they are missing. */
  note: string;
}

/** A kernel, a loop around kernels (`control`), or a move to another memory (`transfer`). */
export interface Cluster {
  id: number;
  /** 'c3'; 'c3.0' for the first inside the loop c3 */
  label: string;
  program: number;
  name: string;
  opcode: string;
  kind: ClusterKind;
  /** "YNNPACK", "oneDNN", "LAPACK", '' for none */
  library: string;
  root: string;
  /** Cluster of the enclosing loop. */
  inside: number | null;
  /** Iterations of a loop each time it runs; null: unknown, or not a loop. */
  turns: number | null;
  nodes: number[];
  instructions: string[];
  /** Nodes that another cluster computes too. */
  duplicated: number[];
  inputs: Value[];
  outputs: Value[];
  input_bytes: number;
  output_bytes: number;
  passes: string[];
  /** The line with most of its operations. */
  place: Place | null;
  cost: Cost | null;
  /** Null: not measured. */
  time: Time | null;
  /** Null: this machine. */
  at_least: LowerBound | null;
  /** The compiler's own estimate for one execution. */
  cycles: number | null;
  /** Null: send a CodeRequest. */
  code: Code | null;
  /** Index of its colour in the palette; each further round of the palette has another pattern. */
  colour: number;
}

/** An array between two clusters, and why XLA did not fuse the two. */
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
  /** The reason, a sentence with the user's names. */
  text: string;
  /** A suggested change, may be ''. */
  hint: string;
  /** Of text. */
  label: Label;
  /** The rule behind an inferred text, else ''. */
  rule: string;
  /** What that rule says beyond a verified text; inferred, may be ''. */
  more: string;
  /** The compiler's own words, '' without an AskRequest. */
  said: string;
  /** The user's variables that keep the value alive. */
  variables: string[];
  /** Name of an experiment that can be run. */
  verify: string | null;
  /** Result of the experiment, '' before it. */
  verdict: string;
}

/** A notable property of the program, as a sentence. */
export interface Finding {
  kind: "boundary" | "library" | "again" | "held" | "copied" | "padding";
  text: string;
  bytes: number;
  label: Label;
  clusters: number[];
  nodes: number[];
  /** The boundary concerned. */
  boundary: number | null;
  /** The user's variables that keep the value. */
  variables: string[];
  /** Result of an experiment, '' before it. */
  verdict: string;
}

/** Measured peak of this machine: FLOP/s, bytes/s. */
export interface Machine {
  flops: number | null;
  bandwidth: number | null;
  text: string;
  /** Bytes of the largest processor cache; null: unknown. */
  cache: number | null;
}

/** Published figures of one device of the target chip. */
export interface Chip {
  title: string;
  devices: number;
  memory: number;
  bandwidth: number;
  /** Operations per second by element type, highest first. */
  peaks: [string, number][];
  text: string;
}

/** Rows of text; `text` is a one-line summary. */
export interface Table {
  columns: string[];
  rows: string[][];
  /** Nodes of each row; empty if the rows have none. */
  nodes: number[][];
  /** Line of each row; empty if the rows have none. */
  places: (LineReference | null)[];
  text: string;
}

/** The calls of the function in which a line breaks the trace. */
export interface CalledFrom {
  /** Innermost first; empty: no caller. */
  places: LineReference[];
  count: number;
  seconds: number;
}

/**
 * The steps that ended in a trace break of one kind at one line. `parts` are seconds of recording, compiling, running, waiting,
 * of Python, which is the rest, and of lazynb's analyses.
 */
export interface BrokenLine {
  /** 'LNB103' */
  code: string;
  kind: string;
  /** Whether the user requested it explicitly. */
  asked: boolean;
  /** What Python needed. */
  text: string;
  hint: string;
  place: LineReference;
  /** The library code that needed the value, '' for the line itself. */
  library: string;
  count: number;
  operations: number;
  compiles: number;
  /** Total until Python could continue. */
  seconds: number;
  /** Totals over the steps. */
  parts: number[];
  /** Per step. */
  median: number;
  first: number;
  /** The first steps. */
  steps: number[][];
  callers: CalledFrom[];
  /** The run since which it has not occurred. */
  gone: number | null;
}

/** A trace break that has not occurred since a run of its cell. */
export interface Fixed {
  code: string;
  kind: string;
  place: LineReference;
  /** That run. */
  since: number;
}

/** The time of a cell or session, step by step; `parts` as in `BrokenLine`. */
export interface Timeline {
  /** 'This cell', 'Session' */
  name: string;
  /** 'cell 4', '3 runs of cells' */
  title: string;
  /** Elapsed time, the sum of `parts`. */
  seconds: number;
  parts: number[];
  /** Elapsed after the last break. */
  after: number;
  /** `parts` of the time after the last break; older data has none */
  rest: number[];
  /** `parts` for equal intervals of the time */
  strip: number[][];
  /** Most time first. */
  rows: BrokenLine[];
  fixed: Fixed[];
  /** What it leaves out. */
  notes: string[];
}

/** Explanation of a kind of trace break. */
export interface BreakHelp {
  code: string;
  kind: string;
  text: string;
  hint: string;
  /** (title, text): a program with it, and the same without it */
  programs: [string, string][];
}

/** Timelines, and explanations of their trace breaks. */
export interface Timelines {
  of: Timeline[];
  help: BreakHelp[];
}

/** A sharding of values on the devices of a program. */
export interface Layout {
  /** "f32[64,256] as P('data') over data=2 × model=4: 32×256 on each of 8 devices; copies: 4" */
  text: string;
  /** (devices, colour) of each tile; empty: too many tiles */
  cells: [string, string][][];
}

/** The sharding of a value. */
export interface ValueLayout {
  node: number;
  result: number;
  /** Index in the inspection's layouts. */
  layout: number;
}

/** An operation whose result has another sharding than its operands, or for which XLA moves operands. */
export interface Resharding {
  node: number;
  /** "P('data') → P('model'): all-to-all on data (rule inferred, row 1 of Collectives)" */
  text: string;
  /** False: each device has its tile already. */
  sent: boolean;
}

/** The program that `jax.jit` of the same code would run. The inspector can switch to it. */
export interface JitCounterpart {
  /** Figures of the program in this inspection: '5 kernels, 26 KiB through memory'. */
  own: string;
  /** Figures of the other program; '' before it is compiled. */
  figures: string;
  /** Why there is no other program; '' if there is one, or may be. */
  why: string;
  /** Null: send an OtherRequest. */
  inspection: Inspection | null;
}

/** The whole inspection of a compilation. */
export interface Inspection {
  version: 1;
  title: string;
  /** Whether a kernel answers requests; false in saved files. */
  live: boolean;
  ran: boolean;
  /** The target, such as 'TPU v5e'; '' for this machine. */
  target: string;
  /** Results, arguments and constants, if compiled as `jax.jit` of the code would be; else ''. */
  form: string;
  /** What to do if there is no program, a sentence; '' if unknown. */
  instead: string;
  /** Null: there is only one program. */
  other: JitCounterpart | null;
  /** Null: this machine. */
  chip: Chip | null;
  /** The cell that recorded the operations; null if unknown or not a single cell. */
  cell: number | null;
  earlier: EarlierCell[];
  /** A phrase on `earlier`; '' if it is empty. */
  apart: string;
  sources: Source[];
  /** In trace order: operands have smaller ids. */
  nodes: Node[];
  /** Contents of the graph: node ids, and groups that open. */
  groups: (number | Group)[];
  fates: Fate[];
  coverage: Coverage;
  programs: Program[];
  /** Of all programs, in execution order. */
  clusters: Cluster[];
  boundaries: Boundary[];
  /** At most three, most bytes first. */
  findings: Finding[];
  collectives: Table;
  /** Shardings of values on several devices. */
  shardings: Table;
  layouts: Layout[];
  /** Of the values with a known sharding. */
  tiles: ValueLayout[];
  reshardings: Resharding[];
  machine: Machine | null;
  cache: Table;
  breaks: Table;
  timelines: Timelines;
  /** Plain sentences: what is missing, and why. */
  notes: string[];
  /** True: XLA's dump is still being read, and only the recorded graph is here. */
  reading: boolean;
}

/** The part of a compilation that is known before XLA's dump is read: keys of `Inspection`. */
export interface RecordedGraph {
  version: 1;
  /** True. */
  reading: boolean;
  cell: number | null;
  sources: Source[];
  nodes: Node[];
  groups: (number | Group)[];
}

/** A line that two compared compilations have in common. */
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
  /** The user's names of the two, with the flags that only one has. */
  names: string[];
  before: Inspection;
  now: Inspection;
  /** Pairs of corresponding operations. */
  nodes: [number, number][];
  lines: SameLine[];
}

/** Requests the changes of a pass. */
export interface PassRequest {
  type: "pass";
  program: number;
  index: number;
}

/** Requests the history of the kernels through the passes. */
export interface FormationRequest {
  type: "formation";
  program: number;
}

/** Requests a module's text. */
export interface StageRequest {
  type: "stage";
  program: number;
  which: HloStage;
}

/** Requests the compiler's own reasons for the boundaries. */
export interface AskRequest {
  type: "ask";
}

/** Requests an experiment with a boundary. */
export interface VerifyRequest {
  type: "verify";
  boundary: number;
}

/** Requests a comparison with the program that results if these variables do not exist. */
export interface WithoutRequest {
  type: "without";
  variables: string[];
}

/** Requests measured times of the kernels. */
export interface ProfileRequest {
  type: "profile";
}

/** Requests the code of a kernel. */
export interface CodeRequest {
  type: "code";
  cluster: number;
}

/** Requests the other program, which is compiled and not run. */
export interface OtherRequest {
  type: "other";
}

/** A request of the front end. It carries an `id`, which the answer repeats; `of: "other"` selects the other program. */
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

/** The history of the kernels, and the passes, which may have been unavailable before. */
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

/** All boundaries, with the compiler's reasons. */
export interface BoundariesAnswer {
  type: "boundaries";
  boundaries: Boundary[];
  findings: Finding[];
}

/** A boundary, with the result of the experiment. */
export interface BoundaryAnswer {
  type: "boundary";
  boundary: Boundary;
  findings: Finding[];
}

/** Both programs, and the updated findings of the first. */
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

/** The measured times. */
export interface TimesAnswer {
  type: "times";
  clusters: ClusterTime[];
  machine: Machine | null;
}

/** The code of a kernel. */
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

/** An error message. */
export interface ErrorAnswer {
  type: "error";
  message: string;
}

/** An answer of the kernel. */
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
