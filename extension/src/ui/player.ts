/** A slider over stages with play, pause, steps and speed. */

import { h, tool } from "./dom";

/** Milliseconds that a stage stands; one that shows nothing new. */
const STANDS = 1400;
const PASSES_BY = 300;

export interface Player {
  element: HTMLElement;
  position(): number;
  /** Moves to a stage, without telling. */
  set(position: number): void;
  /** How many stages there are, and the weight of each: what happens there, 0 for nothing. */
  stages(weights: readonly number[], name: (stage: number) => string): void;
  key(event: KeyboardEvent): boolean;
  /** How much quicker than usual: 1, 2, … */
  speed(): number;
  stop(): void;
}

/** `go` is told of each stage that is moved to. */
export function player(go: (stage: number) => void): Player {
  let weights: readonly number[] = [0];
  let name: (stage: number) => string = String;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const last = () => weights.length - 1;
  const slider = h("input.slider", { type: "range", min: 0, step: 1, "aria-label": "Stage of the passes" });
  const strip = h("div.weights", { "aria-hidden": "true" });
  const speeds = h(
    "select.select",
    { "aria-label": "Speed", title: "Speed" },
    ...[0.5, 1, 2, 4].map((speed) => h("option", { value: speed, selected: speed === 1 }, `${speed}×`)),
  );
  const position = () => Number(slider.value);
  const to = (stage: number) => {
    slider.value = String(Math.min(last(), Math.max(0, stage)));
    tell();
    go(position());
  };
  const tell = () => {
    slider.setAttribute("aria-valuetext", name(position()));
    [...strip.children].forEach((mark, i) => mark.classList.toggle("lz-now", i === position()));
  };
  const stop = () => {
    clearTimeout(timer);
    timer = undefined;
    paint();
  };
  const paint = () => {
    play.textContent = timer === undefined ? "▶" : "❚❚";
    play.title = timer === undefined ? "Play the passes (p)" : "Pause (p)";
    play.setAttribute("aria-label", timer === undefined ? "Play the passes" : "Pause");
  };
  const wait = () => {
    timer = setTimeout(
      () => {
        if (position() >= last() || !element.isConnected) return stop();
        to(position() + 1);
        wait();
      },
      (weights[position()] || position() === 0 ? STANDS : PASSES_BY) / Number(speeds.value),
    );
  };
  const toggle = () => {
    if (timer !== undefined) return stop();
    if (position() >= last()) to(0);
    wait();
    paint();
  };
  const step = (by: number) => {
    stop();
    to(position() + by);
  };
  const play = tool("▶", "Play the passes", toggle);
  slider.addEventListener("input", () => {
    stop();
    to(position());
  });
  const element = h(
    "span.player",
    {},
    play,
    tool("‹", "Previous pass (,)", () => step(-1)),
    h("span.track-of", {}, slider, strip),
    tool("›", "Next pass (.)", () => step(1)),
    speeds,
  );
  paint();
  return {
    element,
    position,
    set: (stage) => {
      slider.value = String(stage);
      tell();
    },
    stages: (given, called) => {
      weights = given.length ? given : [0];
      name = called;
      slider.max = String(last());
      const most = Math.max(1, ...weights.slice(1));
      strip.replaceChildren(
        ...weights.map((weight, i) => h("span", { style: `height:${i && weight ? Math.max(20, (100 * weight) / most) : 0}%` })),
      );
      tell();
    },
    key: (event) => {
      const act = { p: toggle, ",": () => step(-1), ".": () => step(1) }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return false;
      act();
      return true;
    },
    speed: () => Number(speeds.value),
    stop,
  };
}
