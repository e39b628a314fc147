import { BUBBLEWRAP, FAKETIME, LINUX, type Need, NGINX, PGBOUNCER, program } from "../../tests/needs.ts";
import { sourceFiles } from "../repository.ts";

/** A command of a suite, run at the root. */
export interface SuiteCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** Variables in addition to the environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Tests that run together. */
export interface Suite {
  /** Commands that install what the tests need, then the one that runs them. */
  readonly commands: () => readonly SuiteCommand[] | Promise<readonly SuiteCommand[]>;
  /** What all of its tests need. */
  readonly needs?: readonly Need[];
  /** Why it runs only if it is named. */
  readonly omitted?: string;
}

/** How many times the cases of a quick run the suite `properties` generates. */
const CASES = "10";

const NPM = program("npm", "npm", "--version");

/** What single tests need: all of it is optional. */
export const OPTIONAL: readonly Need[] = [BUBBLEWRAP, FAKETIME, NGINX, PGBOUNCER];

/** The suites by name, in the order in which they run. */
export const SUITES: Readonly<Record<string, Suite>> = {
  // What `deno test` at the root runs: `test.include` in deno.json excludes the folders of the other suites.
  fast: workspace(),
  examples: {
    commands: async () => [
      deno("test", "-P", "--frozen", "--parallel", "--doc", ...await filesWith(/^(?: \* )?```ts\n/m)),
    ],
  },
  properties: {
    commands: async () => [{
      ...deno(
        "test",
        "-P",
        "--frozen",
        "--parallel",
        ...await filesWith(/^import .* from ".*\/cases\.ts";$/m),
      ),
      env: { TARE_TEST_CASES: CASES },
    }],
  },
  processes: workspace("tests/processes", "tests/telemetry"),
  crash: workspace("tests/crash"),
  attack: workspace("tests/attack"),
  gateway: workspace("tests/gateway"),
  outcome: workspace("tests/outcome"),
  clients: apart("tests/clients", "--doc", "--parallel"),
  tools: apart("tests/tools", "--doc", "--parallel"),
  cluster: apart("tests/cluster", "--doc", "--parallel"),
  page: apart("packages/page/client"),
  acp: apart("packages/app/acp"),
  peers: apart("scripts/peers"),
  runtimes: {
    commands: () => [npm("tests/runtimes/programs"), deno("test", "-P", "--frozen", "tests/runtimes")],
    needs: [LINUX, NPM],
  },
  agents: {
    commands: () => [npm("tests/agents/programs"), deno("test", "-P", "--frozen", "tests/agents")],
    needs: [NPM],
    omitted: "it installs 3.4 GB and takes hours",
  },
};

/** Tests of the workspace, in as many processes as there are processors. */
function workspace(...paths: readonly string[]): Suite {
  return { commands: () => [deno("test", "-P", "--frozen", "--parallel", ...paths)] };
}

/** Tests with a configuration and a lock file of their own, which Deno installs on its own. */
function apart(folder: string, ...flags: readonly string[]): Suite {
  return {
    commands: () => [
      deno("test", "--frozen", "--allow-all", ...flags, "--config", `${folder}/deno.json`, folder),
    ],
  };
}

function deno(...args: readonly string[]): SuiteCommand {
  return { program: Deno.execPath(), args };
}

function npm(folder: string): SuiteCommand {
  return { program: "npm", args: ["ci", "--prefix", folder, "--no-audit", "--no-fund"] };
}

/** Returns files of the workspace, without those of other suites, whose text matches. */
async function filesWith(pattern: RegExp): Promise<readonly string[]> {
  const isOther = /^(tests\/\w+\/|scripts\/peers\/|packages\/(page\/client|app\/(acp|mcp))\/)/;
  return (await sourceFiles())
    .filter(({ path, text }) => !isOther.test(path) && pattern.test(text))
    .map(({ path }) => path);
}
