/** The drawing of a program's instructions at one of XLA's passes; from one to the next the boxes move. */

import type { Formation, FormedBox, HloLine, BoxState } from "../model/data";
import { standAt } from "../model/formation";
import { placeWords } from "../model/program";
import type { Store } from "../model/store";
import { nodeTitle } from "../model/words";
import { BOX, Formed, type Frame, type Hull } from "../graph/formed";
import type { Point, Size } from "../graph/layout";
import { h, s } from "../ui/dom";
import { during } from "../ui/motion";
import { bar, chip, colourOf } from "../ui/palette";
import { light, tag } from "../ui/selectable";

const MOVES = 520; // milliseconds, at the usual speed

type Rect = Point & Size;

/** A box, or the hull of a kernel, as it stands on the screen. */
interface Actor {
  element: HTMLElement;
  from: Rect;
  to: Rect;
  at: Rect;
  fades: [from: number, to: number];
  said: string;
  /** It moves before the eye, and not out of sight. */
  seen: boolean;
}

const mix = (a: number, b: number, t: number): number => a + (b - a) * t;
/** As a browser writes it, so that what stays the same is not set again. */
const tenth = (x: number): number => Math.round(10 * x) / 10;

export class FormedDrawing {
  readonly element: HTMLElement;
  readonly layout: Formed;
  private stage = -1;
  private readonly boxes = new Map<number, Actor>();
  private readonly skins = new Map<string, Actor>();
  private readonly within = s("path.line");
  private readonly crossing = s("path.line.crossing");
  private readonly lit = s("path.line.lit");
  private readonly sheet = h("div.skins");
  private halt = (): void => {};
  private frame: Frame = { places: new Map(), hulls: [], wires: [] };
  /** The lines of the optimised module, by name. */
  private readonly after: ReadonlyMap<string, HloLine>;

  constructor(
    private readonly formation: Formation,
    shown: ReadonlySet<number>,
    private readonly store: Store,
    private readonly program: number,
    /** What of the drawing can be seen. */
    private readonly window: () => Rect,
  ) {
    this.layout = new Formed(formation, shown);
    const lines = store.data.programs.find(({ number }) => number === program)?.hlo.after.lines ?? [];
    this.after = new Map(lines.map((line) => [line.name, line]));
    const { width, height } = this.layout;
    const wires = s("svg.wires.formed-wires", { width, height, "aria-hidden": "true" }, this.within, this.crossing, this.lit);
    this.element = h("div.layer.formed", { style: `width:${width}px;height:${height}px` }, this.sheet, wires);
  }

  /** Shows a stage; boxes move there, but for the first. */
  show(stage: number, speed: number): void {
    const first = this.stage < 0;
    this.stage = stage;
    this.frame = this.layout.frame(stage);
    for (const [id, place] of this.frame.places) this.enter(id, place);
    for (const [id, actor] of this.boxes) if (!this.frame.places.has(id)) this.leave(actor, this.beside(id));
    this.dress();
    this.stop();
    light(this.element, this.store);
    const window = this.window();
    const seen = ({ x, y }: Point) =>
      x < window.x + window.width && y < window.y + window.height && x + BOX.width > window.x && y + BOX.height > window.y;
    for (const actor of this.boxes.values()) actor.seen = seen(actor.from) || seen(actor.to);
    this.halt = during(first ? 0 : MOVES / speed, (t) => this.draw(t * t * (3 - 2 * t)));
  }

  /** What stands at a place now: it moves there from where it was, or comes out of `origin`. */
  private move<K>(actors: Map<K, Actor>, key: K, kind: string, to: Rect, origin?: Rect): Actor {
    let actor = actors.get(key);
    const hidden = !actor || actor.element.hidden;
    if (!actor) {
      actor = { element: h(kind), from: to, to, at: to, fades: [0, 1], said: "", seen: true };
      actors.set(key, actor);
    }
    actor.from = hidden ? (origin ?? to) : actor.at;
    actor.to = to;
    actor.fades = [hidden ? 0 : Number(actor.element.style.opacity), 1];
    actor.element.hidden = false;
    return actor;
  }

  /** A box is there: it moves from where it was, or comes out of the one that it is a copy of. */
  private enter(id: number, place: Point): void {
    const box = this.formation.boxes[id] as FormedBox;
    const origin = box.source === null ? undefined : this.boxes.get(box.source)?.at;
    const actor = this.move(this.boxes, id, "div.formed-box", { ...place, ...BOX }, origin);
    if (!actor.element.parentNode) this.element.append(actor.element);
    this.write(actor, standAt(box, this.stage) as BoxState, box);
  }

  /** What is no more, or not yet, fades; a box into the one that is read in its place. */
  private leave(actor: Actor, other?: Point): void {
    if (actor.element.hidden) return;
    actor.from = actor.at;
    actor.to = { ...actor.at, ...other };
    actor.fades = [Number(actor.element.style.opacity), 0];
  }

  /** The box into which one goes, or out of which it came. */
  private beside(id: number): Point | undefined {
    const { stands, source, into } = this.formation.boxes[id] as FormedBox;
    return this.frame.places.get((this.stage < (stands[0]?.stage ?? 0) ? source : into) ?? -1);
  }

  private write(actor: Actor, stand: BoxState, box: FormedBox): void {
    const key = `${stand.name} ${stand.opcode} ${stand.nodes.join()}`;
    if (actor.said === key) return;
    const nodes = stand.nodes.flatMap((id) => this.store.relations.nodes.get(id) ?? []);
    const written = nodes.map((node) => `${nodeTitle(node)} ${placeWords(node.place)}`.trim());
    const [node] = nodes;
    const short = node && [nodeTitle(node), node.place ? `line ${node.place.line}` : ""].filter(Boolean).join(" · ");
    const cluster = this.clusterOf(box);
    const { element } = actor;
    element.replaceChildren(
      h("b", {}, stand.opcode),
      h("span.muted", {}, nodes.length > 1 ? `${nodes.length} operations` : (short ?? "the compiler's own")),
    );
    element.title = [`${stand.name} = ${box.shape} ${stand.opcode}`, ...written.slice(0, 8)].join("\n");
    element.style.setProperty("--bar", bar(cluster === null ? [] : [cluster], this.store.relations));
    element.classList.toggle("lz-changed", actor.said !== "" && !actor.said.includes(` ${stand.opcode} `));
    element.setAttribute("aria-label", `${stand.opcode}, ${written.slice(0, 3).join(", ") || "the compiler's own"}`);
    actor.said = key;
    tag(element, { kind: "instruction", program: this.program, line: this.line(box, stand, cluster) });
  }

  /** What is selected with a box: of one that is there to the end, its instruction; else its operations. */
  private line(box: FormedBox, stand: BoxState, cluster: number | null): HloLine {
    const last = box.stands.at(-1) as BoxState;
    const known = box.end === null ? this.after.get(last.name) : undefined; // a name says nothing about another module
    const text = `${stand.name} = ${box.shape} ${stand.opcode}(…)`;
    if (known) return { ...known, nodes: stand.nodes.length ? stand.nodes : known.nodes };
    return { text, name: box.end === null ? last.name : `${stand.name} (gone)`, nodes: stand.nodes, cluster, computation: "" };
  }

  /** The kernel in which a box ends; null if it does not get there. */
  private clusterOf(box: FormedBox): number | null {
    if (box.end !== null) return null;
    return this.store.relations.kernelNamed.get(`${this.program}:${box.stands.at(-1)?.kernel}`)?.id ?? null;
  }

  /** The hulls of this stage: new ones come, others go. */
  private dress(): void {
    const { hulls } = this.frame;
    for (const [key, skin] of this.skins) if (!hulls.some((hull) => hull.key === key)) this.leave(skin);
    for (const hull of hulls) {
      const { element } = this.move(this.skins, hull.key, "div.skin", hull);
      if (!element.parentNode) this.sheet.append(element);
      this.name(element, hull);
    }
  }

  private name(element: HTMLElement, hull: Hull): void {
    const ends = new Set(
      hull.boxes.map((id) => this.clusterOf(this.formation.boxes[id] as FormedBox)).filter((id) => id !== null),
    );
    const [cluster] = ends.size === 1 ? [...ends] : [];
    const colour = cluster === undefined ? "var(--lz-mid)" : colourOf(this.store.relations.clusters.get(cluster));
    element.style.setProperty("--colour", colour);
    element.title = hull.kernel;
    element.replaceChildren(
      cluster === undefined ? "" : chip(cluster, this.store.relations),
      h("span.skin-name", {}, hull.kernel),
    );
  }

  /** Draws everything at a time of the movement, from 0 to 1. */
  private draw(t: number): void {
    for (const actor of [...this.boxes.values(), ...this.skins.values()]) {
      const { element, from, to, fades } = actor;
      if (element.hidden) continue;
      const part = (key: keyof Rect) => mix(from[key], to[key], t);
      actor.at = { x: part("x"), y: part("y"), width: part("width"), height: part("height") };
      if (!actor.seen && t < 1) continue;
      const { style } = element;
      const set = (key: "transform" | "width" | "height" | "opacity", value: string) => {
        if (style[key] !== value) style[key] = value;
      };
      set("transform", `translate(${tenth(actor.at.x)}px, ${tenth(actor.at.y)}px)`);
      set("width", `${tenth(actor.at.width)}px`);
      set("height", `${tenth(actor.at.height)}px`);
      set("opacity", String(tenth(10 * mix(...fades, t)) / 10));
      if (t === 1 && !fades[1]) element.hidden = true;
    }
    this.wire();
  }

  private wire(): void {
    const paths = { within: "", crossing: "", lit: "" };
    for (const [from, to, crossing] of this.frame.wires) {
      const [a, b] = [this.boxes.get(from), this.boxes.get(to)];
      if (!a || !b) continue;
      const lit = a.element.classList.contains("lz-lit") && b.element.classList.contains("lz-lit");
      const path = `M${(a.at.x + BOX.width / 2).toFixed(1)} ${(a.at.y + BOX.height).toFixed(1)}L${(b.at.x + BOX.width / 2).toFixed(1)} ${b.at.y.toFixed(1)}`;
      paths[lit ? "lit" : crossing ? "crossing" : "within"] += path;
    }
    this.within.setAttribute("d", paths.within);
    this.crossing.setAttribute("d", paths.crossing);
    this.lit.setAttribute("d", paths.lit);
  }

  update(): void {
    light(this.element, this.store);
    this.wire();
  }

  stop(): void {
    this.halt();
  }
}
