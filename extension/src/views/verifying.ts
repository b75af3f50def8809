/** The question whether a boundary goes with its supposed cause. */

import type { Boundary } from "../model/data";
import { boundary as readBoundary, findings } from "../model/read";
import type { Question } from "../ui/asking";
import type { Context } from "../ui/view";

/** `where`: that button of several. */
export const verifying = ({ id, verify }: Boundary, { store, comm }: Context, where = "verify"): Question => ({
  key: `${where}:${id}`,
  label: "Verify",
  title: `Experiment: ${verify}`,
  doing: "compiling an experiment",
  alone: true,
  ask: async () => {
    const answer = await comm.ask({ type: "verify", boundary: id }, "boundary");
    store.setBoundary(readBoundary(answer.boundary), findings(answer.findings));
    return "";
  },
});
