import * as NEEDS from "../../tests/needs.ts";
import { sourceFiles } from "../repository.ts";

/** A command of a suite, run at the root. */
export interface SuiteCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** Variables in addition to the environment. */
  readonly env?: Readonly<Record<string, string>>;
}

type Commands = () => readonly SuiteCommand[] | Promise<readonly SuiteCommand[]>;

/** Tests that run together. */
export interface Suite {
  /** Commands that install what the tests need, then the one that runs them. */
  readonly commands: Commands;
  /** Commands for what `deno task test` skips on a machine without optional programs. */
  readonly rest?: Commands;
  /** What all of its tests need. */
  readonly needs?: readonly NEEDS.Need[];
  /** Whether its tests count for the coverage of packages: collecting takes half as much processor time again. */
  readonly covers?: true;
  /** Why it runs only if it is named. */
  readonly omitted?: string;
}

/** How many times the cases of a quick run the suite `properties` generates. */
const CASES = "4";

/** From which seed, so that a run that passed passes again. `TARE_TEST_CASES=10 deno task test` draws others. */
const SEED = "2";

/** The lock file of the workspace with what only its tests need: a start installs what is in `deno.lock`. */
export const LOCK = "--lock=tests/deno.lock";

const NPM = NEEDS.program("npm", "npm", "--version");

/** What single tests need and can be installed, by its name in the code. */
const OPTIONAL = new Map(
  Object.entries(NEEDS).flatMap(([name, need]) =>
    typeof need === "object" && need.how ? [[name, need] as const] : []
  ),
);

/** Returns how to install what tests need, as their names state it. */
export function howToInstall(whats: string): string | undefined {
  const all = whats.split(" and ");
  const hows = [...OPTIONAL.values()].filter(({ what }) => all.includes(what)).map(({ how }) => how);
  return hows.length > 0 ? hows.join(", ") : undefined;
}

/** The suites by name, in the order in which they run. Types are checked once, by `deno check`. */
export const SUITES: Readonly<Record<string, Suite>> = {
  // What `deno test` at the root runs: `test.include` in deno.json excludes the folders of the other suites.
  fast: {
    commands: () => [workspaceTests()],
    rest: async () => {
      const whats = [...OPTIONAL.values()].map(({ what }) => what).join("|");
      const files = await filesWith(new RegExp(`needs\\([^)]*\\b(${[...OPTIONAL.keys()].join("|")})\\b`));
      return [workspaceTests(`--filter=/\\(needs .*\\b(${whats})\\b.*\\)$/`, ...files)];
    },
    covers: true,
  },
  examples: { commands: async () => [workspaceTests("--doc", ...await filesWith(/^(?: \* )?```ts\n/m))] },
  properties: {
    commands: async () => {
      const files = await filesWith(/^import .* from ".*\/cases\.ts";$/m);
      const tests = files.filter((path) => path.endsWith("_test.ts"));
      return [{ ...workspaceTests(...tests), env: { TARE_TEST_CASES: CASES, TARE_TEST_SEED: SEED } }];
    },
  },
  processes: { commands: () => [workspaceTests("tests/processes", "tests/telemetry")], covers: true },
  crash: { commands: () => [workspaceTests("tests/crash")] },
  attack: { commands: () => [workspaceTests("tests/attack")], covers: true },
  gateway: { commands: () => [workspaceTests("tests/gateway")] },
  outcome: { commands: () => [workspaceTests("tests/outcome")] },
  clients: { commands: () => [testsBy("tests/apart", "tests/apart/clients", "--doc", "--parallel")] },
  tools: {
    commands: () => [testsBy("tests/apart", "tests/apart/tools", "--doc", "--parallel")],
    covers: true,
  },
  cluster: {
    commands: () => [testsBy("tests/apart", "tests/apart/cluster", "--doc", "--parallel")],
    covers: true,
  },
  page: { commands: () => [testsBy("packages/page/client", "packages/page/client")], covers: true },
  acp: { commands: () => [testsBy("packages/cli/acp", "packages/cli/acp")], covers: true },
  peers: { commands: () => [testsBy("tests/apart", "tests/apart/peers")] },
  runtimes: {
    commands: () => [installFromNpm("tests/runtimes/programs"), tests("-P", LOCK, "tests/runtimes")],
    needs: [NEEDS.LINUX, NPM],
  },
  agents: {
    commands: () => [installFromNpm("tests/agents/programs"), tests("-P", LOCK, "tests/agents")],
    needs: [NEEDS.NOT_WINDOWS, NPM],
    omitted: "it installs 3.4 GB and takes hours",
  },
};

/** Returns the command for tests of the workspace, in as many processes as there are processors. */
export function workspaceTests(...args: readonly string[]): SuiteCommand {
  return tests("-P", "--parallel", LOCK, ...args);
}

/** Tests by the configuration and lock file of a folder, whose packages Deno installs. */
function testsBy(configured: string, ...args: readonly string[]): SuiteCommand {
  return tests("--allow-all", "--config", `${configured}/deno.json`, ...args);
}

function tests(...args: readonly string[]): SuiteCommand {
  return { program: Deno.execPath(), args: ["test", "--frozen", "--no-check", ...args] };
}

/** Installs programs as the folder's lock file pins them. */
function installFromNpm(folder: string): SuiteCommand {
  return { program: "npm", args: ["ci", "--prefix", folder, "--no-audit", "--no-fund"] };
}

/** Returns files of the workspace, without those of other suites, whose text matches. */
async function filesWith(pattern: RegExp): Promise<readonly string[]> {
  const isOther = /^(tests\/\w+\/|packages\/(page\/client|cli\/acp|app\/mcp)\/)/;
  return (await sourceFiles())
    .filter(({ path, text }) => !isOther.test(path) && pattern.test(text))
    .map(({ path }) => path);
}
