/** What a thing is, in words: the line at the foot of the inspector. */

import type { Cluster } from "../model/data";
import { bytes, count, listed, seconds } from "../model/format";
import { type Relations, add, placeWords } from "../model/program";
import type { Thing } from "../model/selection";
import type { Store } from "../model/store";
import { nodeWords, shortAval } from "../model/words";

export interface Description {
  title: string;
  facts: string[];
  /** Shown as code, on its own lines. */
  code?: string;
}

export const KINDS: Record<Cluster["kind"], string> = {
  loop: "loop fusion",
  input: "input fusion",
  output: "output fusion",
  custom: "custom fusion",
  library: "library call",
  single: "one operation",
  transfer: "transfer",
  control: "control flow",
};

const KIND_WORDS: Record<Cluster["kind"], string> = {
  loop: "elements are computed in one loop over the result, each from those that it needs: nothing between is written to memory",
  input: "a reduction or a scatter, with what computes its input fused into it",
  output:
    "a product of matrices or a convolution, with what is computed from its result (an epilogue) or for its operands fused around it",
  custom: "a kernel that XLA makes in a way of its own, on a GPU mostly by Triton in tiles",
  library: "a library's own code: nothing is fused into it but what the library offers",
  single: "an instruction that XLA fused with nothing",
  transfer: "a value on its way to another memory of the chip; it computes nothing",
  control: "it runs the kernels inside it",
};

const MOVES: [RegExp, string][] = [
  [/-(done|update)$/, "waits for what was started before and ran beside other kernels; nothing runs here"],
  [/-start$/, "starts to bring a value to another memory, beside the kernels that run meanwhile"],
];

/** What a kind of kernel is, in a sentence. */
export function kindWords({ kind, opcode }: Cluster): string {
  const own = kind === "transfer" ? MOVES.find(([form]) => form.test(opcode))?.[1] : undefined;
  return own ?? (opcode.endsWith("-start") ? "runs beside other kernels; its end stands apart" : KIND_WORDS[kind]);
}

/** "loop fusion · YNNPACK", "transfer (copy-start)" */
export function kindName({ kind, library, opcode }: Cluster): string {
  if (kind === "transfer") return `${KINDS.transfer} (${opcode})`;
  return `${KINDS[kind] ?? kind}${library ? ` · ${library}` : ""}`;
}

function ofNode(id: number, relations: Relations): Description {
  const node = relations.nodes.get(id);
  if (!node) return { title: `node ${id}`, facts: [] };
  const fate = relations.fates.get(id);
  const facts = [node.avals.map(shortAval).join(", "), placeWords(node.place)];
  if (fate) facts.push(`${fate.text || fate.kind}${fate.by && !fate.text.includes(fate.by) ? ` by ${fate.by}` : ""}`, fate.label);
  if (node.output) facts.push("a result");
  if (node.value) facts.push(`value ${node.value}`);
  const move = relations.moves.get(id);
  if (move) facts.push(`⇄ ${move.text}`);
  return {
    title: `${node.kind === "input" ? "input " : ""}${nodeWords(node)}`,
    facts,
    code: node.place?.text.trim() || undefined,
  };
}

function ofCluster(id: number, relations: Relations): Description {
  const cluster = relations.clusters.get(id);
  if (!cluster) return { title: `c${id}`, facts: [] };
  const facts = [
    kindName(cluster),
    count(cluster.nodes.length, "operation"),
    `reads ${bytes(cluster.input_bytes)}, writes ${bytes(cluster.output_bytes)}`,
    cluster.time ? seconds(cluster.time.median) + (cluster.time.calls > 1 ? ` for ${cluster.time.calls} executions` : "") : "",
    placeWords(cluster.place),
  ];
  return { title: `${cluster.label} ${cluster.name}`, facts };
}

/** "c0–c4, c7": labels that follow each other as one. */
export function ranges(labels: readonly string[]): string {
  const parts: [string, string][] = [];
  const next = (label: string) => (/^c\d+$/.test(label) ? `c${Number(label.slice(1)) + 1}` : null);
  for (const label of labels) {
    const last = parts[parts.length - 1];
    if (last && next(last[1]) === label) last[1] = label;
    else parts.push([label, label]);
  }
  return parts.map(([from, to]) => (from === to ? from : next(from) === to ? `${from}, ${to}` : `${from}–${to}`)).join(", ");
}

/** "in c0–c4"; of several programs, which of each: "in program 1, run 1×: c0, c1; program 2, run 11×: c2, c3". */
function kernelsIn(ids: readonly number[], store: Store): string {
  const { relations, data } = store;
  const groups = new Map<number, string[]>();
  for (const id of [...ids].sort((a, b) => a - b)) add(groups, relations.clusters.get(id)?.program ?? 0, relations.kernel(id));
  if (data.programs.length < 2 || !groups.size) return `in ${ranges([...groups.values()].flat()) || "no kernel"}`;
  const said = [...groups].map(([number, labels]) => {
    const runs = data.programs.find((one) => one.number === number)?.runs || Number(data.ran);
    return `program ${number + 1}${runs ? `, run ${runs.toLocaleString("en")}×` : ""}: ${ranges(labels)}`;
  });
  const rest = said.length - 4;
  return `in ${said.slice(0, 4).join("; ")}${rest > 0 ? `; ${count(rest, "more program")}` : ""}`;
}

function ofNodes(thing: Extract<Thing, { kind: "nodes" }>, store: Store): Description {
  const { relations } = store;
  const clusters = new Set(thing.ids.flatMap((id) => relations.clustersOf(id)));
  const inputs = thing.ids.filter((id) => relations.nodes.get(id)?.kind === "input").length;
  const operations = thing.ids.length - inputs;
  return {
    title: thing.title,
    facts: [
      operations || !inputs ? count(operations, "operation") : "",
      inputs ? count(inputs, "input") : "",
      kernelsIn([...clusters], store),
    ],
  };
}

function ofLine(thing: Extract<Thing, { kind: "line" }>, store: Store): Description {
  const source = store.data.sources[thing.source];
  const clusters = store.relations.clustersOfLine(thing.source, thing.line);
  const nodes = store.relations.nodesOfLine.get(`${thing.source}:${thing.line}`) ?? [];
  const where = source?.cell != null ? `cell ${source.cell}, line ${thing.line}` : `${source?.file ?? ""}:${thing.line}`;
  return {
    title: where,
    facts: [count(nodes.length, "operation"), kernelsIn(clusters, store)],
    code: source?.lines[thing.line - source.first]?.trim(),
  };
}

const nodeNames = (relations: Relations, id: number): string[] => {
  const node = relations.nodes.get(id);
  return node ? [nodeWords(node)] : [];
};

export function describe(thing: Thing, store: Store): Description {
  const { relations } = store;
  switch (thing.kind) {
    case "node":
      return ofNode(thing.id, relations);
    case "nodes":
      return ofNodes(thing, store);
    case "cluster":
      return ofCluster(thing.id, relations);
    case "line":
      return ofLine(thing, store);
    case "boundary": {
      const boundary = relations.boundaries.get(thing.id);
      if (!boundary) return { title: `boundary ${thing.id}`, facts: [] };
      return {
        title: `${relations.kernel(boundary.producer)} → ${relations.consumer(boundary)}`,
        facts: [boundary.shape, bytes(boundary.bytes), boundary.text, boundary.label],
      };
    }
    case "instruction":
      return {
        title: thing.line.name,
        facts: [
          thing.line.computation ? `in ${thing.line.computation}` : "",
          thing.line.cluster === null ? "" : `kernel ${relations.kernel(thing.line.cluster)}`,
          listed(thing.line.nodes.flatMap((id) => nodeNames(relations, id))),
        ],
        code: thing.line.text.trim(),
      };
    case "value":
      return { title: thing.name, facts: thing.cluster === null ? [] : [`written by ${relations.kernel(thing.cluster)}`] };
  }
}
