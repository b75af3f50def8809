/**
 * A link's messages over a connection of JupyterLab's. They are read from and written to the channels themselves: of several
 * connections to one kernel in a page (two notebooks, a console) only one may have comm objects, and it is not known which lives longest.
 */

import { type Kernel, KernelMessage } from "@jupyterlab/services";
import type { JSONObject } from "@lumino/coreutils";
import type { Events, Wire } from "./link";
import { type FromFrontEnd, TARGET } from "./messages";

const ENDS = new Set<Kernel.Status>(["restarting", "autorestarting", "dead", "terminating"]);
/** Without somebody registered for it, JupyterLab closes a comm that a kernel opens. */
const registered = new WeakSet<Kernel.IKernelConnection>();

export function register(kernel: Kernel.IKernelConnection): void {
  if (registered.has(kernel)) return;
  registered.add(kernel);
  kernel.registerCommTarget(TARGET, () => {});
}

export function wireOf(kernel: Kernel.IKernelConnection): Wire {
  return {
    kernel: kernel.id,
    async find() {
      const reply = await kernel.requestCommInfo({ target_name: TARGET });
      if (reply.content.status !== "ok") return [];
      return Object.entries(reply.content.comms).flatMap(([id, { target_name: name }]) => (name === TARGET ? [id] : []));
    },
    send(comm, message: FromFrontEnd) {
      const sent = KernelMessage.createMessage<KernelMessage.ICommMsgMsg<"shell">>({
        msgType: "comm_msg",
        channel: "shell",
        username: kernel.username,
        session: kernel.clientId,
        content: { comm_id: comm, data: message as unknown as JSONObject },
      });
      kernel.sendShellMessage(sent, false, true);
    },
    listen: (events) => listen(kernel, events),
  };
}

function listen(kernel: Kernel.IKernelConnection, events: Events): () => void {
  const hear = (_: unknown, message: KernelMessage.IIOPubMessage) => {
    const { content } = message;
    if (KernelMessage.isCommOpenMsg(message)) {
      if (message.content.target_name === TARGET) events.opened(message.content.comm_id);
      return;
    }
    if (KernelMessage.isCommMsgMsg(message)) events.said(message.content.comm_id, message.content.data);
    else if (KernelMessage.isCommCloseMsg(message)) events.closed((content as { comm_id: string }).comm_id);
  };
  const status = (_: unknown, now: Kernel.Status) => {
    if (ENDS.has(now)) events.lost();
  };
  const connection = (_: unknown, now: Kernel.ConnectionStatus) => {
    if (now === "connected") events.connected();
  };
  kernel.iopubMessage.connect(hear);
  kernel.statusChanged.connect(status);
  kernel.connectionStatusChanged.connect(connection);
  return () => {
    kernel.iopubMessage.disconnect(hear);
    kernel.statusChanged.disconnect(status);
    kernel.connectionStatusChanged.disconnect(connection);
  };
}
