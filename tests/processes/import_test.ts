import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("import.ts imports sessions from a file, and prints their ids", async () => {
  await withTransferServer(async ({ folder, client, session, env }) => {
    const exported = async (id: string) => await new Response(await client.exportSession(id)).text();
    const text = await exported(session);
    await Deno.writeTextFile(join(folder, "session.jsonl"), text);
    const one = await runEntry("import", ["session.jsonl"], env);
    assertEquals([one.code, one.err], [0, ""]);
    assertEquals(await exported(one.out.trimEnd()), text);

    const recorded = (content: string) => `{"messages":[{"role":"user","content":"${content}","ts":1}]}\n`;
    await Deno.writeTextFile(join(folder, "recorded.jsonl"), recorded("a") + recorded("b"));
    const two = await runEntry("import", [join(folder, "recorded.jsonl")], env);
    const copies = await Promise.all(two.out.trimEnd().split("\n").map(exported));
    assertEquals(copies, ['{"role":"user","content":"a"}\n', '{"role":"user","content":"b"}\n']);
  });
});

Deno.test("import.ts reports invalid lines and imports nothing of their file", async () => {
  await withTransferServer(async ({ folder, env }) => {
    await Deno.writeTextFile(join(folder, "bad.jsonl"), '{"role":"user","content":"q"}\n3\n');
    assertEquals(await runEntry("import", ["bad.jsonl"], env), {
      code: 1,
      out: "",
      err: "Cannot import: line 2: it isn't a JSON object. Nothing was imported.\n",
    });
    const gone = await runEntry("import", ["gone.jsonl"], env);
    assertEquals([gone.code, gone.out], [1, ""]);
    assertStringIncludes(gone.err, "gone.jsonl");
  });
});

Deno.test("import.ts prints its usage without a file", async () => {
  const { code, err } = await runEntry("import", []);
  assertEquals(code, 2);
  assertStringIncludes(err, "deno task import [--url URL] FILE");
  assertEquals((await runEntry("import", ["--help"])).code, 0);
});
