/** Moving what is larger than its pane. */

import { thingAt } from "./selectable";

/** Dragging the ground moves it. */
export function drag(canvas: HTMLElement, signal: AbortSignal): void {
  let from: { x: number; y: number; left: number; top: number } | null = null;
  canvas.addEventListener(
    "pointerdown",
    (event) => {
      if (
        event.button !== 0 ||
        event.pointerType === "touch" ||
        thingAt(event.target) ||
        (event.target as Element).closest("button")
      )
        return;
      from = { x: event.clientX, y: event.clientY, left: canvas.scrollLeft, top: canvas.scrollTop };
    },
    { signal },
  );
  canvas.addEventListener(
    "pointermove",
    (event) => {
      if (!from) return;
      canvas.classList.add("lz-dragging");
      canvas.scrollLeft = from.left + from.x - event.clientX;
      canvas.scrollTop = from.top + from.y - event.clientY;
    },
    { signal },
  );
  const drop = () => {
    from = null;
    canvas.classList.remove("lz-dragging");
  };
  canvas.addEventListener("pointerup", drop, { signal });
  canvas.addEventListener("pointerleave", drop, { signal });
}
