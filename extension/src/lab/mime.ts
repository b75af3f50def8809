/** Draws `application/vnd.lazynb.graph+json` wherever it is: no kernel, nothing executed, also in notebooks that are not trusted. */

import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";
import { isGraph } from "./graphdata";
import type { Picture } from "./picture";

const MIME_TYPE = "application/vnd.lazynb.graph+json";

class GraphRenderer extends Widget implements IRenderMime.IRenderer {
  private picture: Picture | null = null;
  private round = 0;

  constructor() {
    super();
    this.addClass("lazynb-graph");
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const round = ++this.round;
    const given = model.data[MIME_TYPE];
    try {
      if (!isGraph(given)) return this.asText(model);
      const { mountGraph } = await import("./heavy");
      if (this.isDisposed || round !== this.round) return;
      this.clear();
      this.picture = mountGraph(this.node, given);
    } catch (error) {
      console.warn("lazynb could not draw this graph", error);
      if (!this.isDisposed) this.asText(model);
    }
  }

  override dispose(): void {
    this.clear();
    super.dispose();
  }

  private clear(): void {
    this.picture?.dispose();
    this.picture = null;
    this.node.replaceChildren();
  }

  /** Made by a version that this one does not know: what the output says in words. */
  private asText(model: IRenderMime.IMimeModel): void {
    this.clear();
    const words = document.createElement("pre");
    const text = model.data["text/plain"];
    words.textContent = Array.isArray(text) ? text.join("") : String(text ?? "A graph of another version of lazynb.");
    this.node.append(words);
  }
}

const extension: IRenderMime.IExtension = {
  id: "@lazynb/extension:graph",
  description: "Draws the graphs of lazynb.",
  rendererFactory: { safe: true, mimeTypes: [MIME_TYPE], createRenderer: () => new GraphRenderer() },
  rank: 0,
  dataType: "json",
};

export default extension;
