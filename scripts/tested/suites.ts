import * as NEEDS from "../../tests/needs.ts";
import { sourceFiles } from "../repository.ts";

export interface SuiteCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

type Commands = () => readonly SuiteCommand[] | Promise<readonly SuiteCommand[]>;

export interface Suite {
  /** Commands that install requirements, then the one that runs the tests. */
  readonly commands: Commands;
  /** Commands for tests that `deno task test` skips without optional programs. */
  readonly rest?: Commands;
  readonly needs?: readonly NEEDS.Need[];
  /** Whether the tests count for coverage, which takes two to three times the processor time. */
  readonly covers?: true;
  readonly omitted?: string;
}

/** Times as many cases, with a fixed seed, so that results are reproducible. */
const moreCases = (times: number) => ({ TARE_TEST_CASES: `${times}`, TARE_TEST_SEED: "2" });

/** For suites that wait for servers, databases and browsers most of the time. */
const WAITING = { DENO_JOBS: "3" };

/** Lock file with the dependencies of tests: a start installs all of `deno.lock`. */
export const LOCK = "--lock=tests/deno.lock";

const NPM = NEEDS.program("npm", "npm", "--version");

/** Installable requirements of single tests, by identifier. */
const OPTIONAL = new Map(
  Object.entries(NEEDS).flatMap(([name, need]) =>
    typeof need === "object" && need.how ? [[name, need] as const] : []
  ),
);

/** Returns how to install the requirements that test names state. */
export function howToInstall(whats: string): string | undefined {
  const all = whats.split(" and ");
  const hows = [...OPTIONAL.values()].filter(({ what }) => all.includes(what)).map(({ how }) => how);
  return hows.length > 0 ? hows.join(", ") : undefined;
}

/** Suites by name, in order. Types are checked once, by `deno check`. */
export const SUITES: Readonly<Record<string, Suite>> = {
  // `deno test` at the root: `test.include` in deno.json excludes the folders of the other suites.
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
      return [{ ...workspaceTests(...tests), env: moreCases(3) }];
    },
  },
  sessions: { commands: () => [{ ...workspaceTests("tests/sessions"), env: moreCases(2) }] },
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
    commands: () => [
      { ...testsBy("tests/apart", "tests/apart/cluster", "--doc", "--parallel"), env: WAITING },
    ],
    covers: true,
  },
  page: {
    commands: () => [
      { ...testsBy("packages/page/client", "packages/page/client", "--parallel"), env: WAITING },
    ],
    covers: true,
  },
  acp: { commands: () => [testsBy("packages/cli/acp", "packages/cli/acp", "--parallel")], covers: true },
  peers: { commands: () => [testsBy("tests/apart", "tests/apart/peers")] },
  runtimes: {
    commands: () => [installFromNpm("tests/runtimes/programs"), workspaceTests("tests/runtimes")],
    needs: [NEEDS.LINUX, NPM],
  },
  agents: {
    commands: () => [installFromNpm("tests/agents/programs"), tests("-P", LOCK, "tests/agents")],
    needs: [NEEDS.NOT_WINDOWS, NPM],
    omitted: "it installs 3.4 GB and takes hours",
  },
};

export function workspaceTests(...args: readonly string[]): SuiteCommand {
  return tests("-P", "--parallel", LOCK, ...args);
}

function testsBy(configured: string, ...args: readonly string[]): SuiteCommand {
  return tests("--allow-all", "--config", `${configured}/deno.json`, ...args);
}

function tests(...args: readonly string[]): SuiteCommand {
  return { program: Deno.execPath(), args: ["test", "--frozen", "--no-check", ...args] };
}

function installFromNpm(folder: string): SuiteCommand {
  return { program: "npm", args: ["install", "--no-save", "--prefix", folder, "--no-audit", "--no-fund"] };
}

/** Returns matching files of the workspace, without those of other suites. */
async function filesWith(pattern: RegExp): Promise<readonly string[]> {
  const isOther = /^(tests\/\w+\/|packages\/(page\/client|cli\/acp|app\/mcp)\/)/;
  return (await sourceFiles())
    .filter(({ path, text }) => !isOther.test(path) && pattern.test(text))
    .map(({ path }) => path);
}
