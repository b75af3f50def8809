/** The head of the inspector: what was compiled, how much of it could be followed, what the cache did. */

import type { Inspection, Program } from "../model/data";
import { h } from "./dom";
import { count, listed } from "../model/format";
import { between, kernelWords, perDevice } from "../model/program";
import type { Store } from "../model/store";
import { came } from "../model/words";

export function header(store: Store): HTMLElement {
  const { data } = store;
  const operations = operationsOf(data);
  const dead = data.fates.filter(({ kind }) => kind === "dead").length;
  return h(
    "header.header",
    {},
    h("h2.title", { title: data.title || null }, data.title || cellsOf(data)),
    h(
      "p.counts",
      {},
      h("b", {}, count(operations, "operation")),
      ...(data.reading ? [] : became(data)),
      dead ? h("span.muted", {}, `${count(dead, "dead operation")} never computed`) : null,
    ),
    coverage(data),
    ...events(data),
    data.programs.length > 1 ? selector(store) : null,
    data.apart ? earlier(data) : null,
  );
}

/** What XLA made of them. */
const became = ({ clusters, boundaries }: Inspection): HTMLElement[] => [
  h("span.arrow", { "aria-label": "became" }, "→"),
  h("b", {}, kernelWords(clusters)),
  h("span.muted", {}, count(between(boundaries).length, "boundary", "boundaries")),
];

/** What runs; what nobody needs is counted apart. */
function operationsOf({ programs, coverage, nodes }: Inspection): number {
  const run = programs.reduce((sum, program) => sum + program.operations, 0);
  return run || coverage.operations || nodes.filter((node) => node.kind === "op").length;
}

/** What earlier cells had left pending, which is counted nowhere else, and the lines that wrote it. */
function earlier({ earlier: left, apart }: Inspection): HTMLElement {
  const lines = left
    .flatMap((one) => one.lines)
    .map(({ label, text, operations }) => h("li", {}, label, h("code", {}, text), count(operations, "operation")));
  return h("details.earlier", {}, h("summary", {}, `Apart: ${apart}`), h("ul", {}, ...lines));
}

function coverage({ coverage: { operations, followed, inferred, lost } }: Inspection): HTMLElement | null {
  if (!operations) return null;
  const words = `${followed} followed by their numbers, ${inferred} inferred, ${lost} lost, of ${count(operations, "operation")}`;
  const share = (n: number) => `${(100 * n) / operations}%`;
  const percent = (100 * (followed + inferred)) / operations;
  const shown = percent === 100 ? "100" : Math.min(99.9, percent).toFixed(1).replace(/\.0$/, "");
  return h(
    "p.coverage",
    { title: words, "aria-label": `coverage: ${words}` },
    h(
      "span.coverage-bar",
      { "aria-hidden": "true" },
      h("span.followed", { style: `width:${share(followed)}` }),
      h("span.inferred", { style: `width:${share(inferred)}` }),
    ),
    h("span", {}, `${shown} % accounted for`),
    inferred ? h("span.muted", {}, `${inferred.toLocaleString("en")} inferred`) : null,
    lost ? h("b.lost", {}, `${lost.toLocaleString("en")} lost`) : null,
  );
}

/** "Cell 3", "Cells 2, 3" */
function cellsOf({ cell, sources }: Inspection): string {
  if (cell !== null) return `Cell ${cell}`;
  const cells = [...new Set(sources.flatMap(({ cell }) => (cell === null ? [] : [String(cell)])))];
  return cells.length ? `Cell${cells.length > 1 ? "s" : ""} ${listed(cells, 4)}` : "Inspection";
}

const CAME: Record<string, string> = {
  hit: "the executable was in the cache: nothing was compiled",
  disk: "the executable came from the persistent cache on disk",
  given: "lazynb did not compile it, and does not know how long that took nor whether it ran",
};

function events({ programs, ran, target, form }: Inspection): HTMLElement[] {
  const [first] = programs;
  const made = [];
  const each = perDevice(programs);
  if (each)
    made.push(
      h(
        "span.event",
        { title: "Bytes, FLOPs and memory are those of one device, measured times of all together." },
        `bytes and FLOPs per device, on ${each}`,
      ),
    );
  if (form) made.push(h("span.event", { title: `what jax.jit of the code would compile: ${form}` }, "as jax.jit"));
  if (target) made.push(h("span.event", { title: "what this was compiled for; it is not here" }, `compiled for ${target}`));
  if (!ran && !programs.every(({ runs, cache }) => runs || cache === "given")) {
    const words = programs.some(({ runs }) => runs) ? "the last not run" : "not run";
    made.push(h("span.event", { title: "compiled, but not run" }, words));
  }
  if (first && programs.length === 1) {
    const words = came(first);
    if (words)
      made.push(h("span.event", { title: `${words}\n${CAME[first.cache] ?? "what the cache of executables did"}` }, words));
    if (first.backend) made.push(h("span.event", { title: "backend" }, first.backend));
  }
  return made;
}

/** That it ran before the cell's end. */
const early = ({ runs }: Program): string =>
  runs ? `ran${runs > 1 ? ` ${runs.toLocaleString("en")} times` : ""} at a trace break` : "";

function selector(store: Store): HTMLElement {
  const options = store.data.programs.map((program, i) =>
    h(
      "option",
      { value: program.number },
      [
        `Program ${i + 1} of ${store.data.programs.length}: ${count(program.operations, "operation")}`,
        came(program),
        early(program),
      ]
        .filter(Boolean)
        .join(", "),
    ),
  );
  const select = h("select.select.programs", { "aria-label": "Program" }, ...options);
  const sync = () => (select.value = String(store.program));
  select.addEventListener("change", () => store.look(Number(select.value)));
  store.on("program", sync);
  sync();
  return select;
}
