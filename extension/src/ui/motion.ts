/** Changes of a drawing that can be followed: boxes go to their new places, new ones fade in. Not for who wants no motion. */

const TIME = { duration: 220, easing: "ease-out" };
/** More boxes than this are put in place at once. */
const MOST = 400;

const still = (): boolean => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

const boxesIn = (stage: Element) => [...stage.querySelectorAll<HTMLElement>("[data-part]")];
const placeOf = ({ style }: HTMLElement) => ({ left: parseFloat(style.left), top: parseFloat(style.top) });

/** Notes where all boxes are. What it returns lets those that are drawn then come from there. */
export function moving(stage: HTMLElement): (zoom: number) => void {
  const old = boxesIn(stage);
  if (!old.length || old.length > MOST || still()) return () => {};
  const before = new Map(old.map((box) => [box.dataset.part, placeOf(box)]));
  const corner = stage.getBoundingClientRect();
  return (zoom) => {
    const now = stage.getBoundingClientRect();
    for (const box of boxesIn(stage)) {
      const was = before.get(box.dataset.part);
      if (!was) {
        box.animate([{ opacity: 0 }, { opacity: 1 }], TIME);
        continue;
      }
      const { left, top } = placeOf(box);
      const outer = box.parentElement?.classList.contains("lz-scene"); // those inside go with the box around them
      const x = was.left - left + (outer ? (corner.left - now.left) / zoom : 0);
      const y = was.top - top + (outer ? (corner.top - now.top) / zoom : 0);
      if (Math.abs(x) + Math.abs(y) > 0.5) box.animate([{ translate: `${x}px ${y}px` }, { translate: "0 0" }], TIME);
    }
    for (const wires of stage.querySelectorAll(".lz-wires")) wires.animate([{ opacity: 0 }, { opacity: 1 }], TIME);
  };
}

/** Tells with each frame how much of a time has passed, from 0 to 1; only 1 where nothing is to move. Returns what stops it on the way. */
export function during(milliseconds: number, step: (share: number) => void): () => void {
  if (still() || milliseconds <= 0) {
    step(1);
    return () => {};
  }
  const began = performance.now();
  let frame = 0;
  const next = (now: number) => {
    const share = Math.min(1, Math.max(0, now - began) / milliseconds);
    step(share);
    if (share < 1) frame = requestAnimationFrame(next);
  };
  next(began);
  return () => cancelAnimationFrame(frame);
}

/** Goes from one number to another, a little with each frame. Returns what stops it on the way. */
export const glide = (from: number, to: number, step: (value: number) => void): (() => void) =>
  during(from === to ? 0 : 160, (share) => step(share < 1 ? from * (to / from) ** share : to));

/** Scrolls smoothly while `act` scrolls. */
export function smoothly(pane: HTMLElement, act: () => void): void {
  if (!still()) pane.style.scrollBehavior = "smooth";
  act();
  pane.style.scrollBehavior = "";
}
