import { assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";

const MAIN = fromFileUrl(new URL("main.ts", import.meta.url));

Deno.test("main.ts reports why it can't start", async () => {
  const data = await Deno.makeTempDir();
  const taken = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response());
  const { port } = taken.addr;
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "-A", MAIN, "--port", String(port), "--data", join(data, "sessions")],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals([code, new TextDecoder().decode(stdout), new TextDecoder().decode(stderr)], [
    1,
    "",
    `Cannot start: TARE_HOST is "127.0.0.1" and TARE_PORT is ${port}: another program listens there. Set TARE_PORT to ` +
    "another port, or to 0 for a free one.\n",
  ]);
  await taken.shutdown();
  await Deno.remove(data, { recursive: true });
});
