import { assertEquals } from "@std/assert";
import { readFrontMatter } from "./front_matter.ts";

Deno.test("readFrontMatter() parts a file from its head", async () => {
  assertEquals(
    await readFrontMatter('---\nname: "a"\nlist: [1]\ndescription: >\n  one\n  two\n---\nBody\n---\n'),
    {
      fields: { name: "a", description: "one two\n" },
      body: "Body\n---\n",
    },
  );
  assertEquals(await readFrontMatter("---\n---\nBody"), { fields: {}, body: "Body" });
  for (const text of ["Body", "", "---\nname: a\n", "\n---\nname: a\n---\n"]) {
    assertEquals(await readFrontMatter(text), { fields: {}, body: text });
  }
});

Deno.test("readFrontMatter() takes lines for what they say where they aren't YAML", async () => {
  const text = "---\r\nname: b\r\ndescription: Use it: often\r\n---\r\nBody";
  assertEquals(await readFrontMatter(text), {
    fields: { name: "b", description: "Use it: often" },
    body: "Body",
  });
  assertEquals((await readFrontMatter("---\n- a\n---\n")).fields, {});
});
