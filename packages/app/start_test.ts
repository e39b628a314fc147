import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { startProcess } from "./server_process_fixture_test.ts";

Deno.test("start.ts starts a server that answers, and ends it when it is told to end", async () => {
  const folder = await Deno.makeTempDir();
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    const server = await startProcess([
      ...["--port", "0", "--workspace", folder],
      ...["--data", join(folder, "data")],
    ]);
    assertEquals((await (await fetch(`${server.url}/health`)).json()).status, "ok");
    const session = await fetch(`${server.url}/tare/v1/sessions`, { method: "POST" });
    assertEquals([session.status, (await session.json()).status], [201, "idle"]);
    const { code, stderr } = await server.end(signal);
    assertEquals([code, stderr], [0, ""]);
  }
  await Deno.remove(folder, { recursive: true });
});
