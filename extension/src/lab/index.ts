/** The JupyterLab extension: marks on lines, a status item, a panel, commands. */

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import type { ICellModel } from "@jupyterlab/cells";
import { IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { Card } from "./card";
import { addCommands } from "./commands";
import { Editors } from "./editors";
import { icon } from "./icon";
import { Links } from "./links";
import { MarkStore } from "./marks";
import { changed, provide } from "./nearby";
import { SidePanel, type ViewName } from "./panel";
import { Progress } from "./progress";
import { Selection } from "./selection";
import { type Options, optionsOf, standard } from "./settings";
import { Status } from "./status";
import styles from "./styles.css";

const ID = "@lazynb/extension:plugin";

function activate(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  registry: IEditorExtensionRegistry,
  settings: ISettingRegistry | null,
  palette: ICommandPalette | null,
  statusBar: IStatusBar | null,
  restorer: ILayoutRestorer | null,
): void {
  let options: Options = standard;
  const sheet = document.createElement("style");
  sheet.textContent = styles;
  document.head.append(sheet);

  const marks = new MarkStore((kernel, cell) => editors.refresh(kernel, cell));
  const links = new Links(tracker, marks, () => options.autocompile);
  const panelOf = (cell: ICellModel) => {
    const { notebook } = cell.sharedModel;
    return tracker.find((panel) => !!notebook && !panel.isDisposed && panel.content.model?.sharedModel === notebook) ?? null;
  };
  const show = (view?: ViewName) => {
    if (view) panel.open(view);
    app.shell.activateById(panel.id);
  };
  const kernelOf = (cell: ICellModel) => links.of(panelOf(cell))?.kernel;
  const choose = (cell: ICellModel, id: number) => {
    show();
    panel.choose(marks.of(kernelOf(cell), cell.id)?.compilation ?? null, id);
  };
  const selection = new Selection({ marks, links, tracker, app }, () => editors.paintChosen());
  const editors = new Editors({
    marks,
    card: new Card(),
    kernelOf,
    shown: () => options.gutter,
    chosen: (cell) => selection.of(marks.of(kernelOf(cell), cell.id)),
    choose: (cell, line, onBreak) => {
      const { kernels, breaks } = line;
      const isBreak = breaks.length > 0 && (onBreak || !kernels.length);
      if (selection.select(panelOf(cell), cell, marks.of(kernelOf(cell), cell.id), line.line, isBreak)) return;
      if (kernels[0] && !isBreak) choose(cell, kernels[0].id);
      else show(isBreak ? "breaks" : "compilation");
    },
    kernel: choose,
    breaks: () => show("breaks"),
  });
  editors.register(registry);
  links.changed.connect(() => editors.refresh());
  links.changed.connect(changed);
  provide((element) => links.of(tracker.find(({ node }) => node.contains(element)) ?? null));

  const panel = new SidePanel(links, tracker);
  panel.title.icon = icon;
  app.shell.add(panel, "right", { rank: 900 });
  restorer?.add(panel, panel.id);
  new Progress(links);
  if (statusBar) {
    const item = new Status(links, () => show());
    statusBar.registerStatusItem(ID, {
      item,
      align: "left",
      rank: 90,
      isActive: () => item.active,
      activeStateChanged: links.changed,
    });
  }
  addCommands({ app, tracker, links, editors, show }, palette);

  const take = (given: ISettingRegistry.ISettings) => {
    const before = options;
    options = optionsOf(given.composite);
    document.body.classList.toggle("lazynb-high-contrast", options.colours === "high contrast");
    editors.refresh();
    if (before.autocompile !== options.autocompile) for (const link of links.all) link.sendSettings();
  };
  settings
    ?.load(ID)
    .then((given) => {
      take(given);
      given.changed.connect(take);
    })
    .catch((error: unknown) => console.warn("lazynb's settings could not be read", error));
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: "lazynb in JupyterLab: fusion and trace breaks on the lines, a status item, a panel, commands.",
  autoStart: true,
  requires: [INotebookTracker, IEditorExtensionRegistry],
  optional: [ISettingRegistry, ICommandPalette, IStatusBar, ILayoutRestorer],
  activate,
};

export default plugin;
