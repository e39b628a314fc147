import { assertEquals } from "@std/assert";
import { coverageFaults } from "./coverage_faults.ts";

Deno.test("coverageFaults() reports packages with too few covered lines, including unloaded files", () => {
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
    "Most uncovered lines: packages/b/a.ts 5, packages/b/unloaded.ts 2.",
  ]);
});

Deno.test("coverageFaults() counts a line as covered if any report does", () => {
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
    "Tests run 66.6 % of the lines of a, less than 95 %. Most uncovered lines: packages/a/b.tsx 1.",
  ]);
});
