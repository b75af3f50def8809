/** What the views share: the data, the program looked at, and the selection (hover previews, a click sticks). */

import type { Boundary, Code, Finding, Inspection, Machine, Program, Stage, Time, HloStage } from "./data";
import { Relations } from "./program";
import { type Highlights, type Thing, keyOf, highlightsOf, same } from "./selection";

/** What the drawings are made of. */
function identity({ live, ran, sources, nodes, fates, clusters, programs }: Inspection): string {
  const kernels = clusters.map(({ id, program, name, nodes: members }) => [id, program, name, members]);
  return JSON.stringify([live, ran, sources, nodes, fates, kernels, programs.map(({ number }) => number)]);
}

/** "figures": boundaries or times came in later; "program": another program is looked at. */
export type Event = "selection" | "stuck" | "figures" | "program" | "stage";

export class Store {
  readonly relations: Relations;
  highlights: Highlights;
  /** Of what was clicked, whatever is pointed at. */
  stuckHighlights: Highlights;
  hovered: Thing | null = null;
  stuck: Thing | null = null;
  program: number;
  private readonly listeners = new Map<Event, Set<() => void>>();
  private highlightedKey = "";

  constructor(readonly data: Inspection) {
    this.relations = new Relations(data);
    this.highlights = this.stuckHighlights = highlightsOf(null, this.relations);
    this.program = data.programs.at(-1)?.number ?? data.clusters.at(-1)?.program ?? 0; // the last computes what was asked for
  }

  on(event: Event, listener: () => void): () => void {
    const set = this.listeners.get(event) ?? new Set();
    this.listeners.set(event, set.add(listener));
    return () => void set.delete(listener);
  }

  private emit(event: Event): void {
    for (const listener of this.listeners.get(event) ?? []) listener();
  }

  /** What is lit: the previewed thing, else the one that was clicked. */
  get shown(): Thing | null {
    return this.hovered ?? this.stuck;
  }

  hover(thing: Thing | null): void {
    if (same(thing, this.hovered)) return;
    this.hovered = thing;
    this.highlight();
  }

  /** A second click on the same thing lets it go. */
  click(thing: Thing): void {
    const again = same(thing, this.stuck);
    this.stuck = again ? null : thing;
    this.hovered = again ? null : this.hovered;
    this.highlight();
    this.followProgram();
    this.emit("stuck");
  }

  stick(thing: Thing): void {
    if (!same(thing, this.stuck)) this.click(thing);
  }

  clear(): void {
    const had = this.stuck !== null;
    this.hovered = this.stuck = null;
    this.highlight();
    if (had) this.emit("stuck");
  }

  private highlight(): void {
    const thing = this.shown;
    const key = `${thing ? keyOf(thing) : ""}|${this.stuck ? keyOf(this.stuck) : ""}`;
    if (key === this.highlightedKey) return;
    this.highlightedKey = key;
    this.highlights = highlightsOf(thing, this.relations);
    this.stuckHighlights = this.hovered ? highlightsOf(this.stuck, this.relations) : this.highlights;
    this.emit("selection");
  }

  /** What was clicked runs in another program: look at that one. */
  private followProgram(): void {
    if (!this.stuck) return;
    const programs = new Set([...this.highlights.clusters].map((id) => this.relations.clusters.get(id)?.program));
    const [first] = programs;
    if (first !== undefined && !programs.has(this.program)) this.look(first);
  }

  look(program: number): void {
    if (program === this.program) return;
    this.program = program;
    this.emit("program");
  }

  /** The program looked at. */
  get current(): Program | undefined {
    return this.data.programs.find((program) => program.number === this.program);
  }

  /** Takes over what was worked out later about the same graph and kernels; false where they are others. */
  renew(data: Inspection): boolean {
    if (identity(data) !== identity(this.data)) return false;
    Object.assign(this.data, data);
    this.relations.setClusters(data.clusters);
    this.relations.setBoundaries(data.boundaries);
    this.relations.forgetInstructions();
    this.emit("stage");
    this.emit("figures");
    return true;
  }

  /** `findings`: what stands out by now. */
  setBoundaries(boundaries: Boundary[], findings: Finding[]): void {
    Object.assign(this.data, { boundaries, findings });
    this.relations.setBoundaries(boundaries);
    this.emit("figures");
  }

  setBoundary(boundary: Boundary, findings: Finding[]): void {
    const boundaries = this.data.boundaries.map((one) => (one.id === boundary.id ? boundary : one));
    this.setBoundaries(boundaries, findings);
  }

  setFindings(findings: Finding[]): void {
    this.setBoundaries(this.data.boundaries, findings);
  }

  setTimes(times: { id: number; time: Time | null }[], machine: Machine | null): void {
    for (const { id, time } of times) {
      const cluster = this.relations.clusters.get(id);
      if (cluster) cluster.time = time;
    }
    if (machine) this.data.machine = machine;
    this.emit("figures");
  }

  setCode(id: number, code: Code): void {
    const cluster = this.relations.clusters.get(id);
    if (cluster) cluster.code = code;
  }

  setStage(program: number, which: HloStage, stage: Stage): void {
    const found = this.data.programs.find((one) => one.number === program);
    if (!found) return;
    found.hlo[which] = stage;
    this.relations.forgetInstructions();
    this.emit("stage");
  }
}
