import { assertEquals } from "@std/assert";
import { coverageFaults, sourceFaults } from "./source_rules.ts";

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

Deno.test("coverageFaults() names packages of which tests run too few lines, never loaded files included", () => {
  const section = (path: string, hit: number, missed: number) =>
    [
      `SF:/repo/${path}`,
      ...Array.from({ length: hit }, (_, line) => `DA:${line + 1},2`),
      ...Array.from({ length: missed }, (_, line) => `DA:${hit + line + 1},0`),
      "end_of_record",
    ].join("\n");
  const lcov = [
    section("packages/a/a.ts", 95, 5),
    section("packages/b/a.ts", 80, 5),
    section("packages/b/b.ts", 10, 0),
    section("packages/b/a_test.ts", 1000, 0),
  ].join("\n");
  const files = [
    { path: "packages/a/a.ts", text: "" },
    { path: "packages/a/types.ts", text: "/** f => g */\nexport type F = (a: string) => void;\n" },
    { path: "packages/a/data.ts", text: "export const LIMIT = 3;\n" },
    { path: "packages/b/a.ts", text: "" },
    { path: "packages/b/b.ts", text: "" },
    { path: "packages/b/a_test.ts", text: "" },
    { path: "packages/b/program.ts", text: "function main() {\n}\nDeno.exit(main());\n" },
    { path: "packages/b/unloaded.ts", text: "export function f() {\n}\n" },
  ];
  const programs = new Set(["packages/b/program.ts"]);
  assertEquals(coverageFaults(files, { lcov, root: "/repo/", programs }), [
    "Tests run 92.7 % of the lines of b, less than 95 %. " +
    "Left out most: packages/b/a.ts 5, packages/b/unloaded.ts 2.",
  ]);
});

Deno.test("coverageFaults() takes a line for run if any report says so: browsers tell of each page by itself", () => {
  const lcov = [
    "SF:/repo/packages/a/a.tsx",
    "DA:1,1",
    "DA:2,0",
    "SF:/repo/packages/a/a.tsx",
    "DA:1,0",
    "DA:2,3",
  ];
  const files = [{ path: "packages/a/a.tsx", text: "" }, {
    path: "packages/a/b.tsx",
    text: "const f = () => 1;\n",
  }];
  const rules = { lcov: lcov.join("\n"), root: "/repo/", programs: new Set<string>() };
  assertEquals(coverageFaults(files.slice(0, 1), rules), []);
  assertEquals(coverageFaults(files, rules), [
    "Tests run 66.6 % of the lines of a, less than 95 %. Left out most: packages/a/b.tsx 1.",
  ]);
});
