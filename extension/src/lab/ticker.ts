/** Calls a few times a second while something is being waited for, and at no other time. */
export class Ticker {
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor(private readonly tick: () => void) {}

  run(wanted: boolean): void {
    if (wanted === (this.timer !== undefined)) return;
    clearInterval(this.timer);
    this.timer = wanted ? setInterval(this.tick, 250) : undefined;
  }
}
