/** Questions to the kernel, and their answers by id. */

import type { Answer, Request } from "./data";

/** What anywidget gives a front end. */
export interface Model {
  get(name: string): unknown;
  on(event: string, listener: (...args: never[]) => void): void;
  off(event: string, listener: (...args: never[]) => void): void;
  send(content: unknown): void;
}

/** The connection to the Python that made the inspection. */
export interface Comm {
  /** Resolves with the answer, rejects with the kernel's error. */
  ask<T extends Answer["type"]>(request: Request, expected: T): Promise<Extract<Answer, { type: T }>>;
  /** Errors that answer no question. */
  onError(listener: (message: string) => void): () => void;
  dispose(): void;
}

export const noComm: Comm = {
  ask: () => Promise.reject(new Error("no kernel answers here: this is a saved view")),
  onError: () => () => {},
  dispose() {},
};

const GONE = "Nothing answers: the kernel was restarted or stopped. Run the cell again for an inspector that answers.";

const own = Math.random().toString(36).slice(2); // each widget is given a module of its own
let sent = 0;

export function commOf(model: Model): Comm {
  const waiting = new Map<string, { resolve: (answer: never) => void; reject: (error: Error) => void; expected: string }>();
  const listeners = new Set<(message: string) => void>();
  const receive = (message: Partial<{ id: unknown; type: string; message: string }> | null) => {
    if (!message || typeof message !== "object") return;
    const key = String(message.id ?? "");
    const asked = waiting.get(key);
    if (!asked) {
      if (message.type === "error") for (const listener of listeners) listener(message.message ?? "unknown error");
      return;
    }
    waiting.delete(key);
    if (message.type === asked.expected) asked.resolve(message as never);
    else
      asked.reject(
        new Error(message.type === "error" ? message.message || "unknown error" : `unexpected answer "${message.type}"`),
      );
  };
  const giveUp = (reason: string) => {
    for (const { reject } of waiting.values()) reject(new Error(reason));
    waiting.clear();
  };
  // ipywidgets says so when the connection of its model is lost.
  const lost = () => giveUp(GONE);
  model.on("msg:custom", receive as (...args: never[]) => void);
  model.on("comm_live_update", lost);
  return {
    ask: (request, expected) =>
      new Promise((resolve, reject) => {
        sent += 1;
        const id = `${own}-${sent}`; // two views of one model must not answer each other
        waiting.set(id, { resolve, reject, expected });
        try {
          model.send({ ...request, id });
        } catch (error) {
          console.warn(error);
          waiting.delete(id);
          reject(new Error(GONE));
        }
      }),
    onError: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    dispose() {
      model.off("msg:custom", receive as (...args: never[]) => void);
      model.off("comm_live_update", lost);
      giveUp("the view was closed");
    },
  };
}
