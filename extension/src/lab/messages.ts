/** What the kernel and this extension say to each other, version 1: the shapes of lazynb/notebook/lab_messages.py, whose text says more. */

export const TARGET = "lazynb";

export interface State {
  type: "state";
  version: 1;
  lazy: boolean;
  pending: number;
  executables: number;
  hits: number;
  misses: number;
  breaks: number;
  /** Lost to breaks. */
  seconds: number;
  compilation: number | null;
  text: string;
}

export interface Compiling {
  type: "compiling";
  operations: number;
  cell: string | null;
  label: string;
  seconds: number;
}

export interface Compiled {
  type: "compiled";
}

export interface Kernel {
  id: number;
  chip: string;
  colour: number;
  name: string;
  kind: string;
  fates: string[];
  cost: string;
  heading: string;
}

export interface Break {
  code: string;
  kind: string;
  text: string;
  hint: string;
  count: number;
  operations: number;
  compiles: number;
  seconds: number;
  rank: number;
}

export interface Line {
  line: number;
  text: string;
  kernels: Kernel[];
  fates: string[];
  breaks: Break[];
}

export interface Marks {
  type: "marks";
  cell: string;
  file: string;
  run: number | null;
  lines: Line[];
  compilation: number | null;
}

export interface Panel {
  type: "panel";
  id: number;
  view: string;
  data: unknown;
  text: string;
  compilation?: number | null;
}

export interface Done {
  type: "done";
  id: number;
  text: string;
  error?: string;
}

export interface ValueState {
  state: string;
  text: string;
  seconds: number | null;
  compilation: number | null;
}

export interface Value {
  type: "value";
  id: number;
  state: string;
  text: string;
  seconds: number | null;
  compilation: number | null;
  error?: string;
}

export interface Answer {
  type: "answer";
  id: number;
  answer: Record<string, unknown>;
}

export type FromKernel = State | Compiling | Compiled | Marks | Panel | Done | Value | Answer;

export interface Hello {
  type: "hello";
}

export interface Show {
  type: "show";
  id: number;
  view: string;
  compilation?: number | null;
}

export interface Lazy {
  type: "lazy";
  id: number;
  on: boolean;
}

export interface Compile {
  type: "compile";
  id: number;
}

export interface Clear {
  type: "clear";
  id: number;
}

export interface Ask {
  type: "ask";
  id: number;
  compilation: number;
  request: Record<string, unknown>;
}

export interface AskValue {
  type: "value";
  id: number;
  key: string;
  do: string;
}

export interface Settings {
  type: "settings";
  autocompile: boolean;
}

export type FromFrontEnd = Hello | Show | Lazy | Compile | Clear | Ask | AskValue | Settings;
