/** The gutter of one editor: a stripe in the colours of a line's kernels, a diamond where its trace broke. */

import { Compartment, EditorState, type Extension, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { type BlockInfo, type EditorView, GutterMarker, ViewPlugin, gutter } from "@codemirror/view";
import { h, s } from "../ui/dom";
import { look, stripe } from "../ui/palette";
import { type Held, follow, place } from "./held";
import { coloursOf, weightOf } from "./marks";
import type { Line } from "./messages";
import { inBrief } from "./words";

/** What an editor tells of itself. */
export interface Host {
  opened(view: EditorView): void;
  closed(view: EditorView): void;
  point(view: EditorView, line: Line, mark: Element): void;
  leave(): void;
  /** `onBreak`: the diamond was clicked, not the stripe. */
  choose(line: Line, onBreak: boolean): void;
}

export const setLines = StateEffect.define<readonly Line[]>();
/** The numbers, as they were run, of the lines that are selected somewhere on the page. */
export const setChosen = StateEffect.define<ReadonlySet<number>>();
const setHeld = StateEffect.define<readonly Held[]>();

const heldField = StateField.define<readonly Held[]>({
  create: () => [],
  update: (held, { effects }) => effects.reduce((now, effect) => (effect.is(setHeld) ? effect.value : now), held),
});

const chosenField = StateField.define<ReadonlySet<number>>({
  create: () => new Set(),
  update: (chosen, { effects }) => effects.reduce((now, effect) => (effect.is(setChosen) ? effect.value : now), chosen),
});

const holding = (held: readonly Held[]): Held[] => held.filter(({ holds }) => holds);

/** The mark of the line that begins at a position. */
export function lineAt(state: EditorState, at: number): Line | null {
  return holding(state.field(heldField, false) ?? []).find((one) => one.at === at)?.line ?? null;
}

/** Where a line that was run is now: where its mark is, else where it was. */
export function placeOf(state: EditorState, line: number): number {
  const held = holding(state.field(heldField, false) ?? []).find((one) => one.line.line === line);
  return held?.at ?? state.doc.line(Math.min(Math.max(line, 1), state.doc.lines)).from;
}

class Mark extends GutterMarker {
  private readonly key: string;

  constructor(
    readonly line: Line,
    private readonly chosen: boolean,
  ) {
    super();
    this.key = `${chosen} ${JSON.stringify(line)}`;
  }

  override eq(other: GutterMarker): boolean {
    return other instanceof Mark && other.key === this.key;
  }

  override toDOM(): Node {
    const { line, chosen } = this;
    const weight = weightOf(line);
    return h(
      chosen ? "div.mark.chosen" : "div.mark",
      { "data-line": line.line, title: null, "aria-label": `${inBrief(line)}${chosen ? ", selected" : ""}` },
      weight ? diamond(weight) : null,
      h(`span.stripe${line.kernels.length ? "" : ".none"}`, {
        style: `--stripe:${stripe(coloursOf(line).map(look)) || "none"}`,
        hidden: isBare(line),
      }),
    );
  }
}

/** Breaks alone: there is no stripe. */
const isBare = (line: Line): boolean => !line.kernels.length && !line.fates.length;

export function diamond(weight: 1 | 2 | 3): SVGElement {
  const r = [0, 5, 4.2, 3.2][weight] as number;
  return s(
    `svg.break.weight-${weight}`,
    { viewBox: "-6 -6 12 12", width: 12, height: 12, "aria-hidden": "true" },
    s("path", { d: `M0,${-r}L${r},0L0,${r}L${-r},0Z` }),
  );
}

function drawn(host: Host): Extension {
  const at = (view: EditorView, block: BlockInfo, event: Event) => {
    const line = lineAt(view.state, block.from);
    const mark = event.target instanceof Element ? event.target.closest(".lz-mark") : null;
    return line && mark ? { line, mark } : null;
  };
  return gutter({
    class: "lazynb-gutter",
    markers: (view) =>
      RangeSet.of(
        holding(view.state.field(heldField)).map((one) =>
          new Mark(one.line, view.state.field(chosenField).has(one.line.line)).range(one.at),
        ),
        true,
      ),
    domEventHandlers: {
      mouseover: (view, block, event) => {
        const found = at(view, block, event);
        if (found) host.point(view, found.line, found.mark);
        return false;
      },
      mouseout: () => {
        host.leave();
        return false;
      },
      mousedown: (view, block, event) => at(view, block, event) !== null, // the cursor stays where it is
      click: (view, block, event) => {
        const found = at(view, block, event);
        if (found) host.choose(found.line, (event.target as Element).closest(".lz-break") !== null);
        return found !== null;
      },
    },
  });
}

/** What an editor needs to have marks; `lines` come by `setLines`. The gutter is there only while a mark is. */
export function marksExtension(host: Host): Extension {
  const compartment = new Compartment();
  const look = drawn(host);
  const extender = EditorState.transactionExtender.of((transaction) => {
    const before = transaction.startState.field(heldField, false);
    if (!before) return null;
    const given = transaction.effects.find((effect) => effect.is(setLines));
    if (!given && (!transaction.docChanged || !before.length)) return null;
    const after = given
      ? place(transaction.newDoc, given.value as readonly Line[])
      : follow(before, transaction.startState.doc, transaction.newDoc, transaction.changes);
    const effects: StateEffect<unknown>[] = [setHeld.of(after)];
    const shows = holding(after).length > 0;
    if (shows !== holding(before).length > 0) effects.push(compartment.reconfigure(shows ? look : []));
    return { effects };
  });
  const life = ViewPlugin.define((view) => {
    host.opened(view);
    return { destroy: () => host.closed(view) };
  });
  return [heldField, chosenField, compartment.of([]), extender, life];
}
