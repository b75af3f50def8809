/** What each kernel costs: operations, bytes, time, and how near it comes to what this machine can do. */

import type { Bounds, Cluster, Inspection } from "../model/data";
import { KINDS, kindWords } from "../ui/describe";
import { breakable, fill, h, prose } from "../ui/dom";
import { executions } from "../ui/executions";
import { ABSENT, bytes, count, figure, ratio, seconds } from "../model/format";
import { moreButton } from "../ui/more";
import { bar as stripe, chip, colourOf } from "../ui/palette";
import { onAll, perDevice, placeTitle, placeWords } from "../model/program";
import { type Figure, calls, intensity, speed, total as allOf } from "../model/rates";
import { times as readTimes } from "../model/read";
import { light, reveal, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { lineCosts } from "./linecosts";
import { rooflinePlot } from "./roofline";

const PAGE = 100;

interface Column {
  title: string;
  hint: string;
  value: (cluster: Cluster) => number | null;
  words: (x: number | null) => string;
  missing: string;
  /** Of all executions already, not of one. */
  whisker?: boolean;
  /** The figure of `Cost` that it shows. */
  figure?: Figure;
}

const ESTIMATE: Column = {
  title: "At least",
  hint: "estimated: no execution is faster than its bytes by the chip's published bandwidth, or its operations by its published peaks",
  value: (c) => c.at_least?.seconds ?? null,
  words: seconds,
  missing: "no figures are published that bound it",
};

const CYCLES: Column = {
  title: "Cycles",
  hint: "of one execution, estimated by the chip's own compiler",
  value: (c) => c.cycles,
  words: (x) => figure(x),
  missing: "the compiler wrote no estimate for it",
};

const ALL: Column[] = [
  {
    title: "FLOPs",
    hint: "floating-point operations of one execution, by XLA's analysis",
    value: (c) => c.cost?.flops ?? null,
    words: (x) => figure(x),
    missing: "XLA's analysis gives no FLOPs for this kernel",
    figure: "flops",
  },
  {
    title: "Transc.",
    hint: "transcendental operations of one execution (exp, tanh, sin, ...), which XLA counts apart from FLOPs",
    value: (c) => c.cost?.transcendentals ?? null,
    words: (x) => figure(x),
    missing: "XLA's analysis gives none for this kernel",
    figure: "transcendentals",
  },
  {
    title: "Bytes",
    hint: "read and written by one execution, by XLA's analysis",
    value: (c) => c.cost?.bytes ?? null,
    words: bytes,
    missing: "XLA's analysis gives no bytes for this kernel",
    figure: "bytes",
  },
  {
    title: "Time",
    hint: "of all executions in one run of the program: median of several runs; the whisker goes from the fastest to the slowest",
    value: (c) => c.time?.median ?? null,
    words: seconds,
    missing: "not measured",
    whisker: true,
  } satisfies Column,
  ESTIMATE,
  CYCLES,
  { title: "FLOP/byte", hint: "arithmetic intensity", value: intensity, words: ratio, missing: "needs both FLOPs and bytes" },
];

/** Of a chip that is not here, nothing is measured. */
const columnsOf = ({ chip, clusters }: Inspection): Column[] =>
  ALL.filter((column) => {
    if (column.figure === "transcendentals") return clusters.some(({ cost }) => cost?.transcendentals);
    if (column === CYCLES) return clusters.some(({ cycles }) => cycles !== null);
    return chip ? !column.whisker : column !== ESTIMATE;
  });

/** "2 M", "at least 2 M" or "2 M to 3 M". */
function within(bounds: Bounds | null, words: (x: number | null) => string): string {
  if (!bounds || (bounds.high === null && !bounds.low)) return "unknown";
  if (bounds.high === null) return `at least ${words(bounds.low)}`;
  return bounds.low === bounds.high ? words(bounds.low) : `${words(bounds.low)} to ${words(bounds.high)}`;
}

/** The time of all kernels; a loop's contains those of its kernels, where these have any. */
function timeOf(clusters: readonly Cluster[]): number | null {
  return clusters.reduce<number | null>((sum, one) => {
    const contained = one.kind === "control" && clusters.some((other) => other.inside === one.id && other.time);
    return !one.time || contained ? sum : (sum ?? 0) + one.time.median;
  }, null);
}

/** What the kernels take at least, each as often as it is known to run; none runs beside another. */
const leastOf = (clusters: readonly Cluster[]): number =>
  clusters.reduce((sum, one) => sum + (one.at_least?.seconds ?? 0) * (calls(one) ?? 1), 0);

/** What more is known of a figure. */
function hints(column: Column, { at_least: least }: Cluster): string[] {
  const said = [];
  if (column.figure === "flops") {
    if (least?.matrix) said.push(`${figure(least.matrix)} of them in products of matrices or convolutions`);
  }
  if (column === ESTIMATE && least)
    said.push(
      least.limit === "memory"
        ? `limited by memory: ${bytes(least.moved)} to and from HBM`
        : `limited by arithmetic: its bytes (${bytes(least.moved)}) take less`,
    );
  return said;
}

export function costView({ store, comm, questions, signal }: Context): View {
  const measure = questions.button({
    key: "measure",
    label: "Measure",
    title: "Run the program several times and time each kernel",
    doing: "running and timing",
    alone: true,
    ask: async () => {
      const answer = await comm.ask({ type: "profile" }, "times");
      store.setTimes(readTimes(answer.clusters), answer.machine ?? null);
      return "";
    },
  });
  const target = store.data.chip;
  const COLUMNS = columnsOf(store.data);
  const summary = h("span.muted", {});
  const plot = h("div.plot", {});
  const notes = h("div.notes", {});
  const table = h("div.table-holder", {});
  let sort = -1;
  let shown = PAGE;

  const ordered = (): Cluster[] => {
    const clusters = store.data.clusters.filter((cluster) => cluster.program === store.program || store.data.programs.length < 2);
    const column = COLUMNS[sort];
    return column ? [...clusters].sort((a, b) => (column.value(b) ?? -1) - (column.value(a) ?? -1)) : clusters;
  };
  const why = (column: Column): string => [column.missing, ...store.data.notes].join("\n");

  const cell = (column: Column, cluster: Cluster, most: number): HTMLElement => {
    const value = column.value(cluster);
    if (value === null || !Number.isFinite(value)) return h("td.figure.absent", { title: why(column) }, ABSENT);
    const time = cluster.time;
    const percent = (x: number) => `${most > 0 ? Math.min(100, (100 * x) / most) : 0}%`;
    const track = h(
      "span.track",
      { "aria-hidden": "true" },
      value > 0 && h("span.bar", { style: `width:${percent(value)};background:${colourOf(cluster)}` }),
    );
    if (column.whisker && time)
      track.append(
        h("span.whisker", { style: `left:${percent(time.low)};width:calc(${percent(time.high)} - ${percent(time.low)})` }),
      );
    const spread =
      column.whisker && time
        ? [
            `${seconds(time.low)} to ${seconds(time.high)}, ${time.runs} runs`,
            time.calls > 1 ? `${time.calls} executions a run, ${seconds(time.median / time.calls)} each` : "",
            speed(cluster) ? figure(speed(cluster), "FLOP/s") : "",
          ]
            .filter(Boolean)
            .join("\n")
        : hints(column, cluster).join("\n");
    return h(
      "td.figure",
      { title: [spread, cluster.cost?.source ? `source: ${cluster.cost.source}` : ""].filter(Boolean).join("\n") },
      h("span.amount", {}, column.words(value)),
      column.title === "FLOP/byte" ? null : track,
    );
  };

  const row = (cluster: Cluster, most: number[]): HTMLElement => {
    const kind = cluster.library || (KINDS[cluster.kind] ?? cluster.kind);
    return tag(
      h(
        "tr",
        { style: `--bar:${stripe([cluster.id], store.relations)}` },
        h(
          "td.kernel",
          {},
          chip(cluster.id, store.relations, false),
          h("span.kernel-name", { title: cluster.name }, ...breakable(cluster.name)),
          executions(cluster),
          h("div.kernel-more", {}, [kind, placeWords(cluster.place)].filter(Boolean).join(" · ")),
        ),
        h("td.kind", { title: kindWords(cluster) }, kind),
        ...COLUMNS.map((column, i) => cell(column, cluster, most[i] ?? 0)),
        h("td.where", { title: placeTitle(cluster.place) }, placeWords(cluster.place)),
      ),
      { kind: "cluster", id: cluster.id },
    );
  };

  const draw = () => {
    const clusters = ordered();
    const programs = store.data.programs.filter((one) => clusters.some((cluster) => cluster.program === one.number));
    const total = (column: Column): string => {
      if (column.figure) return within(allOf(column.figure, clusters, programs), column.words);
      if (column === ESTIMATE) return `≥ ${seconds(leastOf(clusters))}`;
      return column.whisker ? column.words(timeOf(clusters)) : "";
    };
    const [{ devices } = { devices: 1 }, ...others] = programs;
    const sums = (column: Column): string => {
      if (!column.figure || others.length) return "";
      return onAll(
        devices,
        within(allOf(column.figure, clusters, programs), (x) => column.words(x === null ? x : x * devices)),
      );
    };
    const times = COLUMNS.some(({ whisker }) => whisker) ? `; times: on all ${perDevice(programs)}` : "";
    const unknown = programs.flatMap((one) => one.total?.unknown ?? []);
    const most = COLUMNS.map((column) =>
      Math.max(0, ...clusters.map((one) => (column.value(one) ?? 0) * (column.whisker ? 1.25 : 1))),
    );
    const measured = clusters.filter((one) => one.time).length;
    if (target)
      fill(
        summary,
        `${target.title}, published: ${figure(target.bandwidth, "B/s")}, ${target.peaks.map(([type, rate]) => `${type} ${figure(rate, "OP/s")}`).join(", ")}`,
      );
    else
      summary.textContent = measured
        ? `${measured} of ${count(clusters.length, "kernel")} timed`
        : "no kernel has been timed yet";
    const rows = clusters.slice(0, shown).map((one) => row(one, most));
    const header = (column: Column, i: number) =>
      h(
        "th.figure",
        { "aria-sort": sort === i ? "descending" : "none" },
        h(
          "button.sort",
          {
            type: "button",
            title: `${column.hint}; click to sort`,
            onclick: () => {
              sort = sort === i ? -1 : i;
              draw();
            },
          },
          column.title,
          sort === i ? " ↓" : "",
        ),
      );
    const foot = h(
      "tr.total",
      {},
      h("td", {}, perDevice(programs) ? `all kernels, per device${times}` : "all kernels"),
      h("td", {}),
      ...COLUMNS.map((column) =>
        h("td.figure", { title: [sums(column), ...unknown].filter(Boolean).join("\n") }, h("span.amount", {}, total(column))),
      ),
      h("td.where", {}),
    );
    const more = moreButton(clusters.length - shown, PAGE, "kernel", () => {
      shown += PAGE;
      draw();
    });
    fill(
      table,
      clusters.length
        ? h(
            "table.table.costs",
            {},
            h("thead", {}, h("tr", {}, h("th", {}, "Kernel"), h("th", {}, "Kind"), ...COLUMNS.map(header), h("th", {}, "Line"))),
            h("tbody", {}, ...rows),
            h("tfoot", {}, foot),
          )
        : h("div.empty", {}, "No kernel runs in this program."),
      more,
      lineCosts(clusters, store),
    );
    fill(plot, clusters.length ? rooflinePlot(clusters, store) : null);
    bar.hidden = !clusters.length;
    fill(notes, ...store.data.notes.map((note) => h("p", {}, ...prose(note))));
    light(element, store);
  };

  const scroll = h(
    "div.scroll.costs-scroll",
    { tabindex: 0, role: "region", "aria-label": "cost of each kernel" },
    table,
    plot,
    notes,
  );
  const bar = h("div.toolbar", {}, summary, h("span.spring", {}), store.data.live && !target ? measure : null);
  const element = h("div.pane.cost", {}, bar, scroll);
  draw();
  const off = [store.on("figures", draw), store.on("program", draw)];
  signal.addEventListener("abort", () => off.forEach((stop) => stop()));
  return { element, update: () => light(element, store), reveal: () => reveal(scroll, table) };
}
