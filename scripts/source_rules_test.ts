import { assertEquals } from "@std/assert";
import { sourceFaults } from "./source_rules.ts";

Deno.test("sourceFaults() names files that are too long, wherever they are", () => {
  const at = (lines: number) => "const x = 1;\n".repeat(lines);
  assertEquals(
    sourceFaults([{ path: "scripts/ok.ts", text: at(400) }, { path: "tests/long_test.ts", text: at(401) }]),
    ["tests/long_test.ts has 401 lines: split it, 400 are the limit."],
  );
});

Deno.test("sourceFaults() wants a test beside behaviour, and none beside types, data and re-exports", () => {
  const files = {
    "packages/a/mod.ts": 'export * from "./f.ts";\n',
    "packages/a/data.ts": "export const LIMIT = 3;\n",
    "packages/a/types.ts": "/** f => g */\nexport type F = (a: string) => void;\n" +
      "export interface I {\n  f(): void;\n  g: () => void;\n}\n",
    "packages/a/f.ts": "export function f() {}\n",
    "packages/a/g.ts": "export const g = (a: string): string => a;\n",
    "packages/a/g_test.ts": "",
    "packages/a/h_bench.ts": "function h() {}\n",
  };
  assertEquals(sourceFaults(Object.entries(files).map(([path, text]) => ({ path, text }))), [
    "packages/a/f.ts has behaviour but no packages/a/f_test.ts beside it.",
  ]);
});
