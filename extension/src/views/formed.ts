/** The drawing of a program's instructions at one of XLA's passes; from one to the next the boxes move. */

import type { Formation, FormedBox, HloLine, Stand } from "../model/data";
import { standAt } from "../model/formation";
import { placeWords } from "../model/program";
import type { Store } from "../model/store";
import { nodeTitle } from "../model/words";
import { BOX, Formed, type Frame, type Hull } from "../graph/formed";
import type { Point, Size } from "../graph/layout";
import { h, s } from "../ui/dom";
import { bar, chip, colourOf } from "../ui/palette";
import { light, tag } from "../ui/selectable";

const MOVES = 520; // milliseconds

/** A box as it stands on the screen. */
interface Actor {
  element: HTMLElement;
  from: Point;
  to: Point;
  at: Point;
  fades: [from: number, to: number];
  said: string;
  /** It moves before the eye, and not out of sight. */
  seen: boolean;
}

interface Skin {
  element: HTMLElement;
  from: Hull;
  to: Hull;
  at: Hull;
  fades: [from: number, to: number];
}

const mix = (a: number, b: number, t: number): number => a + (b - a) * t;
const reduced = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

export class FormedDrawing {
  readonly element: HTMLElement;
  readonly layout: Formed;
  stage = -1;
  private readonly boxes = new Map<number, Actor>();
  private readonly skins = new Map<string, Skin>();
  private readonly within = s("path.line");
  private readonly crossing = s("path.line.crossing");
  private readonly lit = s("path.line.lit");
  private readonly sheet = h("div.skins");
  private frame: Frame = { places: new Map(), hulls: [], wires: [] };
  private request = 0;
  /** The lines of the optimised module, by name. */
  private readonly after: ReadonlyMap<string, HloLine>;

  constructor(
    private readonly formation: Formation,
    shown: ReadonlySet<number>,
    private readonly store: Store,
    private readonly program: number,
    /** What of the drawing can be seen. */
    private readonly window: () => Point & Size = () => ({ x: 0, y: 0, width: Infinity, height: Infinity }),
  ) {
    this.layout = new Formed(formation, shown);
    const lines = store.data.programs.find(({ number }) => number === program)?.hlo.after.lines ?? [];
    this.after = new Map(lines.map((line) => [line.name, line]));
    const { width, height } = this.layout;
    const wires = s("svg.wires.formed-wires", { width, height, "aria-hidden": "true" }, this.within, this.crossing, this.lit);
    this.element = h(
      "div.layer.formed",
      { style: `width:${width}px;height:${height}px` },
      this.sheet,
      wires as unknown as HTMLElement,
    );
  }

  /** Shows a stage; boxes move there within `slow` milliseconds, 0 for at once. */
  show(stage: number, slow = MOVES): void {
    const before = this.frame;
    const first = this.stage < 0;
    this.stage = stage;
    this.frame = this.layout.frame(stage);
    for (const [id, place] of this.frame.places) this.enter(id, place, before, first);
    for (const [id, actor] of this.boxes) if (!this.frame.places.has(id)) this.leave(id, actor);
    this.dress();
    cancelAnimationFrame(this.request);
    light(this.element, this.store);
    const window = this.window();
    const seen = ({ x, y }: Point) =>
      x < window.x + window.width && y < window.y + window.height && x + BOX.width > window.x && y + BOX.height > window.y;
    for (const actor of this.boxes.values()) actor.seen = seen(actor.from) || seen(actor.to);
    if (first || slow <= 0 || reduced()) return this.draw(1);
    const began = performance.now();
    const step = (now: number) => {
      const t = Math.min(1, Math.max(0, now - began) / slow);
      this.draw(t * t * (3 - 2 * t));
      if (t < 1) this.request = requestAnimationFrame(step);
    };
    this.draw(0);
    this.request = requestAnimationFrame(step);
  }

  /** A box is there: it moves from where it was, or comes out of the one that it is a copy of. */
  private enter(id: number, place: Point, before: Frame, first: boolean): void {
    const box = this.formation.boxes[id] as FormedBox;
    const stand = standAt(box, this.stage) as Stand;
    let actor = this.boxes.get(id);
    const hidden = !actor || actor.element.hidden;
    if (!actor) {
      actor = { element: h("div.formed-box"), from: place, to: place, at: place, fades: [0, 1], said: "", seen: true };
      actor.element.style.width = `${BOX.width}px`;
      actor.element.style.height = `${BOX.height}px`;
      this.boxes.set(id, actor);
      this.element.append(actor.element);
    }
    const origin = hidden && box.source !== null ? (this.boxes.get(box.source)?.at ?? before.places.get(box.source)) : undefined;
    actor.from = origin ?? (hidden ? place : actor.at);
    actor.to = place;
    actor.fades = [hidden && !first ? 0 : Number(actor.element.style.opacity || 1), 1];
    actor.element.hidden = false;
    this.write(actor, stand, box);
  }

  /** A box is no more, or not yet: it fades, into the one that is read in its place. */
  private leave(id: number, actor: Actor): void {
    if (actor.element.hidden) return;
    const box = this.formation.boxes[id] as FormedBox;
    const other = this.stage < (box.stands[0]?.stage ?? 0) ? box.source : box.into;
    actor.from = actor.at;
    actor.to = (other !== null ? this.frame.places.get(other) : undefined) ?? actor.at;
    actor.fades = [Number(actor.element.style.opacity || 1), 0];
  }

  private write(actor: Actor, stand: Stand, box: FormedBox): void {
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
  private line(box: FormedBox, stand: Stand, cluster: number | null): HloLine {
    const last = box.stands.at(-1) as Stand;
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
    const now = new Map(this.frame.hulls.map((hull) => [hull.key, hull]));
    for (const [key, skin] of this.skins) {
      if (now.has(key)) continue;
      skin.from = skin.to = skin.at;
      skin.fades = [Number(skin.element.style.opacity || 1), 0];
    }
    for (const [key, hull] of now) {
      let skin = this.skins.get(key);
      const hidden = !skin || skin.element.hidden;
      if (!skin) {
        skin = { element: h("div.skin"), from: hull, to: hull, at: hull, fades: [0, 1] };
        this.skins.set(key, skin);
        this.sheet.append(skin.element);
      }
      skin.from = hidden ? hull : skin.at;
      skin.to = hull;
      skin.fades = [hidden ? 0 : Number(skin.element.style.opacity || 1), 1];
      skin.element.hidden = false;
      this.name(skin.element, hull);
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
    for (const actor of this.boxes.values()) {
      const { element, from, to, fades } = actor;
      if (element.hidden) continue;
      actor.at = { x: mix(from.x, to.x, t), y: mix(from.y, to.y, t) };
      if (!actor.seen && t < 1) continue;
      const { style } = element;
      const place = `translate(${actor.at.x.toFixed(1)}px,${actor.at.y.toFixed(1)}px)`;
      if (style.transform !== place) style.transform = place;
      const opacity = String(mix(...fades, t));
      if (style.opacity !== opacity) style.opacity = opacity;
      if (t === 1 && fades[1] === 0) element.hidden = true;
    }
    for (const skin of this.skins.values()) {
      const { element, from, to, fades } = skin;
      if (element.hidden) continue;
      const part = (key: "x" | "y" | "width" | "height") => mix(from[key], to[key], t);
      skin.at = { ...to, x: part("x"), y: part("y"), width: part("width"), height: part("height") };
      const { style } = element;
      style.transform = `translate(${skin.at.x.toFixed(1)}px,${skin.at.y.toFixed(1)}px)`;
      style.width = `${skin.at.width.toFixed(1)}px`;
      style.height = `${skin.at.height.toFixed(1)}px`;
      style.opacity = String(mix(...fades, t));
      if (t === 1 && fades[1] === 0) element.hidden = true;
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
    cancelAnimationFrame(this.request);
  }
}
