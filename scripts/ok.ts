/**
 * Runs every gate, one after the other, and ends with a line `N passed, N failed`: the tests of the suite, and each
 * other gate as one. `deno task ok fmt lint` runs the named gates alone.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { sourceFaults, type SourceFile } from "./source_rules.ts";

interface Member {
  readonly folder: string;
  readonly name: string;
  readonly version?: string;
  readonly exports: string | Readonly<Record<string, string>>;
}

interface Outcome {
  readonly passed: number;
  readonly failed: number;
}

const root = new URL("../", import.meta.url);
const members: readonly Member[] = JSON.parse(Deno.readTextFileSync(new URL("deno.json", root))).workspace
  .filter((folder: string) => folder.startsWith("./packages/")).map((folder: string) => ({
    folder,
    ...JSON.parse(Deno.readTextFileSync(new URL(`${folder}/deno.json`, root))),
  }));
const published = members.filter((member) => member.version !== undefined);

async function run(args: readonly string[], folder = "."): Promise<{ ok: boolean; output: string }> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: new URL(`${folder}/`, root),
    env: { NO_COLOR: "1" },
  }).output();
  return { ok: success, output: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** Folders outside the workspace, each with a configuration and a lock file of its own. */
const APART = ["tests/clients"];

/** A gate that is one command: its output is shown only if it fails. */
async function command(args: readonly string[], folder?: string): Promise<Outcome> {
  const { ok, output } = await run(args, folder);
  if (!ok) console.log(output);
  return { passed: Number(ok), failed: Number(!ok) };
}

/** The same command for the workspace and for each folder apart. */
async function everywhere(args: readonly string[]): Promise<Outcome> {
  let failed = 0;
  for (const folder of [".", ...APART]) failed += (await command(args, folder)).failed;
  return { passed: Number(failed === 0), failed };
}

/** The test suite counts each of its tests; a suite that doesn't come to its end is one failure more. */
async function tests(): Promise<Outcome> {
  const { ok, output } = await run(["task", "test"]);
  let [passed, failed] = [0, 0];
  for (const counts of output.matchAll(/^(?:ok|FAILED) \| (\d+) passed .*?\| (\d+) failed/gm)) {
    passed += Number(counts[1]);
    failed += Number(counts[2]);
  }
  if (!ok) console.log(output);
  return { passed, failed: !ok && failed === 0 ? 1 : failed };
}

async function forEach(folders: readonly Member[], args: (member: Member) => string[], inside = false) {
  let failed = 0;
  for (const member of folders) {
    failed += (await command(args(member), inside ? member.folder : ".")).failed;
  }
  return { passed: Number(failed === 0), failed };
}

function entryPoints(member: Member): string[] {
  const paths = typeof member.exports === "string" ? [member.exports] : Object.values(member.exports);
  return paths.map((path) => `${member.folder}/${path}`);
}

async function sources(): Promise<Outcome> {
  const { stdout } = await new Deno.Command("git", {
    args: ["ls-files", "--cached", "--others", "--exclude-standard", "*.ts"],
    cwd: root,
  }).output();
  const files: SourceFile[] = [];
  for (const path of new TextDecoder().decode(stdout).split("\n").filter(Boolean)) {
    files.push({ path, text: await Deno.readTextFile(new URL(path, root)) });
  }
  const faults = sourceFaults(files);
  for (const fault of faults) console.log(fault);
  return { passed: Number(faults.length === 0 && files.length > 0), failed: faults.length };
}

const gates: Readonly<Record<string, () => Promise<Outcome>>> = {
  install: () => everywhere(["ci"]),
  fmt: () => everywhere(["fmt", "--check"]),
  lint: () => everywhere(["lint"]),
  sources,
  check: () => everywhere(["check", "--doc", "--frozen"]),
  // All at once: a type of one package that another one's signature names must be known as public.
  doc: () => command(["doc", "--lint", ...published.flatMap(entryPoints)]),
  publish: () => forEach(published, () => ["publish", "--dry-run", "--allow-dirty", "--no-provenance"], true),
  test: tests,
};

const names = Deno.args.length > 0 ? Deno.args : Object.keys(gates);
let total: Outcome = { passed: 0, failed: 0 };
for (const name of names) {
  const gate = gates[name];
  if (!gate) {
    console.error(`Cannot run gate ${name}: there are ${Object.keys(gates).join(", ")}.`);
    Deno.exit(2);
  }
  const start = performance.now();
  const outcome = await gate();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${outcome.failed === 0 ? "ok    " : "FAILED"} ${name} (${seconds} s)`);
  total = { passed: total.passed + outcome.passed, failed: total.failed + outcome.failed };
}
console.log(`${total.passed} passed, ${total.failed} failed`);
if (total.failed > 0 || total.passed === 0) Deno.exit(1);
