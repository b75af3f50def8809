/** The inspector's questions, answered by a link. */

import type { Answer, Request } from "../model/data";
import type { Comm } from "../model/comm";
import type { Link } from "./link";

export function commOver(link: Link, compilation: number): Comm {
  return {
    async ask<T extends Answer["type"]>(request: Request, expected: T) {
      const { answer } = await link.ask({ type: "ask", compilation, request: { ...request } });
      const given = answer as unknown as Answer;
      if (given.type === "error") throw new Error(given.message || "unknown error");
      if (given.type !== expected) throw new Error(`unexpected answer "${String(given.type)}"`);
      return given as Extract<Answer, { type: T }>;
    },
    onError: () => () => {},
    dispose() {},
  };
}
