/** The scale of a drawing that may be larger than its pane: the canvas scrolls, and holds a stage as large as the drawing is shown. */

import { tool } from "./dom";

/** Of a button or a key. */
const STEP = 1.2;

interface Size {
  width: number;
  height: number;
}

export interface Zooming {
  by(factor: number): void;
  /** Brings all of it into sight. */
  fit(): void;
}

export const bounded = (zoom: number): number => Math.min(2.5, Math.max(0.1, zoom));

/** The scale at which all of a drawing is in sight, 100 % at most. */
export const fitting = ({ clientWidth, clientHeight }: HTMLElement, { width, height }: Size): number =>
  Math.max(0.1, Math.min(1, (clientWidth - 8) / width, (clientHeight - 8) / height));

/** Shows a drawing of a size at a scale. What is in the middle stays there, where a scale `before` is given. */
export function scaleTo(canvas: HTMLElement, { width, height }: Size, zoom: number, before = 0): void {
  const stage = canvas.firstElementChild as HTMLElement;
  const { scrollLeft, scrollTop, clientWidth, clientHeight } = canvas;
  stage.style.width = `${width * zoom}px`;
  stage.style.height = `${height * zoom}px`;
  (stage.firstElementChild as HTMLElement | null)?.style.setProperty("transform", `scale(${zoom})`);
  if (!before) return;
  canvas.scrollLeft = ((scrollLeft + clientWidth / 2) * zoom) / before - clientWidth / 2;
  canvas.scrollTop = ((scrollTop + clientHeight / 2) * zoom) / before - clientHeight / 2;
}

/** `level`: what stands between the buttons. */
export const zoomTools = ({ by, fit }: Zooming, level?: HTMLElement): HTMLElement[] => [
  tool("−", "Zoom out (−)", () => by(1 / STEP)),
  ...(level ? [level] : []),
  tool("+", "Zoom in (+)", () => by(STEP)),
  tool("Fit", "Fit into the window (0)", fit),
];

/** Whether the key is one of those that zoom. */
export function zoomKey(key: string, { by, fit }: Zooming): boolean {
  if (key === "+" || key === "=") by(STEP);
  else if (key === "-") by(1 / STEP);
  else if (key === "0") fit();
  else return false;
  return true;
}
