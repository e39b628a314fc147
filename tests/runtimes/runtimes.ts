import { basename, dirname, fromFileUrl, join } from "@std/path";

export interface Runtime {
  readonly name: string;
  /** Runs the function `main` of a bundled module to its end, and returns its output. */
  runMain(bundled: string): Promise<Output>;
  /** Runs a script of a folder with npm packages; absent if they can't be installed. */
  runScript?(path: string): Promise<Output>;
}

export interface Output {
  readonly ok: boolean;
  readonly output: string;
}

/** Packages that need neither files nor sockets. */
export const PURE: readonly string[] = [
  "messages",
  "tiktoken",
  "context",
  "prune",
  "schemas",
  "planner",
  "wire",
];

const PROGRAMS = fromFileUrl(new URL("./programs/node_modules", import.meta.url));

export const NODE: string = join(PROGRAMS, "node24/bin/node");

/** Runtimes from npm, pinned by `programs/package.json`. */
export const RUNTIMES: readonly Runtime[] = [
  ...["node22", "node24", "node26"].map((name) => installing(name, `${name}/bin/node`)),
  installing("bun", "@oven/bun-linux-x64/bin/bun"),
  { name: "workerd", runMain: runWorker },
  {
    name: "chromium",
    runMain: (bundled) => runProgram(NODE, [join(PROGRAMS, "../in_chromium.mjs"), bundled]),
  },
];

export const DENO: Runtime = {
  name: "deno",
  async runMain(bundled) {
    return await runProgram(Deno.execPath(), [
      "run",
      "--no-lock",
      "--no-config",
      "--allow-read",
      "--allow-env=TARE_TEST_CASES,TARE_TEST_SEED",
      await starter(bundled),
    ]);
  },
};

/** Checks the types of scripts in a folder with npm packages, as TypeScript does for Node. */
export async function checkTypes(folder: string, scripts: readonly string[]): Promise<Output> {
  const options = [
    "--noEmit",
    "--strict",
    "--module",
    "nodenext",
    "--target",
    "esnext",
    "--lib",
    "esnext,dom,dom.iterable",
    "--types",
    "node",
    "--typeRoots",
    join(PROGRAMS, "@types"),
  ];
  const program = [
    join(PROGRAMS, "typescript/bin/tsc"),
    ...options,
    "--allowImportingTsExtensions",
    ...scripts,
  ];
  return await runProgram(NODE, program, { cwd: folder });
}

export async function runProgram(
  path: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "cwd"> = {},
): Promise<Output> {
  const command = new Deno.Command(path, { args: [...args], env: { NO_COLOR: "1" }, ...options });
  const { success, stdout, stderr } = await command.output();
  return { ok: success, output: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

function installing(name: string, path: string): Runtime {
  const runScript = (script: string) => runProgram(join(PROGRAMS, path), [script], { cwd: dirname(script) });
  return { name, runScript, runMain: async (bundled) => await runScript(await starter(bundled)) };
}

async function starter(bundled: string): Promise<string> {
  const path = `${bundled}.start.mjs`;
  await Deno.writeTextFile(path, `import { main } from "./${basename(bundled)}";\nawait main();\n`);
  return path;
}

/** Runs a worker by a test event: little may be done while its modules load. */
async function runWorker(bundled: string): Promise<Output> {
  const name = basename(bundled);
  await Deno.writeTextFile(
    `${bundled}.worker.mjs`,
    `import { main } from "./${name}";\nexport default { test: main };\n`,
  );
  await Deno.writeTextFile(
    `${bundled}.capnp`,
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [(name = "main", worker = (
  modules = [
    (name = "worker.mjs", esModule = embed "${name}.worker.mjs"),
    (name = "${name}", esModule = embed "${name}"),
  ],
  compatibilityDate = "2026-01-01",
))]);
`,
  );
  return await runProgram(join(PROGRAMS, "@cloudflare/workerd-linux-64/bin/workerd"), [
    "test",
    `${bundled}.capnp`,
  ]);
}
