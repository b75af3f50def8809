// Builds what is committed: the one ES module that Python ships (../lazynb/notebook/static/inspector.js), and the JupyterLab extension
// (labextension/). `--out FILE` writes the module elsewhere, and nothing else.
import { build, transform } from "esbuild";
import { spawnSync } from "node:child_process";
import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const flag = process.argv.indexOf("--out");
const outfile = flag > 0 ? process.argv[flag + 1] : "../lazynb/notebook/static/inspector.js";

/** A style sheet is imported as a minified string. */
const styles = {
  name: "styles",
  setup(builder) {
    builder.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, "utf8"), { loader: "css", minify: true });
      return { contents: code.trim(), loader: "text" };
    });
  },
};

const common = {
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "eof",
  plugins: [styles],
  preserveSymlinks: true, // the same bytes wherever node_modules lies
  logLevel: "warning",
};

async function widget() {
  await build({ ...common, entryPoints: ["src/index.ts"], outfile });
}

/** What JupyterLab shares with its extensions, in the versions of ours: else older releases than the builder's would be warned about. */
async function oldest(file) {
  const core = JSON.parse(await readFile(file, "utf8"));
  const { dependencies } = JSON.parse(await readFile("package.json", "utf8"));
  for (const listed of [core.dependencies, core.resolutions])
    for (const name in dependencies) if (listed?.[name]) listed[name] = dependencies[name];
  await writeFile("lib/core.package.json", JSON.stringify(core));
  return "lib/core.package.json";
}

/** First our own modules with what they use; then JupyterLab's builder, which leaves out what JupyterLab has. */
async function labextension() {
  await rm("lib", { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: ["src/lab/index.ts", "src/lab/mime.ts"],
    outdir: "lib",
    splitting: true,
    external: ["@jupyterlab/*", "@lumino/*", "@codemirror/*"],
  });
  const packages = createRequire(join(process.cwd(), "package.json"));
  const builder = packages.resolve("@jupyter/builder/package.json");
  const core = await oldest(packages.resolve("@jupyterlab/core-meta/core.package.json"));
  await rm("labextension", { recursive: true, force: true });
  const script = join(dirname(builder), "lib", "build-labextension.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, "--core-package-file", core, "."], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`${stdout}\n${stderr}`);
  for (const name of await readdir("labextension", { recursive: true }))
    if (name.endsWith(".orig")) await rm(join("labextension", name)); // the builder's copy of a file it changes
}

await widget();
if (flag < 0) await labextension();
