/** The module before, after each pass that changed something, and after all of them. */

import type { HloLine, PassInfo, Program, Stage, HloStage } from "../model/data";
import { fill, h, put, tool } from "../ui/dom";
import { count } from "../model/format";
import { bar, chips } from "../ui/palette";
import { stage as readStage } from "../model/read";
import { type Thing, litLine } from "../model/selection";
import { light, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { Rows } from "../ui/virtual";
import { came } from "../model/words";
import { seconds } from "../model/format";
import { changeList, changesQuestion } from "./changes";
import { cut, hloText } from "./hlotext";
import { timesPane } from "./times";

const PLAY = 1100;
const LINE = 20;
/** Pixels beside the text of a line: number, chip, margin. */
const BESIDE = 110;
/** Letters by which what is wrapped is indented. */
const INDENT = 4;

/** How many lines a text takes in a list of a width, with letters so wide. */
function linesOf(letters: number, width: number, wide: number): number {
  const room = Math.max(12, Math.floor((width - BESIDE) / wide));
  return 1 + Math.ceil(Math.max(0, letters - room) / (room - INDENT));
}

/** "what runs: 14 passes changed something, compiled in 20 ms" */
function whatRuns(one: Program): string {
  const changed = one.hlo.passes.length ? `${count(one.hlo.passes.length, "pass", "passes")} changed something` : ""; // or unknown
  const said = [changed, came(one)].filter(Boolean).join(", ");
  return said ? `what runs: ${said}` : "what runs";
}

export function hloView(context: Context): View {
  const { store, comm, questions, signal } = context;
  let position = Number.MAX_SAFE_INTEGER; // after all
  let hits: number[] = [];
  let hit = -1;
  let lines: HloLine[] = [];
  let timer: ReturnType<typeof setInterval> | undefined;
  let unopened = false; // the list is still at its first line
  let timed = false; // what compiling took is shown

  const program = (): Program | undefined => store.current;
  const passes = (): PassInfo[] => program()?.hlo.passes ?? [];
  const last = (): number => passes().length + 1;

  const rows = new Rows(
    (width, i) => LINE * linesOf(cut(lines[i]?.text ?? "").length, width, (wide ||= letter()) || 7.3),
    (i) => lineRow(lines[i] as HloLine, i),
    {
      label: "instructions",
      drawn: () => light(rows.element, store),
      preview: (i) => store.hover(thingOf(i)),
      activate: (i) => {
        const thing = thingOf(i);
        if (thing) store.click(thing);
      },
    },
  );
  let wide = 0;
  /** The width of a letter; 0 as long as the list has none. */
  const letter = (): number => {
    const sample = h("code.hlo-text.sample", {}, "x".repeat(100));
    rows.element.append(sample);
    const width = sample.getBoundingClientRect().width / 100;
    sample.remove();
    return width;
  };
  const thingOf = (i: number): Thing | null => {
    const line = lines[i];
    return line?.name ? { kind: "instruction", program: store.program, line } : null;
  };
  const lineRow = (line: HloLine, i: number): HTMLElement => {
    const clusters = line.cluster !== null ? [line.cluster] : [];
    const row = h(
      `div.row.hlo-line${hits[hit] === i ? ".hit-now" : ""}`,
      { style: `--bar:${bar(clusters, store.relations)}` },
      h("span.number", {}, i + 1),
      h("span.gutter", {}, clusters.length && line.name ? chips(clusters, store.relations, 1) : null),
      hloText(line, query()),
    );
    return line.name ? tag(row, { kind: "instruction", program: store.program, line }, false) : row;
  };

  const input = h("input.search", { type: "search", placeholder: "Search instructions  /", "aria-label": "Search instructions" });
  const query = () => (input.value.trim() ? input.value.toLowerCase() : "");
  const found = h("span.muted.found", { role: "status" });
  const slider = h("input.slider", { type: "range", min: 0, step: 1, "aria-label": "Stage of the compilation" });
  const play = tool("▶", "Play the passes", () => (timer === undefined ? start() : stop()));
  const toolbar = h("div.toolbar", {});
  const title = h("div.stage-title", { role: "status" });
  const body = h("div.hlo-body", {});

  const timing = h("button.tool", { type: "button", title: "What compiling took, by stage, pass and line" }, "Times");
  timing.addEventListener("click", () => turn(!timed), { signal });
  const turn = (to: boolean) => {
    stop();
    timed = to;
    draw();
  };

  const go = (to: number) => {
    timed = false;
    position = Math.min(last(), Math.max(0, to));
    draw();
  };
  const stop = () => {
    clearInterval(timer);
    timer = undefined;
    play.textContent = "▶";
    play.setAttribute("aria-label", "Play the passes");
  };
  const start = () => {
    if (position >= last()) go(0);
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "Pause");
    timer = setInterval(() => {
      if (position >= last() || !element.isConnected) stop();
      else go(position + 1);
    }, PLAY);
  };

  const draw = () => {
    position = Math.min(position, last());
    slider.max = String(last());
    slider.value = String(position);
    const one = program();
    timing.setAttribute("aria-pressed", String(timed));
    toolbar.hidden = title.hidden = !one;
    if (!one) return fill(body, h("div.empty", {}, "No program was compiled, so there is no HLO."));
    if (timed) drawTimes(one);
    else if (position === 0)
      drawStage(one, "before", "Before the passes", `what JAX gave to XLA${one.backend ? `, for ${one.backend}` : ""}`);
    else if (position === last()) drawStage(one, "after", "After all passes", whatRuns(one));
    else drawPass(passes()[position - 1] as PassInfo);
    slider.setAttribute("aria-valuetext", title.textContent ?? "");
    search(false);
  };
  const name = (head: string, words: string, ...more: HTMLElement[]) =>
    fill(title, h("b", {}, head), h("span.muted", {}, words), ...more);

  const drawStage = (one: Program, which: HloStage, head: string, words: string) => {
    const stage: Stage = one.hlo[which];
    name(head, words);
    const other = lines !== stage.lines;
    lines = stage.lines;
    if (lines.length) {
      if (body.firstElementChild !== rows.element) fill(body, rows.element); // taken out, it would forget where it was scrolled to
      rows.set(lines.length);
      if (other) toEntry();
      return;
    }
    if (stage.text === null && store.data.live) {
      const load = questions.button({
        key: `stage:${one.number}:${which}`,
        label: "Load the text",
        title: "The text was too long to be sent at once",
        doing: "asking the kernel",
        ask: async () => {
          const answer = await comm.ask({ type: "stage", program: one.number, which }, "stage");
          store.setStage(one.number, which, readStage(answer.stage));
          return "";
        },
      });
      fill(body, h("div.empty", {}, "The text is long; it is sent when it is asked for. ", load));
    } else
      fill(
        body,
        h(
          "div.empty",
          {},
          stage.text === null ? "The text was too long to be kept in this saved view." : "This executable gives no HLO.",
        ),
      );
  };

  /** A module begins with what is called; what runs is at its end. It waits until the list has a size. */
  const toEntry = () => {
    unopened = !rows.element.clientHeight;
    if (!unopened)
      rows.begin(
        Math.max(
          0,
          lines.findIndex(({ text }) => text.startsWith("ENTRY ")),
        ),
      );
  };

  const drawTimes = (one: Program) => {
    name("What compiling took", came(one));
    lines = [];
    rows.set(0);
    fill(body, timesPane(one.times));
    light(element, store);
  };

  const drawPass = (pass: PassInfo) => {
    const where = passes().indexOf(pass) + 1;
    name(`Pass ${where} of ${passes().length}: ${pass.name}`, pass.pipeline ? `pipeline ${pass.pipeline}` : "", tallies(pass));
    if (pass.seconds !== null)
      title.append(h("span.muted", { title: "by XLA, less what writing its text took (inferred)" }, seconds(pass.seconds)));
    lines = [];
    rows.set(0);
    if (pass.changes) return fill(body, changeList(pass.changes, query(), store, signal));
    if (!store.data.live) return fill(body, h("div.empty", {}, "Only the counts of this pass were kept in this saved view."));
    const question = changesQuestion(store.program, pass, "Ask again", context, () => {
      if (passes()[position - 1] === pass) draw();
    });
    fill(body, h("div.empty", {}, questions.button(question)));
    void questions.ask(question);
  };

  /** Finds the text again; with `move`, goes to the first hit. */
  const search = (move: boolean) => {
    const text = query();
    hits = [];
    if (text) lines.forEach((line, i) => line.text.toLowerCase().includes(text) && hits.push(i));
    hit = hits.length && move ? 0 : Math.min(hit, hits.length - 1);
    if (body.firstElementChild === rows.element) rows.draw(true);
    say();
    if (move && hit >= 0) rows.show(hits[hit] as number);
  };
  const say = () => {
    found.textContent = !query()
      ? ""
      : !lines.length
        ? ""
        : hits.length
          ? `${Math.max(0, hit) + 1} of ${hits.length}`
          : "nothing found";
  };
  const step = (by: number) => {
    if (!hits.length) return;
    hit = (hit + by + hits.length) % hits.length;
    rows.show(hits[hit] as number);
    rows.draw(true);
    say();
  };

  input.addEventListener("input", () => (lines.length ? search(true) : draw()), { signal });
  input.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    },
    { signal },
  );
  slider.addEventListener(
    "input",
    () => {
      stop();
      go(Number(slider.value));
    },
    { signal },
  );
  const manual = (by: number) => () => {
    stop();
    go(position + by);
  };
  put(toolbar, [
    play,
    tool("‹", "Previous stage", manual(-1)),
    h("span.end", {}, "before"),
    slider,
    h("span.end", {}, "after"),
    tool("›", "Next stage", manual(1)),
    timing,
    h("span.spring", {}),
    input,
    tool("↑", "Previous hit (Shift+Enter)", () => step(-1)),
    tool("↓", "Next hit (Enter)", () => step(1)),
    found,
  ]);
  const element = h("div.pane.hlo", {}, toolbar, title, body);
  draw();
  const off = [store.on("program", () => go(Number.MAX_SAFE_INTEGER)), store.on("stage", draw)];
  return {
    element,
    update: () => light(element, store),
    shown: () => {
      rows.shown();
      if (unopened) toEntry();
    },
    reveal: () => {
      const isLit = (line: HloLine) => litLine(line, store.program, store.highlights);
      const first = lines.findIndex(isLit);
      if (first >= 0 && !lines.some((line, i) => rows.sees(i) && isLit(line))) rows.show(first);
    },
    search: () => input.focus(),
    dispose: () => {
      stop();
      off.forEach((end) => end());
      rows.dispose();
    },
  };
}

export function tallies(pass: PassInfo): HTMLElement {
  const parts: [string, number | null, string][] = [
    ["+", pass.added, "added"],
    ["−", pass.removed, "removed"],
    ["~", pass.rewritten, "rewritten"],
    ["⊕", pass.fused, "fused"],
  ];
  return h(
    "span.tallies",
    {},
    ...parts
      .filter(([, n]) => n)
      .map(([sign, n, word]) => h(`span.tally.tally-${word}`, { title: `${n} ${word}` }, `${sign}${n} ${word}`)),
  );
}
