import { assert, assertEquals } from "@std/assert";

const root = new URL("../", import.meta.url);

Deno.test("docs/mechanisms.md names tests that exist", async () => {
  const text = await Deno.readTextFile(new URL("docs/mechanisms.md", root));
  const rows = [...text.matchAll(/^\|[^|]+\| `(\S+_test\.ts)` +\| `([^`|]+)` +\|$/gm)];
  assert(rows.length > 0);
  // No row that was meant to name a test is overlooked.
  assertEquals(rows.length, text.match(/_test\.ts/g)?.length);
  const missing: string[] = [];
  for (const [, path = "", name = ""] of rows) {
    const code = await Deno.readTextFile(new URL(path, root)).catch(() => "");
    if (!code.includes(JSON.stringify(name))) missing.push(`${path}: ${name}`);
  }
  assertEquals(missing, []);
});
