import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { RUNTIMES } from "./runtimes.ts";
import { bundleFileSuite, runSuite } from "./suite.ts";

/** Tests that use only files of Deno. Tests of processes and locks start Deno itself. */
const SUITES: Readonly<Record<string, readonly string[]>> = {
  tools: ["tools/files", "tools/search"],
  conversation: [
    "session/store/memory_store_test.ts",
    "session/store/file_archive_test.ts",
    "session/store/sqlite/open_store_test.ts",
    "session/store/sqlite/stored_json_test.ts",
  ],
};

for (const [name, paths] of Object.entries(SUITES)) {
  // Node 22 doesn't support `using`, which the tests use.
  for (const runtime of RUNTIMES.filter(({ name }) => ["node24", "node26", "bun"].includes(name))) {
    Deno.test(`${runtime.name}: the tests of ${name} on files pass`, async () => {
      const folder = await Deno.makeTempDir();
      try {
        const { passed, failed } = await runSuite(
          runtime,
          await bundleFileSuite(paths, join(folder, "suite.mjs")),
        );
        assertEquals(failed, []);
        assert(passed.length > 50);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    });
  }
}
