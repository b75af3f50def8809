/** What can be done from the palette, the Run menu and by keys. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { type ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { CodeMirrorEditor } from "@jupyterlab/codemirror";
import { type INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import type { Editors } from "./editors";
import type { Link } from "./link";
import type { Links } from "./links";
import type { ViewName } from "./panel";

export interface Parts {
  app: JupyterFrontEnd;
  tracker: INotebookTracker;
  links: Links;
  editors: Editors;
  show(view?: ViewName): void;
}

/** Tells what a command did; what failed stays until it is read. */
async function told(doing: Promise<{ text: string }>): Promise<void> {
  try {
    const { text } = await doing;
    if (text) Notification.info(`lazynb: ${text}`, { autoClose: 4000 });
  } catch (error) {
    Notification.error(`lazynb: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Runs the active cell with lazy mode off, and puts it back as it was; the cell itself stays as it is. */
async function runEagerly({ tracker }: Parts, link: Link): Promise<void> {
  const panel = tracker.currentWidget;
  if (!panel) return;
  const was = link.state?.lazy ?? false;
  if (was) await link.ask({ type: "lazy", on: false });
  try {
    await NotebookActions.run(panel.content, panel.sessionContext);
  } finally {
    if (was && link.alive) await link.ask({ type: "lazy", on: true });
  }
}

export function addCommands(parts: Parts, palette: ICommandPalette | null): void {
  const { app, tracker, links, editors } = parts;
  const { commands } = app;
  const link = () => links.current;
  const isAlive = () => link()?.alive ?? false;
  const add = (
    id: string,
    label: string,
    caption: string,
    execute: () => unknown,
    more: { always?: boolean; toggled?: () => boolean } = {},
  ) => {
    commands.addCommand(id, {
      label,
      caption,
      execute: () => execute() ?? null,
      isEnabled: more.always ? undefined : isAlive,
      isToggleable: more.toggled !== undefined,
      isToggled: more.toggled,
    });
    palette?.addItem({ command: id, category: "lazynb" });
  };
  const asking = (does: (link: Link) => Promise<{ text: string }>) => () => {
    const now = link();
    return now ? told(does(now)) : undefined;
  };
  add(
    "lazynb:compile",
    "Compile Pending Operations",
    "Compile and run what lazynb has recorded",
    asking((to) => to.ask({ type: "compile" })),
  );
  add("lazynb:run-eagerly", "Run Cell Eagerly", "Run the active cell with lazy mode off, without changing it", () => {
    const now = link();
    return now ? told(runEagerly(parts, now).then(() => ({ text: "" }))) : undefined;
  });
  add(
    "lazynb:clear-cache",
    "Clear Cache of Executables",
    "Forget executables, events and breaks",
    asking((to) => to.ask({ type: "clear" })),
  );
  add("lazynb:show-breaks", "Show Trace Breaks", "Where traces broke, what it cost and what to do", () => parts.show("breaks"), {
    always: true,
  });
  add("lazynb:show-panel", "Show lazynb Panel", "Pending graph, trace breaks, cache and last compilation", () => parts.show(), {
    always: true,
  });
  add(
    "lazynb:toggle-lazy",
    "Lazy Mode",
    "Record operations instead of running them at once",
    asking((to) => to.ask({ type: "lazy", on: !to.state?.lazy })),
    { toggled: () => link()?.state?.lazy ?? false },
  );
  add("lazynb:show-marks", "Show Marks of This Line", "Kernels and trace breaks of the line that the cursor is on", () => {
    const editor = tracker.activeCell?.editor as CodeMirrorEditor | null | undefined;
    if (!editor || !editors.showCard(editor.editor)) Notification.info("lazynb: this line has no marks.", { autoClose: 2500 });
  });
  links.changed.connect(() => commands.notifyCommandChanged());
}
