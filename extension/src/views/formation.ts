/** How the kernels came about: the instructions, pass by pass, put together and apart; beside it the HLO that a pass changed. */

import type { Formation, FormationStep, EliminatedOperation, PassInfo, Program } from "../model/data";
import { MOST, drawable } from "../model/formation";
import { count, listed, seconds } from "../model/format";
import { formation as readFormation, passes as readPasses } from "../model/read";
import { nodeTitle } from "../model/words";
import { placeWords } from "../model/program";
import { fill, h, prose } from "../ui/dom";
import { bounded, fitting, scaleTo, zoomKey, zoomTools } from "../ui/zoom";
import { player } from "../ui/player";
import { light, reveal, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { changeList, changesQuestion } from "./changes";
import { badge } from "./fates";
import { FormedDrawing } from "./formed";
import { BOX } from "../graph/formed";
import { fullest } from "../graph/sight";
import { drag } from "../ui/drag";

const AROUND = 12; // room around the boxes of the first picture
const LEAST = 0.75; // scale of the first picture
const TELL = 90; // milliseconds that a stage stands before its changes are written: a slider is dragged over many

export function formationView(context: Context): View {
  const { store, comm, questions, signal } = context;
  let drawing: FormedDrawing | null = null;
  let drawn: { program: Program; formation: Formation } | null = null;
  let zoom = 0;
  let telling: ReturnType<typeof setTimeout> | undefined;
  const control = player((stage) => show(stage));
  const title = h("div.stage-title", { role: "status" });
  const notice = h("div.muted.map-note", { hidden: true });
  const stage = h("div.stage", {});
  const canvas = h(
    "div.canvas",
    {
      tabindex: 0,
      role: "group",
      "aria-label": "instructions, in their kernels; comma and full stop step, p plays, plus and minus zoom",
    },
    stage,
  );
  const list = h("div.formation-changes", {});
  const listing = h(
    "button.tool",
    { type: "button", "aria-pressed": "true", title: "Show the HLO that the pass changed" },
    "HLO",
  );
  listing.addEventListener("click", () => {
    list.hidden = !list.hidden;
    listing.setAttribute("aria-pressed", String(!list.hidden));
  });
  const zooming = { by: (factor: number) => setZoom(zoom * factor), fit: () => fit(0.1) };
  const bar = h("div.toolbar.sub", {}, control.element, h("span.spring", {}), ...zoomTools(zooming), listing);
  const body = h("div.formation-body", {}, canvas, list);
  const empty = h("div.empty", {});
  const element = h("div.formation", {}, bar, title, notice, body, empty);

  const passAt = (at: number): PassInfo | undefined => drawn?.program.hlo.passes[at - 1];
  const nameAt = (at: number): string => {
    const pass = passAt(at);
    return pass ? `Pass ${at} of ${drawn?.program.hlo.passes.length}: ${pass.name}` : "Before the passes";
  };

  const setZoom = (next: number) => {
    const size = drawing?.layout;
    if (!size) return;
    const before = zoom;
    zoom = bounded(next);
    scaleTo(canvas, size, zoom, before);
  };
  const fit = (least = LEAST) => {
    const size = drawing?.layout;
    if (size && canvas.clientWidth) setZoom(Math.max(least, fitting(canvas, size)));
  };

  /** Draws the program that is looked at, or asks for it. */
  const draw = () => {
    const program = store.current;
    control.stop();
    const formation = program?.hlo.formation ?? null;
    if (program && formation?.boxes.length) {
      if (drawn?.formation === formation) return;
      drawn = { program, formation };
      fill(empty);
      bar.hidden = title.hidden = body.hidden = false;
      empty.hidden = true;
      control.stages(formation.steps.map(weight), nameAt);
      control.set(firstFusing(formation.steps));
      return lay();
    }
    drawing?.stop();
    drawing = drawn = null;
    bar.hidden = title.hidden = body.hidden = notice.hidden = true;
    empty.hidden = false;
    if (!program || formation) return fill(empty, "Nothing was compiled, so no kernel came about.");
    if (!store.data.live)
      return fill(
        empty,
        "How the kernels came about was too long to be kept in this saved view, or XLA's passes were not at hand.",
      );
    const written = program.hlo.passes.length > 0;
    const question = {
      key: `formation:${program.number}`,
      label: written ? "Ask again" : "Compile again and show",
      title: "Ask the kernel for what each pass did to the instructions",
      doing: written ? "following the instructions" : "compiling again",
      alone: !written,
      ask: () => load(program),
    };
    fill(empty, written ? "" : "XLA's passes were not written down when this was compiled. ", questions.button(question));
    if (written) void questions.ask(question);
  };
  const load = async (program: Program): Promise<string> => {
    const answer = await comm.ask({ type: "formation", program: program.number }, "formation");
    if (!program.hlo.passes.length) program.hlo.passes = readPasses(answer.passes);
    program.hlo.formation = readFormation(answer.formation);
    draw();
    return "";
  };

  /** Lays out the boxes that are drawn: all, or those around what is selected. */
  const lay = () => {
    if (!drawn) return;
    const { formation, program } = drawn;
    const { nodes } = store.stuckHighlights;
    const isLit = ({ stands }: Formation["boxes"][number]) => stands.some((one) => one.nodes.some((id) => nodes.has(id)));
    const all = formation.boxes;
    const seeds = nodes.size && all.length > MOST ? all.flatMap((box, id) => (isLit(box) ? [id] : [])) : [];
    const shown = drawable(formation, seeds);
    notice.hidden = shown.size === all.length;
    notice.textContent = `${shown.size.toLocaleString("en")} of ${count(all.length, "instruction")} are drawn, ${
      seeds.length ? "around what is selected" : "the first: select a line, an operation or a kernel for those around it"
    }.`;
    drawing?.stop();
    drawing = new FormedDrawing(formation, shown, store, program.number, sight);
    stage.replaceChildren(drawing.element);
    zoom = 0;
    fit();
    show(control.position());
    toFullest();
  };
  /** What of the drawing can be seen. */
  const sight = () => {
    const [outer, inner] = [canvas.getBoundingClientRect(), stage.getBoundingClientRect()];
    return {
      x: (outer.left - inner.left) / zoom,
      y: (outer.top - inner.top) / zoom,
      width: outer.width / zoom,
      height: outer.height / zoom,
    };
  };
  /** Scrolls to where the most boxes are: a wide drawing has much room between them. */
  const toFullest = () => {
    const places = [...(drawing?.layout.frame(control.position()).places.values() ?? [])];
    const sight = { width: canvas.clientWidth / zoom - 2 * AROUND, height: canvas.clientHeight / zoom - 2 * AROUND };
    const corner = fullest(places, BOX, sight);
    if (!corner) return;
    const inside = places.filter(({ x }) => x >= corner.x && x + BOX.width <= corner.x + sight.width);
    const right = Math.max(...inside.map(({ x }) => x + BOX.width));
    canvas.scrollLeft = ((corner.x + right) / 2) * zoom - canvas.clientWidth / 2;
    canvas.scrollTop = (corner.y - AROUND) * zoom;
  };

  const show = (at: number) => {
    if (!drawn || !drawing) return;
    drawing.show(at, control.speed());
    const step = drawn.formation.steps[at];
    const pass = passAt(at);
    fill(
      title,
      h("b", {}, nameAt(at)),
      pass ? h("span.muted", {}, pass.pipeline ? `pipeline ${pass.pipeline}` : "") : null,
      pass && pass.seconds !== null ? h("span.muted", {}, seconds(pass.seconds)) : null,
      step ? stepWords(step, drawn.formation.steps[at - 1]) : null,
      at ? badge("rule inferred") : null,
    );
    clearTimeout(telling);
    telling = setTimeout(() => tellChanges(at, pass), TELL);
  };

  const tellChanges = (at: number, pass: PassInfo | undefined) => {
    const gone = drawn?.formation.gone.filter((one) => one.stage === at) ?? [];
    const told = gone.length
      ? h(
          "div.formation-gone",
          {},
          h("b", {}, at ? "Gone since this pass" : "Never an instruction that computes"),
          ...gone.map(goneRow),
        )
      : "";
    if (!pass) fill(list, told, h("div.empty.small", {}, "Before the first pass each instruction is a kernel of its own."));
    else if (pass.changes) fill(list, told, changeList(pass.changes, "", store, signal));
    else if (!store.data.live)
      fill(list, told, h("div.empty.small", {}, "What this pass changed was not kept in this saved view."));
    else {
      const question = changesQuestion(store.program, pass, "Show the changes", context, () => {
        if (passAt(control.position()) === pass) tellChanges(control.position(), pass);
      });
      fill(list, told, h("div.empty.small", {}, questions.button(question)));
    }
    light(list, store);
  };
  const goneRow = ({ node: id, text }: EliminatedOperation): HTMLElement => {
    const node = store.relations.nodes.get(id);
    const words = node ? `${nodeTitle(node)} ${placeWords(node.place)}` : `operation ${id}`;
    return tag(h("div.gone-row", {}, h("b", {}, words.trim()), " ", ...prose(text)), { kind: "node", id });
  };

  element.addEventListener(
    "keydown",
    (event) => {
      const target = event.target as Element;
      if (target.matches("select, input[type=search]")) return;
      const zooms = canvas.contains(target) && zoomKey(event.key, zooming);
      if (!zooms && !control.key(event)) return;
      event.preventDefault();
    },
    { signal },
  );
  drag(canvas, signal);
  const watch = new ResizeObserver(() => {
    if (zoom || !canvas.clientWidth) return;
    fit();
    toFullest();
  });
  watch.observe(canvas);
  const off = [store.on("program", draw), store.on("stage", draw)];
  draw();
  return {
    element,
    update: () => {
      drawing?.update();
      light(list, store);
    },
    shown: () => {
      draw();
      if (zoom) return;
      fit();
      toFullest();
    },
    reveal: () => {
      if (drawn && drawn.formation.boxes.length > MOST && store.stuck?.kind !== "instruction") lay();
      reveal(canvas, stage, ".lz-formed-box.lz-lit:not([hidden])"); // arrows that are lit may be without any
    },
    dispose: () => {
      control.stop();
      clearTimeout(telling);
      drawing?.stop();
      watch.disconnect();
      off.forEach((end) => end());
    },
  };
}

/** What of a step can be seen. */
const weight = ({ together, apart, copied, added, merged, removed, rewritten }: FormationStep): number =>
  together + apart + copied + added + merged + removed + rewritten;

/** The stage before the first that puts something together: from there the picture is worth playing. */
function firstFusing(steps: readonly FormationStep[]): number {
  return Math.max(0, steps.findIndex(({ together }) => together > 0) - 1);
}

function stepWords(step: FormationStep, before: FormationStep | undefined): HTMLElement {
  const parts: [string, number][] = before
    ? [
        ["put together", step.together],
        ["taken apart", step.apart],
        ["copied", step.copied],
        ["merged", step.merged],
        ["rewritten", step.rewritten],
        ["added", step.added],
        ["removed", step.removed],
      ]
    : [];
  const kernels =
    before && before.kernels !== step.kernels
      ? `${before.kernels.toLocaleString("en")} → ${count(step.kernels, "kernel")}`
      : count(step.kernels, "kernel");
  const said = parts.filter(([, n]) => n).map(([words, n]) => `${n.toLocaleString("en")} ${words}`);
  return h(
    "span.tallies",
    {},
    h("b", {}, kernels),
    h("span", {}, before && !said.length ? "nothing put together or apart" : listed(said, 8)),
  );
}
