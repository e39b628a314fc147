import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { NODE, runProgram } from "./runtimes.ts";

const HERE = fromFileUrl(new URL(".", import.meta.url));

/** What one import may weigh, minified, its rank tables apart: they are read when somebody counts by them. */
const MAX_BYTES: Readonly<Record<string, number>> = {
  "messages": 100_000,
  // With the engine that runs patterns in linear time: whoever else needs none of it.
  "arguments": 230_000,
  "tiktoken": 100_000,
  "context": 100_000,
  "prune": 100_000,
  "schemas": 100_000,
  "planner": 140_000,
  "planner/policies": 140_000,
  "conversation/report": 100_000,
  "wire": 100_000,
};

/** 20 ms are to be reached where nothing else runs; this bound is for a busy machine. */
const MAX_MS = 200;

/** Bundles one entry point, and gives the path of what it becomes. */
async function minified(name: string, folder: string): Promise<string> {
  const entry = await Deno.makeTempFile({ dir: HERE, suffix: ".ts" });
  try {
    await Deno.writeTextFile(entry, `export * from "@tare/${name}";\n`);
    const options = ["--quiet", "--platform=browser", "--minify", "--code-splitting", `--outdir=${folder}`];
    const { ok, output } = await runProgram(Deno.execPath(), ["bundle", ...options, entry], { cwd: HERE });
    assert(ok, output);
    return join(folder, entry.slice(HERE.length).replace(".ts", ".js"));
  } finally {
    await Deno.remove(entry);
  }
}

/** Bytes of a module and of all that it imports at once. */
async function bytesOf(path: string, seen = new Set<string>()): Promise<number> {
  if (seen.has(path)) return 0;
  seen.add(path);
  const code = await Deno.readTextFile(path);
  let bytes = new TextEncoder().encode(code).length;
  for (const [, other = ""] of code.matchAll(/(?:from|import)"\.\/([^"]+)"/g)) {
    bytes += await bytesOf(join(path, "..", other), seen);
  }
  return bytes;
}

/** The shortest of five imports, each in a process of its own. */
async function importMs(path: string): Promise<number> {
  const script = `const at = performance.now(); await import(${JSON.stringify(path)});
    console.log(performance.now() - at);`;
  let least = Infinity;
  for (let times = 0; times < 5; times++) {
    const { ok, output } = await runProgram(NODE, ["--input-type=module", "--eval", script]);
    assert(ok, output);
    least = Math.min(least, Number(output));
  }
  return least;
}

for (const [name, maxBytes] of Object.entries(MAX_BYTES)) {
  Deno.test(`an import of ${name} weighs under ${maxBytes} bytes and takes no time to speak of`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      const path = await minified(name, folder);
      const [bytes, ms] = [await bytesOf(path), await importMs(path)];
      // deno-lint-ignore no-console -- The figures.
      console.log(`${name}: ${bytes} bytes, ${ms.toFixed(1)} ms on Node 24`);
      assertEquals([bytes < maxBytes, ms < MAX_MS], [true, true], `${bytes} bytes, ${ms} ms`);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
