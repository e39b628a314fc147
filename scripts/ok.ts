/**
 * Runs every gate and prints `N passed, N failed`. `deno task ok fmt lint` runs the named gates. Tests aren't a gate:
 * `deno task test:all` runs them. With `--coverage=FOLDER`, the `DENO_COVERAGE_DIR` of a test run, there is the additional
 * gate `coverage`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { fromFileUrl, join } from "@std/path";
import { consumerFault, runDeno } from "./consumer.ts";
import { coverageFaults } from "./tested/coverage_faults.ts";
import { readCoverage } from "./tested/read_coverage.ts";
import { publicApiFaults, readPublicApi } from "./public_api.ts";
import { PUBLISHED } from "./pack_npm.ts";
import { config, entryPoints, members, programs, published, root, sourceFiles } from "./repository.ts";
import { sourceFaults } from "./source_rules.ts";
import { LOCK } from "./tested/suites.ts";

interface Outcome {
  readonly passed: number;
  readonly failed: number;
}

function run(
  args: readonly string[],
  { folder = ".", env = {} }: { readonly folder?: string; readonly env?: Record<string, string> } = {},
): Promise<{ readonly ok: boolean; readonly output: string }> {
  return runDeno(args, { cwd: new URL(`${folder}/`, root), env });
}

const coverageFolder = Deno.args.find((arg) => arg.startsWith("--coverage="))?.slice("--coverage=".length);

const APART = [
  "tests/apart",
  "packages/page/client",
  "packages/cli/acp",
  "packages/app/mcp",
];

async function command(args: readonly string[], folder?: string): Promise<Outcome> {
  const { ok, output } = await run(args, folder === undefined ? {} : { folder });
  if (!ok) console.log(output);
  return { passed: Number(ok), failed: Number(!ok) };
}

async function everywhere(args: readonly string[], workspaceArgs: readonly string[] = []): Promise<Outcome> {
  let { failed } = await command([...args, ...workspaceArgs], ".");
  for (const folder of APART) failed += (await command(args, folder)).failed;
  return { passed: Number(failed === 0), failed };
}

async function coverage(): Promise<Outcome> {
  const folder = fromFileUrl(root);
  const { lcov, faults: unread } = await readCoverage(coverageFolder!, folder);
  const faults = unread.length > 0
    ? unread
    : coverageFaults(await sourceFiles(), { lcov, root: folder, programs: programs() });
  for (const fault of faults) console.log(fault);
  return { passed: Number(faults.length === 0), failed: faults.length };
}

const MAX_PUBLIC_NAMES = 280;

async function sources(): Promise<Outcome> {
  const files = await sourceFiles();
  const entries = new Map(members.flatMap((member) => [...entryPoints(member)]));
  const apis = await readPublicApi({ internal: false });
  const names = apis.flatMap(({ symbols }) => symbols).length;
  const faults = [
    ...sourceFaults(files, entries),
    ...apis.flatMap(publicApiFaults),
    ...names > MAX_PUBLIC_NAMES
      ? [`Published packages export ${names} names; at most ${MAX_PUBLIC_NAMES} may be public.`]
      : [],
  ];
  for (const fault of faults) console.log(fault);
  return { passed: Number(faults.length === 0 && files.length > 0), failed: faults.length };
}

/** Objects that users only pass: Tare's packages call members whose signatures name internal types. */
const HANDLES = ["HttpGateway", "PostgresStore", "Store", "StoreContents", "CacheKeepAlive"];

/**
 * Checks that every exported symbol is documented and no signature names an unexported type; public entry points name only
 * public types, except {@linkcode HANDLES}. Members need no documentation: only missing documentation on the line of an
 * `export` is a fault.
 */
async function doc(): Promise<Outcome> {
  // In one call, so that a type in another package's signature is recognized as public.
  const entries = published.flatMap((member) => [...entryPoints(member)]);
  const all = await docFaults(entries.map(([, path]) => path));
  const publicFaults = await docFaults(
    entries.flatMap(([name, path]) => /\/internal\b/.test(name) ? [] : [path]),
  );
  const faults = [
    ...all.filter((fault) => !fault.startsWith("error[missing-jsdoc]") || /^ *\d+ \| export\b/m.test(fault)),
    ...publicFaults.filter((fault) => {
      const [, owner = ""] = /^error\[private-type-ref\]: public type '(\w+)/.exec(fault) ?? [];
      return owner !== "" && !HANDLES.includes(owner);
    }),
  ];
  for (const fault of faults) console.log(fault);
  return { passed: Number(faults.length === 0), failed: faults.length };
}

/** Returns the faults of `deno doc --lint` in these files, or its whole output if it fails otherwise. */
async function docFaults(paths: readonly string[]): Promise<readonly string[]> {
  const { ok, output } = await run(["doc", "--lint", ...paths]);
  const faults = output.split(/^(?=error)/m).filter((fault) => fault.startsWith("error["));
  return ok || faults.length > 0 ? faults : [output];
}

async function consumer(): Promise<Outcome> {
  const fault = await consumerFault(fromFileUrl(root), { standIns: config.links });
  if (fault !== undefined) console.log(fault);
  return { passed: Number(fault === undefined), failed: Number(fault !== undefined) };
}

/** Comments, texts, pages and names use the words of the field. */
function language(): Promise<Outcome> {
  const permissions = ["--frozen", "--allow-read", "--allow-env", "--allow-run=git"];
  return command(["run", "--quiet", ...permissions, "check_language.ts"], "tests/apart/language");
}

/** The packages as npm gets them, as two public checkers of packages see them. */
async function packed(): Promise<Outcome> {
  const home = await Deno.makeTempDir();
  const folder = join(home, "tare-packages");
  try {
    await installAsDocumented(home);
    return await command(
      ["run", "--frozen", "--allow-read", "--allow-env", "check_packed.ts", folder],
      "tests/apart/packed",
    );
  } catch (error) {
    console.log((error as Error).message);
    return { passed: 0, failed: 1 };
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

/** Runs the commands of docs/own_loop.md: the first in the clone, the second in an empty project, which then imports all. */
async function installAsDocumented(home: string): Promise<void> {
  const text = await Deno.readTextFile(new URL("docs/own_loop.md", root));
  const [, lines = ""] = /## Installation\n[^]*?```\n([^]*?)```/.exec(text) ?? [];
  const [pack = "", install = ""] = lines.trim().split("\n");
  const project = join(home, "project");
  await Deno.mkdir(project);
  const shell = async (line: string, cwd: string) => {
    const env = {
      HOME: home,
      DENO_DIR: cache,
      npm_config_cache: npmCache,
      npm_config_update_notifier: "false",
    };
    const { success, stderr } = await new Deno.Command("sh", { args: ["-ec", line], cwd, env }).output();
    if (!success) throw new Error(`${line} failed:\n${new TextDecoder().decode(stderr)}`);
  };
  const { denoDir: cache } = JSON.parse((await run(["info", "--json"])).output);
  const npmCache = Deno.env.get("npm_config_cache") ?? join(Deno.env.get("HOME") ?? home, ".npm");
  await shell(pack, fromFileUrl(root));
  await shell(install, project);
  const imports = PUBLISHED.filter((name) => name !== "adapters")
    .map((name) => `await import("@tare/${name}");`).join("");
  await shell(`node --input-type=module -e '${imports}'`, project);
}

const gates: Readonly<Record<string, () => Promise<Outcome>>> = {
  install: () => everywhere(["ci"]),
  fmt: () => everywhere(["fmt", "--check"]),
  lint: () => everywhere(["lint"]),
  sources,
  language,
  page: () => command(["task", "page", "--check"]),
  check: () => everywhere(["check", "--doc", "--frozen"], [LOCK]),
  doc,
  publish: () => command(["publish", "--dry-run", "--no-check", "--allow-dirty", "--no-provenance"]),
  consumer,
  packed,
  ...coverageFolder !== undefined && { coverage },
};

/** Gates that take longest, in order. */
const LONGEST = ["coverage", "check", "consumer", "packed"];

const named = Deno.args.filter((arg) => !arg.startsWith("--"));
const names = named.length > 0 ? named : Object.keys(gates);
const unknown = names.filter((name) => !Object.hasOwn(gates, name));
if (unknown.length > 0) {
  console.error(`Cannot run gate ${unknown.join(", ")}: there are ${Object.keys(gates).join(", ")}.`);
  Deno.exit(2);
}
let total: Outcome = { passed: 0, failed: 0 };

async function pass(name: string): Promise<void> {
  const start = performance.now();
  const outcome = await gates[name]!();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${outcome.failed === 0 ? "ok    " : "FAILED"} ${name} (${seconds} s)`);
  total = { passed: total.passed + outcome.passed, failed: total.failed + outcome.failed };
}

// Others need the dependencies. Two run at a time, those that take longest first.
if (names.includes("install")) await pass("install");
const order = [...LONGEST, ...names].filter((name) => name !== "install" && names.includes(name));
const queue = new Set(order).values();
const lane = async () => {
  for (const name of queue) await pass(name);
};
await Promise.all([lane(), lane()]);
console.log(`${total.passed} passed, ${total.failed} failed`);
if (total.failed > 0 || total.passed === 0) Deno.exit(1);
