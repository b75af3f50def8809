/** Buttons that ask the kernel something. Each waits in sight, wherever it is drawn meanwhile; an error stays beside it. */

import { h } from "./dom";

export interface Question {
  /** The same for every drawing of the button. */
  key: string;
  label: string;
  title: string;
  /** What the kernel does meanwhile: "compiling again". */
  doing: string;
  /** Takes so long that no other such question is asked at the same time. */
  alone?: boolean;
  /** Resolves with what to say when it is done, '' for nothing. */
  ask: () => Promise<string>;
}

interface Holder {
  question: Question;
  button: HTMLElement;
  state: HTMLElement;
}

const BUSY = 15; // seconds after which the reader may wonder

export class Questions {
  private readonly holders = new Map<string, Holder>();
  private readonly began = new Map<string, number>();
  private readonly said = new Map<string, { text: string; error: boolean }>();
  private alone: string | null = null;
  private timer: ReturnType<typeof setInterval> | undefined;

  /** `changed` is told whether something is being waited for. */
  constructor(
    private readonly signal: AbortSignal,
    private readonly changed: (busy: boolean) => void,
  ) {
    signal.addEventListener("abort", () => clearInterval(this.timer));
  }

  /** The button of a question, in the state in which it is. */
  button(question: Question): HTMLElement {
    const button = h("button.ask", { type: "button", title: question.title, "data-question": question.key }, question.label);
    const state = h("span.ask-state", { role: "status" });
    const holder = { question, button, state };
    this.holders.set(question.key, holder);
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      void this.ask(question);
    });
    this.paint(holder);
    return h("span.asking", {}, button, state);
  }

  async ask(question: Question): Promise<void> {
    const { key } = question;
    if (this.began.has(key) || (question.alone && this.alone !== null)) return;
    if (question.alone) this.alone = key;
    this.began.set(key, Date.now());
    this.said.delete(key);
    this.timer ??= setInterval(() => this.tell(), 1000);
    this.tell();
    try {
      this.said.set(key, { text: await question.ask(), error: false });
    } catch (error) {
      this.said.set(key, { text: error instanceof Error ? error.message : String(error), error: true });
    } finally {
      this.began.delete(key);
      if (this.alone === key) this.alone = null;
      if (!this.began.size || this.signal.aborted) {
        clearInterval(this.timer);
        this.timer = undefined;
      }
      this.tell();
    }
  }

  private tell(): void {
    for (const holder of this.holders.values()) this.paint(holder);
    this.changed(this.began.size > 0);
  }

  private paint({ question, button, state }: Holder): void {
    const began = this.began.get(question.key);
    const waits = began !== undefined || (question.alone === true && this.alone !== null);
    // Not `disabled`: that would take the focus away, and the next key would go to the notebook.
    button.setAttribute("aria-disabled", String(waits));
    const said = this.said.get(question.key);
    state.className = `lz-ask-state${began !== undefined ? " lz-waiting" : said?.error ? " lz-error" : ""}`;
    if (began === undefined) state.textContent = said?.text ?? "";
    else {
      const passed = Math.round((Date.now() - began) / 1000);
      state.textContent = `${question.doing}… ${passed} s${passed < BUSY ? "" : " (is the kernel busy with a cell?)"}`;
    }
  }
}
