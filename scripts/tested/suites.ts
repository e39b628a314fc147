import * as NEEDS from "../../tests/needs.ts";
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
  /** What of it `deno task test` skips where nothing optional is installed. */
  readonly rest?: () => Promise<readonly SuiteCommand[]>;
  /** What all of its tests need. */
  readonly needs?: readonly NEEDS.Need[];
  /** Whether its tests count for the coverage of packages: collecting it takes a third more time. */
  readonly covers?: true;
  /** Why it runs only if it is named. */
  readonly omitted?: string;
}

/** How many times the cases of a quick run the suite `properties` generates. */
const CASES = "10";

const NPM = NEEDS.program("npm", "npm", "--version");

/** What tests need that can be installed, by its name in the code. */
const OPTIONAL = new Map(
  Object.entries(NEEDS).flatMap(([name, need]) =>
    typeof need === "object" && need.how ? [[name, need] as const] : []
  ),
);

/** Returns how to install what a test needs, as its name states it. */
export function howToInstall(what: string): string | undefined {
  return [...OPTIONAL.values()].find((need) => need.what === what)?.how;
}

/** The suites by name, in the order in which they run. Types are checked once, by `deno check`. */
export const SUITES: Readonly<Record<string, Suite>> = {
  // What `deno test` at the root runs: `test.include` in deno.json excludes the folders of the other suites.
  fast: {
    ...workspace(),
    rest: async () => {
      const names = [...OPTIONAL.keys()].join("|");
      const files = await filesWith(new RegExp(`needs\\((${names})`));
      const whats = [...OPTIONAL.values()].map(({ what }) => what).join("|");
      return [
        deno(
          "test",
          "-P",
          "--frozen",
          "--no-check",
          "--parallel",
          `--filter=/\\(needs (${whats})\\)$/`,
          ...files,
        ),
      ];
    },
    covers: true,
  },
  examples: {
    commands: async () => [
      deno(
        "test",
        "-P",
        "--frozen",
        "--no-check",
        "--parallel",
        "--doc",
        ...await filesWith(/^(?: \* )?```ts\n/m),
      ),
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
  processes: { ...workspace("tests/processes", "tests/telemetry"), covers: true },
  crash: workspace("tests/crash"),
  attack: workspace("tests/attack"),
  gateway: workspace("tests/gateway"),
  outcome: workspace("tests/outcome"),
  clients: apart("tests/clients", "--doc", "--parallel"),
  tools: { ...apart("tests/tools", "--doc", "--parallel"), covers: true },
  cluster: { ...apart("tests/cluster", "--doc", "--parallel"), covers: true },
  page: { ...apart("packages/page/client"), covers: true },
  acp: { ...apart("packages/app/acp"), covers: true },
  peers: apart("scripts/peers"),
  runtimes: {
    commands:
      () => [npm("tests/runtimes/programs"), deno("test", "-P", "--frozen", "--no-check", "tests/runtimes")],
    needs: [NEEDS.LINUX, NPM],
  },
  agents: {
    commands:
      () => [npm("tests/agents/programs"), deno("test", "-P", "--frozen", "--no-check", "tests/agents")],
    needs: [NPM],
    omitted: "it installs 3.4 GB and takes hours",
  },
};

/** Tests of the workspace, in as many processes as there are processors. */
function workspace(...paths: readonly string[]): Suite {
  return { commands: () => [deno("test", "-P", "--frozen", "--no-check", "--parallel", ...paths)] };
}

/** Tests with a configuration and a lock file of their own, which Deno installs on its own. */
function apart(folder: string, ...flags: readonly string[]): Suite {
  return {
    commands: () => [
      deno(
        "test",
        "--frozen",
        "--no-check",
        "--allow-all",
        ...flags,
        "--config",
        `${folder}/deno.json`,
        folder,
      ),
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
