/**
 * The link to lazynb in one kernel. The kernel opens its comm; a page that comes later finds it and says hello. This side never opens
 * one, so a kernel without lazynb gets no message that it cannot answer.
 */

import type {
  Answer,
  Ask,
  AskValue,
  Clear,
  Compile,
  Compiling,
  Done,
  FromFrontEnd,
  FromKernel,
  Lazy,
  Marks,
  Panel,
  Show,
  State,
  Value,
} from "./messages";

/** What arrives from a kernel, whatever carries it. */
export interface Events {
  /** The kernel opened a comm of ours, or said something on it, or closed it. */
  opened(comm: string): void;
  said(comm: string, message: unknown): void;
  closed(comm: string): void;
  /** The kernel restarts or died: its comms are gone. */
  lost(): void;
  /** The connection stands (again): comms may be found. */
  connected(): void;
}

export interface Wire {
  readonly kernel: string;
  /** The comms of ours that the kernel has. */
  find(): Promise<string[]>;
  send(comm: string, message: FromFrontEnd): void;
  /** Returns what stops it. */
  listen(events: Events): () => void;
}

export interface Listener {
  /** The state, or that something compiles, or that the link came or went. */
  changed(): void;
  marks(marks: Marks): void;
  /** All marks of this kernel are void. */
  cleared(): void;
}

type Plain<T> = Omit<T, "id">;
type Question = Plain<Show> | Plain<Lazy> | Plain<Compile> | Plain<Clear> | Plain<Ask> | Plain<AskValue>;
type AnswerTo<Q> = Q extends { type: "show" }
  ? Panel
  : Q extends { type: "ask" }
    ? Answer
    : Q extends { type: "value" }
      ? Value
      : Done;

/** A compilation under way; `since` in milliseconds of the clock. */
export type Busy = Compiling & { since: number };

const GONE = "The kernel was restarted or stopped: nothing answers.";
/** Two pages, or two notebooks, may talk to one kernel, and everyone hears every answer. */
let next = Math.floor(Math.random() * 2 ** 40);

export class Link {
  state: State | null = null;
  busy: Busy | null = null;
  private comm: string | null = null;
  private waiting = new Map<number, { resolve(answer: never): void; reject(error: Error): void }>();
  private round = 0;
  private readonly stop: () => void;

  constructor(
    private readonly wire: Wire,
    private readonly listener: Listener,
    private readonly autocompile: () => boolean,
    private readonly now: () => number = Date.now,
  ) {
    this.stop = wire.listen({
      opened: (comm) => this.attach(comm),
      said: (comm, message) => comm === this.comm && this.receive(message as FromKernel),
      closed: (comm) => comm === this.comm && this.drop(),
      lost: () => this.drop(),
      connected: () => void this.find(),
    });
    void this.find();
  }

  get kernel(): string {
    return this.wire.kernel;
  }

  /** Whether lazynb is loaded in the kernel, as far as is known. */
  get alive(): boolean {
    return this.comm !== null;
  }

  /** Rejects when the kernel goes, or cannot do it. */
  ask<Q extends Question>(question: Q): Promise<AnswerTo<Q>> {
    const { comm } = this;
    if (comm === null) return Promise.reject(new Error("lazynb is not loaded in this notebook's kernel."));
    next += 1;
    const id = next;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.send(comm, { ...question, id } as FromFrontEnd, (error) => {
        this.waiting.delete(id);
        reject(error);
      });
    });
  }

  sendSettings(): void {
    if (this.comm !== null) this.send(this.comm, { type: "settings", autocompile: this.autocompile() });
  }

  dispose(): void {
    this.stop();
    this.drop();
  }

  /** Looks for a comm that was there before this page was. */
  private async find(): Promise<void> {
    const round = ++this.round;
    const found = await this.wire.find().catch((): string[] => []);
    const last = found[found.length - 1];
    if (round !== this.round) return; // a restart, or a comm that was opened meanwhile
    if (last !== undefined) this.attach(this.comm !== null && found.includes(this.comm) ? this.comm : last);
    else if (this.comm !== null) this.drop();
  }

  private attach(comm: string): void {
    this.round += 1;
    this.comm = comm;
    this.send(comm, { type: "hello" });
    this.sendSettings();
    this.listener.changed();
  }

  private drop(): void {
    this.round += 1;
    if (this.comm === null && !this.waiting.size) return;
    this.comm = this.state = this.busy = null;
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const { reject } of waiting) reject(new Error(GONE));
    this.listener.cleared();
    this.listener.changed();
  }

  private send(comm: string, message: FromFrontEnd, failed?: (error: Error) => void): void {
    try {
      this.wire.send(comm, message);
    } catch (error) {
      console.warn(error);
      failed?.(new Error(GONE));
    }
  }

  private receive(message: FromKernel): void {
    switch (message?.type) {
      case "state":
        if (message.version !== 1) return;
        this.state = message;
        return this.listener.changed();
      case "compiling":
        this.busy = { ...message, since: this.now() - 1000 * message.seconds };
        return this.listener.changed();
      case "compiled":
        this.busy = null;
        return this.listener.changed();
      case "marks":
        return this.listener.marks(message);
      case "panel":
      case "answer":
        return this.settle(message.id, (waiting) => waiting.resolve(message as never));
      case "value":
      case "done":
        return this.settle(message.id, (waiting) =>
          message.error === undefined ? waiting.resolve(message as never) : waiting.reject(new Error(message.error)),
        );
    }
  }

  private settle(id: number, how: (waiting: { resolve(answer: never): void; reject(error: Error): void }) => void): void {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (waiting) how(waiting);
  }
}
