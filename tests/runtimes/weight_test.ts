import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { installAlone } from "./npm_project.ts";
import { NODE, runProgram } from "./runtimes.ts";

const HERE = fromFileUrl(new URL(".", import.meta.url));

/** Largest minified size of one import, in bytes, without modules loaded at first use. */
const MAX_BYTES: Readonly<Record<string, number>> = {
  "messages": 100_000,
  "tiktoken": 100_000,
  // Includes the engine for patterns in linear time, which others don't need.
  "context": 100_000,
  "prune": 100_000,
  "schemas": 100_000,
  // Includes the tables of known agents' tools and of prices by tier and region, which the first call needs.
  "planner": 130_000,
  "planner/internal/parts": 100_000,
  "planner/policies": 144_000,
  "adapters/ai-sdk": 160_000,
  "adapters/langchain": 157_000,
  "adapters/mastra": 159_000,
  "adapters/openai-agents": 158_000,
  "session/internal/report": 100_000,
  "wire": 120_000,
};

/** Largest size of a package on disk with its dependencies, in bytes. */
const MAX_INSTALLED: Readonly<Record<string, number>> = {
  context: 300_000,
  prune: 1_000_000,
  planner: 2_000_000,
  adapters: 3_000_000,
};

/** Longest import time on a busy machine, in milliseconds. Target on an idle one: 20. */
const MAX_MS = 200;

/** Largest share of the AI SDK's import time on a busy machine. Target on an idle one: 0.3. */
const MAX_OF_AI_SDK = 0.6;

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

async function importMs(
  ...imports: readonly (readonly [specifier: string, cwd?: string])[]
): Promise<number[]> {
  const least = imports.map(() => Infinity);
  for (let times = 0; times < 12; times++) {
    for (const [at, [specifier, cwd = HERE]] of imports.entries()) {
      const script = `const at = performance.now(); await import(${JSON.stringify(specifier)});
        console.log(performance.now() - at);`;
      const { ok, output } = await runProgram(NODE, ["--input-type=module", "--eval", script], { cwd });
      assert(ok, output);
      least[at] = Math.min(least[at]!, Number(output));
    }
  }
  return least;
}

for (const [name, maxBytes] of Object.entries(MAX_BYTES)) {
  Deno.test(`${name}: an import weighs under ${maxBytes} bytes and takes little time`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      const path = await minified(name, folder);
      const [bytes, [ms = 0]] = [await bytesOf(path), await importMs([path])];
      // deno-lint-ignore no-console -- The measurements.
      console.log(`${name}: ${bytes} bytes, ${ms.toFixed(1)} ms on Node 24`);
      assertEquals([bytes < maxBytes, ms < MAX_MS], [true, true], `${bytes} bytes, ${ms} ms`);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

for (const [name, maxBytes] of Object.entries(MAX_INSTALLED)) {
  Deno.test(`${name}: it takes under ${maxBytes} bytes of a disk with its dependencies`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      const bytes = await installAlone(folder, name);
      // deno-lint-ignore no-console -- The measurements.
      console.log(`${name}: ${bytes} bytes`);
      assert(bytes > 0 && bytes < maxBytes, `${bytes} bytes`);
      if (name !== "planner") return;
      const [planner = 0, ai = 0] = await importMs(["@tare/planner", folder], ["ai", join(HERE, "programs")]);
      // deno-lint-ignore no-console -- The measurements.
      console.log(`an import of it takes ${planner.toFixed(1)} ms, of the AI SDK ${ai.toFixed(1)} ms`);
      assert(planner < MAX_OF_AI_SDK * ai);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
