/** One selection in all inspectors of a cell: the line that is clicked in one is selected in the others on the page. */

import type { Store } from "../model/store";

const EVENT = "lazynb-line";

interface Line {
  from: Store;
  file: string;
  /** Null: let go. */
  line: number | null;
}

/** The user's line that was clicked, by itself or as the place of an operation. */
function clicked({ stuck, data, relations }: Store): { file: string; line: number } | null {
  if (stuck?.kind === "line") return { file: data.sources[stuck.source]?.file ?? "", line: stuck.line };
  const place = stuck?.kind === "node" ? relations.nodes.get(stuck.id)?.place : null;
  return place && place.source !== null ? { file: data.sources[place.source]?.file ?? "", line: place.line } : null;
}

export function shareLines(store: Store, signal: AbortSignal): () => void {
  let told: Line | null = null; // what another inspector said is not said again
  const take = (event: Event) => {
    const said = (event as CustomEvent<Line>).detail;
    const source = data().findIndex(({ file }) => file === said.file);
    if (said.from === store || source < 0) return;
    told = said;
    if (said.line === null) store.clear();
    else store.stick({ kind: "line", source, line: said.line });
    told = null;
  };
  const data = () => store.data.sources;
  let last = "";
  window.addEventListener(EVENT, take, { signal });
  return store.on("stuck", () => {
    const at = clicked(store);
    const file = at?.file ?? last;
    last = at?.file ?? "";
    if (told || !file) return;
    window.dispatchEvent(new CustomEvent<Line>(EVENT, { detail: { from: store, file, line: at?.line ?? null } }));
  });
}
