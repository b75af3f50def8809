/** Completes what came from Python: a field that is missing or of the wrong type gets a plain default, so that no view meets it. */

import type {
  LowerBound,
  Boundary,
  Bounds,
  BreakHelp,
  BrokenLine,
  Buffer,
  CalledFrom,
  Change,
  Chip,
  Cluster,
  Code,
  CompileTimes,
  Cost,
  Fate,
  Finding,
  Formation,
  Fixed,
  Group,
  HloLine,
  Inspection,
  Layout,
  EarlierCell,
  LineTime,
  Memory,
  Node,
  JitCounterpart,
  PassInfo,
  PassTime,
  Place,
  Program,
  Resharding,
  Source,
  LineReference,
  Stage,
  Table,
  ValueLayout,
  Time,
  Timeline,
  Timelines,
  Total,
  Value,
} from "./data";

type Loose = Record<string, unknown>;

const isObject = (x: unknown): x is Loose => typeof x === "object" && x !== null && !Array.isArray(x);

function sameType(a: unknown, b: unknown): boolean {
  return Array.isArray(a) === Array.isArray(b) && typeof a === typeof b;
}

/** The defaults with what `given` has of them. A default of null lets anything pass: what it should be is not known here. */
function fill<T extends object>(defaults: T, given: unknown): T {
  const from = isObject(given) ? given : {};
  const made = { ...defaults } as Loose;
  for (const key in defaults) {
    const value = from[key];
    if (value === undefined) continue;
    const standard = defaults[key] as unknown;
    if (standard === null || (value !== null && sameType(value, standard))) made[key] = value;
  }
  return made as T;
}

function each<T>(given: unknown, one: (item: unknown) => T): T[] {
  return Array.isArray(given) ? given.map(one) : [];
}

const numbers = (given: unknown): number[] => (Array.isArray(given) ? given.filter((x) => typeof x === "number") : []);
const strings = (given: unknown): string[] =>
  Array.isArray(given) ? given.map((x) => (typeof x === "string" ? x : String(x ?? ""))) : [];

const PLACE: Place = { label: "", line: 0, text: "", cell: null, source: null };
const NODE: Node = {
  id: -1,
  kind: "op",
  name: "",
  primitive: "?",
  operands: [],
  avals: [],
  place: null,
  callers: [],
  call: null,
  scope: "",
  names: [],
  value: null,
  output: false,
  dead: false,
};
const FATE: Fate = { node: -1, kind: "lost", clusters: [], with: null, by: "", text: "", label: "rule inferred" };
const CLUSTER: Cluster = {
  id: -1,
  label: "",
  program: 0,
  name: "",
  opcode: "",
  kind: "custom",
  library: "",
  root: "",
  inside: null,
  turns: null,
  nodes: [],
  instructions: [],
  duplicated: [],
  inputs: [],
  outputs: [],
  input_bytes: 0,
  output_bytes: 0,
  passes: [],
  place: null,
  cost: null,
  time: null,
  at_least: null,
  cycles: null,
  code: null,
  colour: 7,
};
const VALUE: Value = { from: null, node: null, name: "", shape: "", bytes: 0 };
const BOUNDARY: Boundary = {
  id: -1,
  producer: -1,
  consumer: null,
  shape: "",
  bytes: 0,
  value: "",
  code: "",
  text: "",
  hint: "",
  label: "rule inferred",
  rule: "",
  more: "",
  said: "",
  variables: [],
  verify: null,
  verdict: "",
};
const FINDING: Finding = {
  kind: "boundary",
  text: "",
  bytes: 0,
  label: "rule inferred",
  clusters: [],
  nodes: [],
  boundary: null,
  variables: [],
  verdict: "",
};
const LINE: HloLine = { text: "", name: "", nodes: [], cluster: null, computation: "" };
const PASS: PassInfo = {
  index: 0,
  pipeline: "",
  name: "",
  added: null,
  removed: null,
  rewritten: null,
  fused: null,
  changes: null,
  seconds: null,
};
const PASS_TIME: PassTime = { name: "", runs: 0, changed: 0, seconds: 0 };
const LINE_TIME: LineTime = { place: null, operations: 0, before: null, after: 0, compiled: 0, lowering: null, seconds: null };
const TIMES: CompileTimes = {
  lowering: null,
  compiling: null,
  loading: null,
  xla: null,
  stages: [],
  passes: [],
  others: null,
  checking: null,
  writing: null,
  kernels: 0,
  lines: [],
  lines_left: 0,
  inferred: "",
  source: "",
  why_not: "",
};
const CHANGE: Change = { kind: "rewritten", name: "", before: "", after: "", nodes: [], into: "" };
const AT_LEAST: LowerBound = { seconds: 0, limit: "memory", moved: 0, matrix: null, peak: 0 };
const COST: Cost = { flops: null, transcendentals: null, bytes: null, source: "", executions: null };
const BUFFER: Buffer = {
  name: "",
  bytes: 0,
  start: 0,
  end: 0,
  kind: "temp",
  allocation: -1,
  offset: 0,
  shares: [],
  donated: false,
  variables: [],
  shape: "",
  space: "",
  padding: null,
  nodes: [],
  cluster: null,
};
const MEMORY: Memory = {
  allocated_bytes: null,
  peak_bytes: null,
  argument_bytes: null,
  output_bytes: null,
  temp_bytes: null,
  alias_bytes: null,
  constant_bytes: null,
  in_use: [],
  steps: [],
  peak_step: null,
  buffers: [],
  elsewhere: [],
  source: "",
};
const PROGRAM = {
  number: 0,
  devices: 1,
  operations: 0,
  cache: "",
  compile_seconds: NaN,
  backend: "",
  runs: 0,
  hlo: {},
  memory: null,
  total: null,
  times: null,
};
const LEFTOVER: EarlierCell = { cell: null, operations: 0, kernels: null, lines: [] };
const SOURCE: Source = { file: "", cell: null, first: 1, lines: [] };
const TABLE: Table = { columns: [], rows: [], nodes: [], places: [], text: "" };
const SPOT: LineReference = { label: "", line: 0, text: "", cell: null, source: null, file: "" };
const BROKEN_LINE: BrokenLine = {
  code: "",
  kind: "",
  asked: false,
  text: "",
  hint: "",
  place: SPOT,
  library: "",
  count: 0,
  operations: 0,
  compiles: 0,
  seconds: 0,
  parts: [],
  median: 0,
  first: 0,
  steps: [],
  callers: [],
  gone: null,
};
const TIMELINE: Timeline = {
  name: "",
  title: "",
  seconds: 0,
  parts: [],
  after: 0,
  rest: [],
  strip: [],
  rows: [],
  fixed: [],
  notes: [],
};

const GROUP: Group = { id: -1, rule: "", label: "", inside: "", where: "", parts: [] };

const place = (x: unknown): Place | null => (isObject(x) ? fill(PLACE, x) : null);
const spot = (x: unknown): LineReference => fill(SPOT, x);

const brokenLine = (x: unknown): BrokenLine => {
  const made = fill(BROKEN_LINE, x);
  const callers = each(made.callers, (one) => fill<CalledFrom>({ places: [], count: 0, seconds: 0 }, one));
  return {
    ...made,
    place: spot(made.place),
    parts: numbers(made.parts),
    steps: each(made.steps, numbers),
    callers: callers.map((one) => ({ ...one, places: each(one.places, spot) })),
  };
};

const timeline = (x: unknown): Timeline => {
  const made = fill(TIMELINE, x);
  const fixed = each(made.fixed, (one) => fill<Fixed>({ code: "", kind: "", place: SPOT, since: 0 }, one));
  return {
    ...made,
    parts: numbers(made.parts),
    rest: made.rest.length ? numbers(made.rest) : [0, 0, 0, 0, made.after],
    strip: each(made.strip, numbers),
    rows: each(made.rows, brokenLine),
    fixed: fixed.map((one) => ({ ...one, place: spot(one.place) })),
    notes: strings(made.notes),
  };
};

/** Without any in older data. */
export function timelines(x: unknown): Timelines {
  const made = fill<Timelines>({ of: [], help: [] }, x);
  const help = (one: unknown) => fill<BreakHelp>({ code: "", kind: "", text: "", hint: "", programs: [] }, one);
  return { of: each(made.of, timeline), help: each(made.help, help) };
}

const value = (x: unknown): Value => fill(VALUE, x);

function node(x: unknown): Node {
  const made = fill(NODE, x);
  made.place = place(made.place);
  made.callers = each(made.callers, place).filter((one) => one !== null);
  made.operands = made.operands.filter((pair) => Array.isArray(pair) && typeof pair[0] === "number");
  made.avals = strings(made.avals);
  made.names = strings(made.names);
  return made;
}

/** Node ids and groups. */
const branches = (x: unknown): Group["parts"] =>
  each(x, (one) => (isObject(one) ? group(one) : one)).filter(
    (one) => typeof one === "number" || isObject(one),
  ) as Group["parts"];

function group(x: unknown): Group {
  const made = fill(GROUP, x);
  made.parts = branches(made.parts);
  return made;
}

function fate(x: unknown): Fate {
  const made = fill(FATE, x);
  made.clusters = numbers(made.clusters).sort((a, b) => a - b);
  return made;
}

const time = (x: unknown): Time => fill({ median: NaN, low: NaN, high: NaN, runs: 0, calls: 1 }, x);

/** Times that were measured later. */
export const times = (x: unknown): { id: number; time: Time | null }[] =>
  each(x, (one) => {
    const made = fill<{ id: number; time: Time | null }>({ id: -1, time: null }, one);
    return { id: made.id, time: isObject(made.time) ? time(made.time) : null };
  });

function cluster(x: unknown): Cluster {
  const made = fill(CLUSTER, x);
  made.label ||= `c${made.id}`;
  made.place = place(made.place);
  made.nodes = numbers(made.nodes);
  made.duplicated = numbers(made.duplicated);
  made.instructions = strings(made.instructions);
  made.passes = strings(made.passes);
  made.inputs = each(made.inputs, value);
  made.outputs = each(made.outputs, value);
  made.cost = isObject(made.cost) ? fill(COST, made.cost) : null;
  made.time = isObject(made.time) ? time(made.time) : null;
  made.at_least = isObject(made.at_least) ? fill(AT_LEAST, made.at_least) : null;
  made.code = isObject(made.code) ? code(made.code) : null;
  return made;
}

const pairs = <T>(x: unknown, second: "string" | "number"): [string, T][] =>
  (Array.isArray(x) ? x : []).filter((one) => Array.isArray(one) && typeof one[0] === "string" && typeof one[1] === second);

export function code(x: unknown): Code {
  const made = fill<Code>({ hlo: "", facts: [], language: "", assembly: "", llvm: "", note: "" }, x);
  made.facts = pairs(made.facts, "string");
  return made;
}

function chip(x: unknown): Chip | null {
  if (!isObject(x)) return null;
  const made = fill<Chip>({ title: "", devices: 1, memory: 0, bandwidth: 0, peaks: [], text: "" }, x);
  made.peaks = pairs(made.peaks, "number");
  return made;
}

function buffer(x: unknown): Buffer {
  const made = fill(BUFFER, x);
  made.nodes = numbers(made.nodes);
  made.shares = strings(made.shares);
  made.variables = strings(made.variables);
  return made;
}

function memory(x: unknown): Memory | null {
  if (!isObject(x)) return null;
  const made = fill(MEMORY, x);
  made.steps = strings(made.steps);
  made.in_use = numbers(made.in_use);
  made.buffers = each(made.buffers, buffer);
  made.elsewhere = each(made.elsewhere, (one) => fill({ name: "", bytes: 0, text: "" }, one));
  return made;
}

function total(x: unknown): Total | null {
  if (!isObject(x)) return null;
  const bound = (of: unknown) => fill({ low: 0, high: null }, of) as Bounds;
  return { flops: bound(x.flops), transcendentals: bound(x.transcendentals), bytes: bound(x.bytes), unknown: strings(x.unknown) };
}

function program(x: unknown): Program {
  const made = fill(PROGRAM, x);
  const hlo = fill({ before: {}, after: {}, passes: [], kernels: [], formation: null }, made.hlo);
  return {
    ...made,
    memory: memory(made.memory),
    total: total(made.total),
    times: compileTimes(made.times),
    hlo: {
      before: stage(hlo.before),
      after: stage(hlo.after),
      passes: passes(hlo.passes),
      kernels: numbers(hlo.kernels),
      formation: isObject(hlo.formation) ? formation(hlo.formation) : null,
    },
  };
}

const figures = <T extends object>(made: T, keys: readonly (keyof T)[]): T => {
  for (const key of keys) if (typeof made[key] !== "number") made[key] = null as T[typeof key];
  return made;
};

function compileTimes(x: unknown): CompileTimes | null {
  if (!isObject(x)) return null;
  const made = figures(fill(TIMES, x), ["lowering", "compiling", "loading", "xla", "checking", "writing"]);
  made.stages = pairs(made.stages, "number");
  made.passes = each(made.passes, (one) => fill(PASS_TIME, one));
  made.others = isObject(made.others) ? fill(PASS_TIME, made.others) : null;
  made.lines = each(made.lines, (one) => {
    const line = figures(fill(LINE_TIME, one), ["before", "lowering", "seconds"]);
    line.place = place(line.place);
    return line;
  });
  return made;
}

function pass(x: unknown): PassInfo {
  const made = figures(fill(PASS, x), ["seconds"]);
  for (const kind of ["added", "removed", "rewritten", "fused"] as const) if (typeof made[kind] !== "number") made[kind] = null;
  made.changes = Array.isArray(made.changes) ? changes(made.changes) : null;
  return made;
}

export const passes = (x: unknown): PassInfo[] => each(x, pass);

/** All or nothing: the numbers in it are places in its lists. */
export function formation(x: unknown): Formation | null {
  const made = fill<Formation>({ boxes: [], links: [], steps: [], gone: [] }, x);
  return made.boxes.every((box) => isObject(box) && Array.isArray(box.stands) && box.stands.length) ? made : null;
}

function line(x: unknown): HloLine {
  const made = fill(LINE, x);
  made.nodes = numbers(made.nodes);
  return made;
}

export function stage(x: unknown): Stage {
  const made = fill<Stage>({ text: null, lines: [] }, x);
  made.lines = each(made.lines, line);
  if (!made.lines.length && made.text) made.lines = made.text.split("\n").map((text) => ({ ...LINE, text }));
  return made;
}

function change(x: unknown): Change {
  const made = fill(CHANGE, x);
  made.nodes = numbers(made.nodes);
  return made;
}

export const changes = (x: unknown): Change[] => each(x, change);

export function boundary(x: unknown): Boundary {
  const made = fill(BOUNDARY, x);
  made.variables = strings(made.variables);
  return made;
}

export const boundaries = (x: unknown): Boundary[] => each(x, boundary);

export const findings = (x: unknown): Finding[] =>
  each(x, (one) => {
    const made = fill(FINDING, one);
    return { ...made, clusters: numbers(made.clusters), nodes: numbers(made.nodes), variables: strings(made.variables) };
  });

function source(x: unknown): Source {
  const made = fill(SOURCE, x);
  made.lines = strings(made.lines);
  return made;
}

function table(x: unknown): Table {
  const made = fill(TABLE, x);
  made.columns = strings(made.columns);
  made.rows = each(made.rows, strings);
  made.nodes = each(made.nodes, numbers);
  return made;
}

const layout = (x: unknown): Layout => {
  const made = fill<Layout>({ text: "", cells: [] }, x);
  return { ...made, cells: each(made.cells, (row) => pairs(row, "string")) };
};

function leftover(x: unknown): EarlierCell {
  const made = fill(LEFTOVER, x);
  made.lines = each(made.lines, (line) => fill({ label: "", text: "", operations: 0 }, line));
  return made;
}

/** The other program is read when it is shown. */
export const other = (x: unknown): JitCounterpart | null =>
  isObject(x) ? fill<JitCounterpart>({ own: "", figures: "", why: "", inspection: null }, x) : null;

export function read(given: unknown): Inspection {
  const made = fill(
    {
      version: 1,
      title: "",
      live: false,
      ran: true,
      target: "",
      form: "",
      other: null,
      chip: null,
      cell: null,
      earlier: [],
      apart: "",
      sources: [],
      nodes: [],
      groups: [],
      fates: [],
      coverage: {},
      programs: [],
      clusters: [],
      boundaries: [],
      findings: [],
      collectives: {},
      shardings: {},
      layouts: [],
      tiles: [],
      reshardings: [],
      machine: null,
      cache: {},
      breaks: {},
      timelines: {},
      notes: [],
      reading: false,
    } as Loose,
    given,
  );
  return {
    ...made,
    other: other(made.other),
    chip: chip(made.chip),
    earlier: each(made.earlier, leftover),
    sources: each(made.sources, source),
    notes: strings(made.notes),
    nodes: each(made.nodes, node),
    groups: branches(made.groups),
    fates: each(made.fates, fate),
    coverage: fill({ operations: 0, followed: 0, inferred: 0, lost: 0 }, made.coverage),
    programs: each(made.programs, program),
    clusters: each(made.clusters, cluster),
    boundaries: boundaries(made.boundaries),
    findings: findings(made.findings),
    machine: isObject(made.machine) ? fill({ flops: null, bandwidth: null, text: "", cache: null }, made.machine) : null,
    collectives: table(made.collectives),
    shardings: table(made.shardings),
    layouts: each(made.layouts, layout),
    tiles: each(made.tiles, (x) => fill<ValueLayout>({ node: -1, result: 0, layout: -1 }, x)),
    reshardings: each(made.reshardings, (x) => fill<Resharding>({ node: -1, text: "", sent: true }, x)),
    cache: table(made.cache),
    breaks: table(made.breaks),
    timelines: timelines(made.timelines),
  } as Inspection;
}
