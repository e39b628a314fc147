import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("export.ts writes a session to standard output, and reports an unknown session", async () => {
  await withTransferServer(async ({ url, client, session, env }) => {
    const written = await runEntry("export", [session], env);
    assertEquals([written.code, written.err], [0, ""]);
    assertEquals(written.out, await new Response(await client.exportSession(session)).text());
    const roles = written.out.trimEnd().split("\n").map((line) => JSON.parse(line).role);
    assertEquals(roles.slice(0, 2), ["system", "user"]);
    assertEquals(await runEntry("export", ["--url", url, session], { ...env, TARE_PORT: "1" }), written);
    assertEquals(await runEntry("export", ["none"], env), {
      code: 1,
      out: "",
      err: "Cannot find session none: there is no such session.\n",
    });
  });
});

Deno.test("export.ts --html writes a session as a page", async () => {
  await withTransferServer(async ({ folder, session, env }) => {
    const path = join(folder, "said.html");
    assertEquals(await runEntry("export", ["--html", "said.html", session], env), {
      code: 0,
      out: "",
      err: `Wrote ${path}. It contains all messages and tool results.\n`,
    });
    const html = await Deno.readTextFile(path);
    assertEquals(html.startsWith("<!DOCTYPE html>"), true);
    assertStringIncludes(
      html,
      '<article class="user" aria-label="User"><p class="plain" dir="auto">Hello?</p>',
    );
    assertEquals((await runEntry("export", ["--html", "none.html", "none"], env)).code, 1);
    assertEquals(await Deno.stat(join(folder, "none.html")).catch(() => undefined), undefined);
  });
});

Deno.test("export.ts prints its usage without a session", async () => {
  const { code, err } = await runEntry("export", []);
  assertEquals(code, 2);
  assertStringIncludes(err, "deno task export [--url URL] [--html FILE] ID");
  assertEquals((await runEntry("export", ["--help"])).code, 0);
});
