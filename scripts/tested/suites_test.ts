import { assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { sourceFiles } from "../repository.ts";
import { SUITES } from "./suites.ts";

Deno.test("SUITES run each test file in exactly one suite", async () => {
  const excluded = [
    ...config.exclude,
    ...config.test.include.filter((path) => path.startsWith("!")).map((path) => path.slice(1)),
  ];
  const isIn = (path: string, folder: string) => path.startsWith(`${folder}/`);
  const folders: string[] = [];
  for (const [name, { commands }] of Object.entries(SUITES)) {
    // These two run files of other suites in another way.
    if (name === "examples" || name === "properties") continue;
    const args = (await commands()).flatMap(({ args }) => args[0] === "test" ? args : []);
    folders.push(...args.filter((arg) => /^(tests|packages|scripts)\//.test(arg) && !arg.endsWith(".json")));
  }
  const wrong = (await sourceFiles()).map(({ path }) => path).filter((path) => {
    if (!path.endsWith("_test.ts") || path.endsWith("_fixture_test.ts")) return false;
    const isFast = !excluded.some((folder) => isIn(path, folder));
    return folders.filter((folder) => isIn(path, folder)).length !== (isFast ? 0 : 1);
  });
  assertEquals(wrong, []);
});
