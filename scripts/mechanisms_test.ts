import { assert, assertEquals } from "@std/assert";

const root = new URL("../", import.meta.url);

Deno.test("tests/mechanisms.md: every named test exists", async () => {
  const text = await Deno.readTextFile(new URL("tests/mechanisms.md", root));
  const rows = [...text.matchAll(/^\|[^|]+\| `(\S+_test\.ts)` +\| `([^`|]+)` +\|$/gm)];
  assert(rows.length > 0);
  // Every line with a test file is parsed as a row.
  assertEquals(rows.length, text.match(/_test\.ts/g)?.length);
  const missing: string[] = [];
  for (const [, path = "", name = ""] of rows) {
    const code = await Deno.readTextFile(new URL(path, root)).catch(() => "");
    if (!code.includes(JSON.stringify(name))) missing.push(`${path}: ${name}`);
  }
  assertEquals(missing, []);
});
