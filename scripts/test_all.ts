/**
 * Runs test suites in order and prints a table of passed, failed and skipped tests with reasons. `deno task test` runs the
 * fast suite, `deno task test packages/context` its tests in that folder, `deno task test:all` all but the largest suite,
 * `deno task test:all cluster page` those two. `--rest` omits the tests that `deno task test` has run.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { fromFileUrl } from "@std/path";
import { root } from "./repository.ts";
import { howToInstall, type SuiteCommand, SUITES, workspaceTests } from "./tested/suites.ts";
import { add, NONE, readTestOutput, type Result, resultTable, type Row } from "./tested/test_output.ts";

const isRest = Deno.args.includes("--rest");
const paths = Deno.args.filter((arg) => arg.includes("/"));
const named = Deno.args.filter((arg) => arg !== "--rest" && !paths.includes(arg));
const unknown = named.filter((name) => !Object.hasOwn(SUITES, name));
if (unknown.length > 0) {
  console.error(`Cannot run ${unknown.join(", ")}: unknown suite. Use ${Object.keys(SUITES).join(", ")}.`);
  Deno.exit(2);
}

const { DENO_COVERAGE_DIR, ...inherited } = Deno.env.toObject();

/** Runs a command; its coverage is written to a folder named `covers` in DENO_COVERAGE_DIR. */
async function run({ program, args, env }: SuiteCommand, covers?: string): Promise<Result> {
  const child = new Deno.Command(program, {
    args: [...args],
    cwd: fromFileUrl(root),
    clearEnv: true,
    env: {
      ...inherited,
      ...env,
      ...covers && DENO_COVERAGE_DIR && { DENO_COVERAGE_DIR: `${DENO_COVERAGE_DIR}/${covers}` },
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  const pass = async (stream: ReadableStream<Uint8Array>, to: typeof Deno.stdout) => {
    const decoder = new TextDecoder();
    for await (const piece of stream) {
      output += decoder.decode(piece, { stream: true });
      for (let at = 0; at < piece.length;) at += await to.write(piece.subarray(at));
    }
  };
  await Promise.all([pass(child.stdout, Deno.stdout), pass(child.stderr, Deno.stderr)]);
  return readTestOutput(output, await child.status);
}

const rows: Row[] = [];
for (const [suite, { commands, rest, needs = [], covers, omitted }] of Object.entries(SUITES)) {
  if (named.length > 0 ? !named.includes(suite) : omitted !== undefined) {
    if (named.length === 0) {
      rows.push({ suite, result: NONE, seconds: 0, reason: `only if named: ${omitted}` });
    }
    continue;
  }
  const missing = needs.filter(({ isMet }) => !isMet());
  if (missing.length > 0) {
    const reason = `skipped: needs ${missing.map(({ what }) => what).join(" and ")}`;
    rows.push({ suite, result: NONE, seconds: 0, reason });
    continue;
  }
  const start = performance.now();
  let result = NONE;
  const ofPaths = () => [workspaceTests(...paths)];
  for (const command of await (paths.length > 0 ? ofPaths : isRest && rest ? rest : commands)()) {
    result = add(result, await run(command, covers && suite));
    if (result.failed > 0) break;
  }
  rows.push({ suite, result, seconds: (performance.now() - start) / 1000 });
}
console.log(`\n${resultTable(rows, howToInstall)}`);
const { passed, failed } = rows.map(({ result }) => result).reduce(add, NONE);
console.log(`${passed} passed, ${failed} failed`);
if (failed > 0 || passed === 0) Deno.exit(1);
