/**
 * JupyterLab's shortcuts. A plain key that is pressed in here is meant for the inspector: "d d" must delete no cell. With Ctrl or
 * Cmd, JupyterLab's own (save, say) work as everywhere; while somebody types, only saving.
 *
 * Lumino looks from the focused element upwards for a selector that fits or for this attribute, whichever comes first, and some selectors
 * fit the focused element itself: so the attribute must be on that one, in time.
 */

const ATTRIBUTE = "data-lm-suppress-shortcuts";

export function keepKeys(root: HTMLElement, signal: AbortSignal): void {
  const before = (event: KeyboardEvent) => {
    const target = event.composedPath()[0];
    if (!(target instanceof Element) || !root.contains(target)) return;
    const command = event.ctrlKey || event.metaKey;
    const typing = target.matches("input[type=search], textarea, select");
    const theirs = command && (!typing || event.key.toLowerCase() === "s");
    target.toggleAttribute(ATTRIBUTE, !theirs);
  };
  // Lumino listens on the document in the capturing phase; the window comes before.
  root.ownerDocument.defaultView?.addEventListener("keydown", before, { capture: true, signal });
}
