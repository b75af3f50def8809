/** The links to the kernels of all open notebooks: one a kernel, however many notebooks it has. */

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import { Signal } from "@lumino/signaling";
import { Link } from "./link";
import type { MarkStore } from "./marks";
import { register, wireOf } from "./wire";

interface Held {
  link: Link;
  connection: Kernel.IKernelConnection;
}

const connectionOf = (panel: NotebookPanel): Kernel.IKernelConnection | null => panel.sessionContext.session?.kernel ?? null;

export class Links {
  /** A link came, went, or heard something; or another notebook has the focus. */
  readonly changed = new Signal<this, void>(this);
  private readonly held = new Map<string, Held>();

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly marks: MarkStore,
    private readonly autocompile: () => boolean,
  ) {
    const watch = (panel: NotebookPanel) => {
      const { sessionContext } = panel;
      sessionContext.kernelChanged.connect(this.sync, this);
      panel.disposed.connect(this.sync, this);
    };
    tracker.forEach(watch);
    tracker.widgetAdded.connect((_, panel) => {
      watch(panel);
      this.sync();
    });
    tracker.currentChanged.connect(() => this.changed.emit());
    this.sync();
  }

  get all(): Link[] {
    return [...this.held.values()].map(({ link }) => link);
  }

  of(panel: NotebookPanel | null): Link | null {
    const id = panel ? connectionOf(panel)?.id : undefined;
    return (id !== undefined && this.held.get(id)?.link) || null;
  }

  /** Of the notebook that has the focus. */
  get current(): Link | null {
    return this.of(this.tracker.currentWidget);
  }

  panelsOf(kernel: string): NotebookPanel[] {
    return this.tracker.filter((panel) => !panel.isDisposed && connectionOf(panel)?.id === kernel);
  }

  /** Brings the links into line with the notebooks that are open. */
  private sync(): void {
    const there = new Map<string, Kernel.IKernelConnection[]>();
    this.tracker.forEach((panel) => {
      const connection = panel.isDisposed ? null : connectionOf(panel);
      if (connection && !connection.isDisposed) there.set(connection.id, [...(there.get(connection.id) ?? []), connection]);
    });
    for (const [id, { link, connection }] of this.held) {
      if (there.get(id)?.includes(connection)) continue;
      this.held.delete(id);
      link.dispose();
    }
    for (const [id, connections] of there) {
      connections.forEach(register);
      const [connection] = connections;
      if (connection && !this.held.has(id)) this.held.set(id, { connection, link: this.link(connection) });
    }
    this.changed.emit();
  }

  private link(connection: Kernel.IKernelConnection): Link {
    const { id } = connection;
    return new Link(
      wireOf(connection),
      {
        changed: () => this.changed.emit(),
        marks: (marks) => this.marks.put(id, marks),
        cleared: () => this.marks.clear(id),
      },
      this.autocompile,
    );
  }
}
