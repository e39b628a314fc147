import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { startProcess } from "./server_process_fixture_test.ts";

Deno.test("start.ts starts a server that answers, and ends it on a signal", async () => {
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

Deno.test("start.ts installs no package that only tests import", async () => {
  const app = new URL("./", import.meta.url);
  const config = new URL("../../deno.json", app);
  // A task installs its lock file, whatever it runs.
  const { npm } = JSON.parse(await Deno.readTextFile(new URL("deno.lock", config)));
  const modules = ["start.ts", "main.ts"].map((name) => fromFileUrl(new URL(name, app)));
  const graphs = await Promise.all(modules.map(async (module) => {
    const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json", module] }).output();
    return JSON.parse(new TextDecoder().decode(stdout));
  }));
  for (const { modules, npmPackages } of graphs) {
    assert(modules.length > 100 && !modules.some(({ error }: { readonly error?: string }) => error));
    for (const installed of [Object.keys(npm), Object.keys(npmPackages)]) {
      const names = installed.map((name) => name.slice(0, name.indexOf("@", 1)));
      assert(names.includes("openai"));
      assertEquals(names.filter((name) => ["ajv", "fast-check", "@xterm/headless"].includes(name)), []);
    }
  }
});
