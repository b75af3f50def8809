/** One selection in all that shows a cell: the line that is clicked in one inspector, or in the table of several chips, is selected in
 * all of them on the page. */

import { lineKey } from "../model/program";
import type { Store } from "../model/store";
import { type At, SELECT, type Selected, tellSelected } from "./going";

/** A click or a key on a line of the table, with what the first inspector that heard of it decided. */
type Chosen = Event & { lazynbSelects?: boolean };

/** The lines of the table that `SideBySide` writes. */
const ROWS = "[data-lazynb-line]";

const NOWHERE: At = { file: "", line: 0, cell: null };

const rowAt = (target: EventTarget | null): HTMLElement | null =>
  target instanceof Element ? target.closest<HTMLElement>(ROWS) : null;

const placeOf = ({ dataset }: HTMLElement) => ({ file: dataset.lazynbFile ?? "", line: Number(dataset.lazynbLine) });

/** A name for a file that says nothing of where it lies, as `file_key` of `report/target_report.py` gives it: FNV-1a. */
export function fileKey(file: string): string {
  let number = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(file)) number = Math.imul(number ^ byte, 0x01000193) >>> 0;
  return number.toString(16).padStart(8, "0");
}

/** The user's line that was clicked, by itself or as the place of an operation. */
function clicked(store: Store): At | null {
  const { stuck, relations } = store;
  const keyed = (source: number, line: number): At => atOf(store, source, line);
  if (stuck?.kind === "line") return keyed(stuck.source, stuck.line);
  const place = stuck?.kind === "node" ? relations.nodes.get(stuck.id)?.place : null;
  return place && place.source !== null ? keyed(place.source, place.line) : null;
}

function atOf({ data }: Store, source: number, line: number): At {
  const found = data.sources[source];
  return { file: fileKey(found?.file ?? ""), line, cell: found?.cell ?? null };
}

/** All lines of what was clicked. */
function linesOf(store: Store): At[] {
  const lines = [...store.stuckHighlights.lines].map((key) => key.split(":").map(Number) as [number, number]);
  return lines.map(([source, line]) => atOf(store, source, line));
}

/** A kernel that was clicked in another inspector, where this one has the very same. */
function sameKernel(from: Store, to: Store): number | null {
  const { stuck } = from;
  if (stuck?.kind !== "cluster" || from.data.cell !== to.data.cell) return null;
  const of = (store: Store) => {
    const kernel = store.relations.clusters.get(stuck.id);
    return kernel && JSON.stringify([kernel.name, kernel.program, kernel.nodes]);
  };
  return of(from) !== undefined && of(from) === of(to) ? stuck.id : null;
}

/** `paired`: rows of a table alone select, and lines that recorded something: the two of a pair may show one file, edited in between. */
export function shareLines(
  store: Store,
  signal: AbortSignal,
  paired = false,
  root?: Element,
  open?: (tab: string) => void,
): () => void {
  let told = false; // what another said is not said again
  let last = NOWHERE;

  const sourceOf = (file: string, cell: number | null = null) =>
    store.data.sources.findIndex(
      (source) => fileKey(source.file) === file && (cell === null || source.cell === null || source.cell === cell),
    );

  /** False where this is not shown here. */
  function select(file: string, line: number | null, cell: number | null = null): boolean {
    const source = sourceOf(file, cell);
    if (source < 0 || (paired && line !== null && !store.relations.nodesOfLine.has(lineKey(source, line)))) return false;
    quietly(() => (line === null ? store.clear() : store.stick({ kind: "line", source, line })));
    return true;
  }

  function quietly(act: () => void): void {
    told = true;
    try {
      act();
    } finally {
      told = false;
    }
  }

  function hear(said: Selected): void {
    const kernel = said.from ? sameKernel(said.from as Store, store) : null;
    if (kernel !== null) return quietly(() => store.stick({ kind: "cluster", id: kernel }));
    if (!select(said.file, said.line, said.cell ?? null) || !said.within || !root) return;
    if (!said.within.contains(root) || !root.checkVisibility()) return;
    said.taken = true;
    if (said.tab) open?.(said.tab);
  }

  function choose(event: Chosen): void {
    const row = rowAt(event.target);
    if (!row || (event instanceof KeyboardEvent && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    event.lazynbSelects ??= row.getAttribute("aria-pressed") !== "true"; // each inspector hears of it, and all do the same
    const { file, line } = placeOf(row);
    select(file, event.lazynbSelects ? line : null);
  }

  /** The rows of this cell: without an inspector they are text. */
  function markRows(): void {
    const at = clicked(store);
    for (const row of document.querySelectorAll<HTMLElement>(ROWS)) {
      const place = placeOf(row);
      if (sourceOf(place.file) < 0) continue;
      row.tabIndex = 0;
      row.setAttribute("role", "button");
      row.setAttribute("aria-pressed", String(place.file === at?.file && place.line === at.line));
    }
  }

  window.addEventListener(
    SELECT,
    (event) => {
      const said = (event as CustomEvent<Selected>).detail;
      if (said.from !== store && !paired) hear(said);
    },
    { signal },
  );
  document.addEventListener("click", choose, { signal });
  document.addEventListener("keydown", choose, { signal });
  markRows();
  return store.on("stuck", () => {
    markRows();
    const at = clicked(store);
    const lines = at ? [at] : linesOf(store);
    const { file, cell } = at ?? lines[0] ?? last;
    last = at ?? lines[0] ?? NOWHERE;
    if (told || paired || !file) return;
    tellSelected({ from: store, file, cell, line: at?.line ?? null, lines });
  });
}
