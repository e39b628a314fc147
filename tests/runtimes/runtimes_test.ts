import { bundle, bundleSuite, runSuite } from "./suite.ts";
import { assert, assertEquals } from "@std/assert";
import { DENO, PURE, type Runtime, RUNTIMES } from "./runtimes.ts";
import type { SuiteResult } from "./suite_result.ts";
import { fromFileUrl, join } from "@std/path";

/** Test that compares with Ajv, which compiles schemas to code: workerd forbids that. */
const BY_AJV = "compactTool() compiles if the full schema does, and allows every call that it allows";

const folder = await Deno.makeTempDir();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

/** Later versions of Node, which differ less from the oldest than other runtimes: they run no package's tests. */
const LATER = ["node24", "node26"];

const TESTED = RUNTIMES.filter(({ name }) => !LATER.includes(name));

/** Runs tests on every runtime, two at a time. */
async function runEverywhere(bundled: string): Promise<ReadonlyMap<string, SuiteResult>> {
  const results = new Map<string, SuiteResult>();
  const waiting = [DENO, ...TESTED];
  const lane = async () => {
    for (let one = waiting.shift(); one; one = waiting.shift()) {
      results.set(one.name, await runSuite(one, bundled));
    }
  };
  await Promise.all([lane(), lane()]);
  return results;
}

for (const name of PURE) {
  Deno.test(`all runtimes: all tests of ${name} pass that pass on Deno`, async (t) => {
    const bundled = await bundleSuite(name, folder);
    const results = await runEverywhere(bundled);
    const onDeno = results.get(DENO.name)!;
    assert(onDeno.passed.length > 10);
    assertEquals(onDeno.failed, []);
    for (const { name: runtime } of TESTED) {
      await t.step(runtime, () => {
        const { passed, failed } = results.get(runtime)!;
        const allowed = ({ name }: { readonly name: string }) => runtime === "workerd" && name === BY_AJV;
        assertEquals(failed.filter((one) => !allowed(one)), []);
        assertEquals(new Set([...passed, ...failed.map(({ name }) => name)]), new Set(onDeno.passed));
      });
    }
  });
}

Deno.test("all runtimes: the same conversations give the same bytes as on Deno, by every mechanism", async () => {
  const bundled = await bundle(
    [fromFileUrl(new URL("./same_bytes.ts", import.meta.url))],
    join(folder, "same_bytes.mjs"),
  );
  const output = async (runtime: Runtime) =>
    (await runtime.runMain(bundled)).output.match(/\d+ bytes, SHA-256 .*/)?.[0];
  const onDeno = await output(DENO);
  assert(Number.parseInt(onDeno ?? "") > 1_000_000);
  for (const runtime of RUNTIMES) assertEquals([runtime.name, await output(runtime)], [runtime.name, onDeno]);
});
