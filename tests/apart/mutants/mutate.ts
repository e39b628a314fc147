/**
 * Mutates a file and prints the mutants that type-check and that its tests don't detect:
 *
 *     deno task bench mutate FILE [TESTS…] [--sample=N] [--seed=N] [--jobs=N]
 *
 * Tests are files or folders. Default: those of the file's folder. They run in order, comma-separated ones
 * together, until one fails. Each mutant is tested in a copy of the tree.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { type Mutant, mutantsOf } from "./mutants.ts";

const { values, positionals: [path = "", ...given] } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: "string", default: "Infinity" },
    seed: { type: "string", default: "1" },
    jobs: { type: "string", default: "2" },
  },
});
const tests = given.length > 0 ? given : [dirname(path)];
const source = await Deno.readTextFile(path);
const mutants = sampled(mutantsOf(source), Number(values.sample), Number(values.seed));

/** Copies tracked and untracked files that git doesn't ignore. Links would expose the mutant to others. */
async function copyTree(folder: string): Promise<void> {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const { stdout } = await new Deno.Command("git", { args }).output();
  for (const name of new TextDecoder().decode(stdout).split("\0").filter(Boolean)) {
    await Deno.mkdir(join(folder, dirname(name)), { recursive: true });
    await Deno.copyFile(name, join(folder, name)).catch((error) => {
      // A removal that isn't committed.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
}

async function succeeds(cwd: string, timeoutMs: number, ...args: readonly string[]): Promise<boolean> {
  const signal = AbortSignal.timeout(timeoutMs);
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd,
    stdout: "null",
    stderr: "null",
    signal,
  });
  return (await command.output()).success;
}

async function runTests(cwd: string, timeoutMs: number): Promise<boolean> {
  for (const test of tests) {
    if (
      !await succeeds(
        cwd,
        timeoutMs,
        "test",
        "-P",
        "--no-check",
        "--fail-fast",
        "--quiet",
        ...test.split(","),
      )
    ) {
      return false;
    }
  }
  return true;
}

const waiting = [...mutants];
const survivors: Mutant[] = [];
let invalid = 0;

async function work(): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "mutants-" });
  try {
    await copyTree(folder);
    const startMs = performance.now();
    if (!await runTests(folder, 600_000)) {
      throw new Error(`Cannot mutate ${path}: its tests fail without a change.`);
    }
    const timeoutMs = 10_000 + 4 * (performance.now() - startMs);
    for (let mutant = waiting.pop(); mutant; mutant = waiting.pop()) {
      const { start, end, text } = mutant;
      await Deno.writeTextFile(join(folder, path), source.slice(0, start) + text + source.slice(end));
      if (!await runTests(folder, timeoutMs)) continue;
      if (!await succeeds(folder, 600_000, "check", "--quiet", path)) invalid++;
      else {
        survivors.push(mutant);
        console.log(describe(mutant));
      }
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function describe({ start, end, text }: Mutant): string {
  const before = source.slice(0, start).split("\n");
  const line = source.split("\n")[before.length - 1]!.trim();
  return `${path}:${before.length}:${before.at(-1)!.length + 1}  ${
    source.slice(start, end)
  } → ${text}  in  ${line}`;
}

function sampled(all: readonly Mutant[], count: number, seed: number): readonly Mutant[] {
  const keyed = all.map((mutant, at) => ({
    mutant,
    key: Math.imul(at + 1, 0x9e3779b1 ^ Math.imul(seed, 0x85ebca6b)) >>> 0,
  }));
  return keyed.sort((a, b) => a.key - b.key).slice(0, count).map(({ mutant }) => mutant);
}

await Promise.all(Array.from({ length: Number(values.jobs) }, work));
const tested = mutants.length - invalid;
const share = tested === 0 ? 0 : 100 * survivors.length / tested;
console.log(
  `${path}: ${survivors.length} of ${tested} mutants survive (${
    share.toFixed(1)
  } %), ${invalid} don't type check`,
);
