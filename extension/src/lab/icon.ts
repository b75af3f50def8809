/** The panel's icon: two operations fused into one. */

import { LabIcon } from "@jupyterlab/ui-components";

const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
<g class="jp-icon3" fill="#616161"><path d="M2 2h5v3H2zM9 2h5v3H9zM5 10h6v4H5z"/>
<path d="M4 5.5h1.2L7.6 9.5H6.4zM10.8 5.5H12L9.6 9.5H8.4z"/></g></svg>`;

export const icon = new LabIcon({ name: "lazynb:panel", svgstr });
