/** Lines that can be gone to: selected in what shows them, and in JupyterLab brought into sight in their cell. */

import type { LineReference } from "../model/data";
import { h } from "./dom";
import { tag } from "./selectable";

/** A line as all views of a page know it. */
export interface At {
  /** The key of its file. */
  file: string;
  line: number;
  /** The execution count of its cell; null: not of a cell, or not known. */
  cell: number | null;
}

/** Somebody wants to see a line. */
export const GO = "lazynb-go";
/** A line, or what was written on several, is selected; see `ui/sharing.ts`. */
export const SELECT = "lazynb-line";

export interface Selected {
  /** Who says so: it need not hear it. */
  from: unknown;
  file: string;
  /** Null: no one line. */
  line: number | null;
  cell?: number | null;
  /** All lines of what is selected. */
  lines: At[];
  /** The inspectors in here turn to this tab; the first that shows the line sets `taken`. */
  within?: Element;
  tab?: string;
  taken?: boolean;
}

/** Returns what came of it: `taken` may be set. */
export function tellSelected(said: Selected): Selected {
  window.dispatchEvent(new CustomEvent<Selected>(SELECT, { detail: said }));
  return said;
}

export const selectedAt = (at: At, more: Partial<Selected> = {}): Selected => ({ from: null, ...at, lines: [at], ...more });

/** A line as a button that goes there. */
export function goTo(spot: LineReference, ...words: (HTMLElement | string)[]): HTMLElement {
  const { source, file, line, cell } = spot;
  const at = { file, line, cell };
  const act = () => {
    if (source === null) tellSelected(selectedAt(at)); // else it is selected as anything that is clicked
    window.dispatchEvent(new CustomEvent<At>(GO, { detail: at }));
  };
  const button = h("button.go", { type: "button", title: `Go to ${spot.label}`, onclick: act }, ...words);
  return source === null ? button : tag(button, { kind: "line", source, line });
}
