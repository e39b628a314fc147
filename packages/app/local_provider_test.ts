import { assertEquals } from "@std/assert";
import { once } from "node:events";
import { readSettings } from "./settings/settings.ts";
import { startServer } from "./compose.ts";

async function reportedProfile(
  models: (request: Request) => Response | Promise<Response>,
): Promise<string | undefined> {
  const requests: string[] = [];
  const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    requests.push(new URL(request.url).pathname);
    return models(request);
  });
  const data = await Deno.makeTempDir();
  const environment = { OPENAI_BASE_URL: `http://127.0.0.1:${provider.addr.port}/v1`, TARE_MODEL: "qwen3" };
  try {
    const server = await startServer(readSettings(["--port", "0", "--data", data], environment), () => {});
    await server.close();
    assertEquals(requests, ["/v1/models"]);
    return /^profile +(.*)$/m.exec(server.greeting)?.[1];
  } finally {
    await provider.shutdown();
    await Deno.remove(data, { recursive: true });
  }
}

const listed = (owned_by: string) => () =>
  Response.json({ object: "list", data: [{ id: "qwen3", object: "model", owned_by }] });

Deno.test("startServer() detects a local server by its model list, on any port", async () => {
  assertEquals([await reportedProfile(listed("llamacpp")), await reportedProfile(listed("vllm"))], [
    "local",
    "local",
  ]);
  assertEquals([await reportedProfile(listed("somebody")), await reportedProfile(() => new Response("no"))], [
    "none",
    "none",
  ]);
});

Deno.test("startServer() starts while a provider doesn't answer", async () => {
  const silent = async ({ signal }: Request) => {
    await once(signal, "abort");
    return new Response();
  };
  assertEquals(await reportedProfile(silent), "none");
});

Deno.test("startServer() waits for a provider as long after its process was suspended", async () => {
  const profile = await reportedProfile(() => {
    const since = performance.now();
    while (performance.now() - since < 1_200) { /* Nothing else is done. */ }
    return listed("vllm")();
  });
  assertEquals(profile, "local");
});
