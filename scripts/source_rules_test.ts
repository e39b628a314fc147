import { assertEquals } from "@std/assert";
import { sourceFaults } from "./source_rules.ts";

function faults(files: Readonly<Record<string, string>>): string[] {
  const list = Object.entries(files).map(([path, text]) => ({ path, text }));
  return sourceFaults(list, { entries: new Set(["packages/a/main.ts"]) });
}

const LONG = "const x = 1;\n".repeat(40);

Deno.test("sourceFaults() names files that are too long, wherever they are", () => {
  const at = (lines: number) => "const x = 1;\n".repeat(lines);
  assertEquals(faults({ "scripts/ok.ts": at(400), "tests/long_test.ts": at(401) }), [
    "tests/long_test.ts has 401 lines: split it, 400 are the limit.",
  ]);
});

Deno.test("sourceFaults() wants two importers of a small file, tests apart", () => {
  assertEquals(
    faults({
      "packages/a/mod.ts": 'export * from "./public.ts";\n',
      "packages/a/main.ts": 'import "./one.ts";\nimport { type A } from "./deep/two.ts";\n',
      "packages/a/public.ts": 'import "./deep/two.ts";\nawait import("./three.ts");\n',
      "packages/a/public_test.ts": 'import "./public.ts";\nimport "./one.ts";\n',
      "packages/a/one.ts": 'new URL("program.ts", import.meta.url);\n',
      "packages/a/program.ts": "",
      "packages/a/one_bench.ts": "",
      "packages/a/deep/two.ts": "export type A = 1;\n",
      "packages/a/three.ts": 'import {\n  a,\n} from "./long.ts";\n',
      "packages/a/long.ts": LONG,
      "tests/help.ts": "",
      "tests/a_test.ts": 'import "./help.ts";\nimport "./lone.ts";\n',
      "tests/b_test.ts": 'import "./help.ts";\n',
      "tests/lone.ts": "",
    }),
    [
      "packages/a/public.ts has 2 lines and only packages/a/mod.ts imports it: a file wants 40 lines or two importers.",
      "packages/a/one.ts has 1 lines and only packages/a/main.ts imports it: a file wants 40 lines or two importers.",
      "packages/a/three.ts has 3 lines and only packages/a/public.ts imports it: a file wants 40 lines or two importers.",
      "tests/lone.ts has 0 lines and only tests/a_test.ts imports it: a file wants 40 lines or two importers.",
    ],
  );
});

Deno.test("sourceFaults() names folders of too many source files", () => {
  const files = (count: number) =>
    Object.fromEntries([
      ...Array.from({ length: count }, (_, at) => [`packages/a/x/f${at}.ts`, LONG]),
      ["packages/a/x/f0_test.ts", ""],
      ["packages/a/x/y/f.ts", LONG],
    ]);
  assertEquals(faults(files(16)), []);
  assertEquals(faults(files(17)), ["packages/a/x has 17 source files: give it folders, 16 are the limit."]);
});
