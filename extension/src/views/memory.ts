/** Which values lie in memory at which step, and where the peak is. */

import type { Buffer, Memory } from "../model/data";
import { fill, h, prose, s } from "../ui/dom";
import { ABSENT, bytes, count, listed, ratio } from "../model/format";
import { onAll } from "../model/program";
import { entry } from "../ui/legend";
import { moreButton } from "../ui/more";
import { chips, colourOf } from "../ui/palette";
import { light, reveal, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { memoryMap } from "./treemap";

const PAGE = 80;
const LITTLE = 4096; // bytes of padding that are not worth a sentence

export function memoryView({ store, signal }: Context): View {
  const holder = h("div.scroll.memory", { tabindex: 0, role: "region", "aria-label": "memory over the steps of the program" });
  const element = h("div.pane", {}, holder);
  let order: "start" | "bytes" = "start";
  let shown = PAGE;
  let at: number | null = null; // the step of which the areas are shown

  const tile = (title: string, value: number | null, hint: string, of: number | null = null) =>
    h(
      "div.tile",
      { title: value === null ? store.data.notes.join("\n") || "not known" : hint },
      h("span.muted", {}, title),
      h("b", {}, value === null ? ABSENT : bytes(value), of === null ? null : h("span.of", {}, ` of ${bytes(of)}`)),
    );

  const draw = () => {
    const memory = store.current?.memory;
    const { chip } = store.data;
    const devices = Math.max(chip?.devices ?? 1, store.current?.devices ?? 1);
    fill(holder);
    if (!memory) {
      holder.append(
        h("div.empty", {}, "Nothing is known about this program's memory.", ...store.data.notes.map((note) => h("p", {}, note))),
      );
      return;
    }
    holder.append(
      h(
        "div.tiles",
        {},
        tile(
          chip ? (devices > 1 ? "HBM on each chip" : "HBM") : devices > 1 ? "Allocated per device" : "Allocated",
          memory.allocated_bytes,
          `what a run takes: arguments, results and temporary values, what shares memory once${chip ? `; ${chip.title} has ${bytes(chip.memory)}, of which its runtime keeps a part` : ""}${devices > 1 ? "; " : ""}${onAll(devices, bytes((memory.allocated_bytes ?? 0) * devices))}`,
          chip?.memory,
        ),
        tile("In use at the peak", memory.peak_bytes, "of what is allocated, the most in which values live at one step"),
        tile("Arguments", memory.argument_bytes, "given to the program"),
        tile("Results", memory.output_bytes, "given back"),
        tile("Temporary", memory.temp_bytes, "used only while it runs"),
        tile("Aliased", memory.alias_bytes, "results that lie in the memory of arguments"),
        tile("Constants", memory.constant_bytes, "part of the executable, in no other figure"),
        ...memory.elsewhere.filter(({ text }) => text).map(({ name, bytes: taken, text }) => tile(name, taken, text)),
      ),
    );
    const wasted = paddingWords(memory);
    if (wasted) holder.append(h("p.padding", {}, ...prose(wasted)));
    if (!memory.buffers.length) holder.append(h("div.empty", {}, "No live ranges are known for this program."));
    else holder.append(...ranges(memory));
    if (memory.source) holder.append(h("p.muted.origin", {}, `Source: ${memory.source}`));
    light(element, store);
  };

  const ranges = (memory: Memory): HTMLElement[] => {
    const use = memory.in_use;
    const steps = Math.max(1, use.length, memory.steps.length);
    const sorted = [...memory.buffers].sort((a, b) =>
      order === "bytes" ? b.bytes - a.bytes : a.start - b.start || b.bytes - a.bytes,
    );
    const most = Math.max(1, ...memory.buffers.map((buffer) => buffer.bytes));
    const select = h(
      "select.select",
      { "aria-label": "Order of the values" },
      h("option", { value: "start" }, "in order of time"),
      h("option", { value: "bytes" }, "largest first"),
    );
    select.value = order;
    select.addEventListener(
      "change",
      () => {
        order = select.value as typeof order;
        draw();
      },
      { signal },
    );
    const key = (kind: string, words: string) => entry(h(`span.swatch.swatch-${kind}`, { "aria-hidden": "true" }), words);
    const head = h(
      "div.toolbar.sub",
      {},
      h("span.muted", {}, `${count(memory.buffers.length, "value")} over ${count(steps, "step")}`),
      select,
      h("span.spring", {}),
      key("temp", "temporary"),
      key("argument", "argument"),
      key("output", "result"),
      key("constant", "constant"),
    );
    const outline = profile(use, memory);
    const rows = sorted.slice(0, shown).map((buffer) => rangeRow(buffer, steps, most, memory));
    const more = moreButton(sorted.length - shown, PAGE, "value", () => {
      shown += PAGE;
      draw();
    });
    const made: HTMLElement[] = [head, h("div.ranges", {}, use.length ? outline : null, ...rows)];
    if (use.length) made.unshift(areas(memory, use.length, outline));
    return more ? [...made, more] : made;
  };

  /** The areas at a step, which the outline marks and is clicked to choose. */
  const areas = (memory: Memory, steps: number, outline: HTMLElement): HTMLElement => {
    const svg = outline.querySelector("svg") as SVGElement;
    const mark = s("path.now", {});
    svg.append(mark);
    const { element, go } = memoryMap(memory, store, (step) => {
      at = step;
      mark.setAttribute("d", `M${(1000 * (step + 0.5)) / steps},0V90`);
    });
    if (at !== null) go(at);
    svg.addEventListener("click", (event) => {
      const { left, width } = svg.getBoundingClientRect();
      go(Math.min(steps - 1, Math.floor(((event.clientX - left) / width) * steps)));
    });
    return element;
  };

  const rangeRow = (buffer: Buffer, steps: number, most: number, memory: Memory): HTMLElement => {
    const left = (100 * buffer.start) / steps;
    const width = Math.max(0.4, (100 * (buffer.end - buffer.start + 1)) / steps);
    const colour = buffer.cluster === null ? "var(--lz-mid)" : colourOf(store.relations.clusters.get(buffer.cluster));
    const words = [
      [...buffer.variables, buffer.name].join(", "),
      `${buffer.kind}, ${bytes(buffer.bytes)}${buffer.space ? ` in ${buffer.space}` : ""}`,
      isPadded(buffer) ? `${buffer.shape}: ${ratio(buffer.padding)} times its elements' size, to fill whole tiles` : buffer.shape,
      `alive from step ${buffer.start}${memory.steps[buffer.start] ? ` (${memory.steps[buffer.start]})` : ""} to ${buffer.end}${memory.steps[buffer.end] ? ` (${memory.steps[buffer.end]})` : ""}`,
      buffer.shares.length ? `in the same memory as ${listed(buffer.shares)}` : "",
      buffer.donated ? "donated: its memory is used again for a result" : "",
    ]
      .filter(Boolean)
      .join("\n");
    const peak =
      memory.peak_step === null ? null : h("span.peak-line", { style: `left:${(100 * (memory.peak_step + 0.5)) / steps}%` });
    const made = h(
      "div.range",
      { title: words, "aria-label": words },
      h("span.range-name", {}, buffer.variables[0] ?? buffer.name),
      buffer.cluster === null ? h("span", {}) : chips([buffer.cluster], store.relations, 1),
      h("span.range-bytes", {}, bytes(buffer.bytes)),
      h(
        "span.lane",
        {},
        peak,
        h(`span.life.life-${buffer.kind}`, {
          style: `left:${left}%;width:${width}%;--colour:${colour};--weight:${0.35 + (0.65 * buffer.bytes) / most}`,
        }),
      ),
      h(
        "span.range-flags",
        {},
        buffer.space ? h("span.badge.badge-plain", {}, buffer.space) : null,
        isPadded(buffer) && extra(buffer) > LITTLE ? h("span.badge.badge-plain", {}, `padded ${ratio(buffer.padding)}×`) : null,
        buffer.donated ? h("span.badge.badge-plain", {}, "donated") : null,
        buffer.shares.length ? h("span.badge.badge-plain", {}, `shared ${buffer.shares.length + 1}×`) : null,
      ),
    );
    return tag(made, { kind: "value", name: buffer.name, nodes: buffer.nodes, cluster: buffer.cluster });
  };

  draw();
  const other = () => {
    at = null;
    draw();
  };
  const off = [store.on("program", other), store.on("figures", draw)];
  signal.addEventListener("abort", () => off.forEach((stop) => stop()));
  return { element, update: () => light(element, store), reveal: () => reveal(holder) };
}

const isPadded = ({ padding }: Buffer): boolean => padding !== null && padding >= 1.1;

/** Bytes that fill its tiles. */
const extra = ({ bytes: taken, padding }: Buffer): number => taken - taken / (padding ?? 1);

/** The values that tiled layouts cost most: "`f32[100,3]` takes 42 times its size". */
function paddingWords(memory: Memory): string {
  const padded = memory.buffers.filter((buffer) => isPadded(buffer) && !buffer.space && extra(buffer) > LITTLE);
  const seen = new Map(padded.sort((a, b) => extra(b) - extra(a)).map((buffer) => [buffer.shape, buffer]));
  const most = [...seen.values()].slice(0, 3);
  if (!most.length) return "";
  const each = most.map(
    ({ shape, padding, bytes: taken }) =>
      `\`${shape.replace(/\{.*/, "")}\` takes ${ratio(padding)} times its size (${bytes(taken)})`,
  );
  return `Arrays lie in tiles that are filled up: ${each.join("; ")}.`;
}

/** The outline of bytes in use over the steps, with the peak. */
function profile(use: number[], memory: Memory): HTMLElement {
  const width = 1000;
  const height = 90;
  const largest = use.reduce((most, value) => Math.max(most, value), 0);
  const top = Math.max(1, largest);
  const y = (value: number) => height - (value / top) * (height - 6);
  const x = (step: number) => (width * step) / use.length;
  const path = use.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)},${y(value).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
  const peak = memory.peak_step;
  const svg = s("svg.profile", {
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `bytes in use over ${count(use.length, "step")}, at most ${bytes(largest)}`,
  });
  svg.append(s("path.area", { d: `${path}V${height}H0Z` }), s("path.outline", { d: path }));
  if (peak !== null) svg.append(s("path.peak", { d: `M${x(peak + 0.5)},0V${height}` }));
  const where = peak === null ? "" : `peak at step ${peak}${memory.steps[peak] ? `, ${memory.steps[peak]}` : ""}`;
  const words = h(
    "figcaption.profile-words",
    {},
    h("b", {}, `${bytes(largest)} in use at most`),
    h("span.muted", { title: where }, where),
  );
  return h("figure.range.profile-row", {}, words, svg);
}
