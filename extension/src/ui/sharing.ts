/** One selection in all that shows a cell: the line that is clicked in one inspector, or in the table of several chips, is selected in
 * all of them on the page. */

import { lineKey } from "../model/program";
import type { Store } from "../model/store";

const EVENT = "lazynb-line";

interface At {
  file: string; // its key
  line: number;
}

interface Line {
  from: Store;
  file: string; // its key
  /** Null: let go. */
  line: number | null;
}

/** A click or a key on a line of the table, with what the first inspector that heard of it decided. */
type Chosen = Event & { lazynbSelects?: boolean };

/** The lines of the table that `SideBySide` writes. */
const ROWS = "[data-lazynb-line]";

const rowAt = (target: EventTarget | null): HTMLElement | null =>
  target instanceof Element ? target.closest<HTMLElement>(ROWS) : null;

const placeOf = ({ dataset }: HTMLElement): At => ({ file: dataset.lazynbFile ?? "", line: Number(dataset.lazynbLine) });

/** A name for a file that says nothing of where it lies, as `file_key` of `view/reports/targets.py` gives it: FNV-1a. */
export function fileKey(file: string): string {
  let number = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(file)) number = Math.imul(number ^ byte, 0x01000193) >>> 0;
  return number.toString(16).padStart(8, "0");
}

/** The user's line that was clicked, by itself or as the place of an operation. */
function clicked({ stuck, data, relations }: Store): At | null {
  const keyed = (source: number, line: number): At => ({ file: fileKey(data.sources[source]?.file ?? ""), line });
  if (stuck?.kind === "line") return keyed(stuck.source, stuck.line);
  const place = stuck?.kind === "node" ? relations.nodes.get(stuck.id)?.place : null;
  return place && place.source !== null ? keyed(place.source, place.line) : null;
}

/** `paired`: rows of a table alone select, and lines that recorded something: the two of a pair may show one file, edited in between. */
export function shareLines(store: Store, signal: AbortSignal, paired = false): () => void {
  let told = false; // what another said is not said again
  let last = "";

  const sourceOf = (file: string) => store.data.sources.findIndex((source) => fileKey(source.file) === file);

  function select(file: string, line: number | null): void {
    const source = sourceOf(file);
    if (source < 0 || (paired && line !== null && !store.relations.nodesOfLine.has(lineKey(source, line)))) return;
    told = true;
    if (line === null) store.clear();
    else store.stick({ kind: "line", source, line });
    told = false;
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
    EVENT,
    (event) => {
      const said = (event as CustomEvent<Line>).detail;
      if (said.from !== store && !paired) select(said.file, said.line);
    },
    { signal },
  );
  document.addEventListener("click", choose, { signal });
  document.addEventListener("keydown", choose, { signal });
  markRows();
  return store.on("stuck", () => {
    markRows();
    const at = clicked(store);
    const file = at?.file ?? last;
    last = at?.file ?? "";
    if (told || paired || !file) return;
    window.dispatchEvent(new CustomEvent<Line>(EVENT, { detail: { from: store, file, line: at?.line ?? null } }));
  });
}
