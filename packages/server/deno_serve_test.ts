// deno-lint-ignore-file no-console
import { assertEquals } from "@std/assert";
import { Keys } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { agent, scriptedModel } from "./fixture_test.ts";

Deno.test("agentHandler() served by Deno.serve answers without a warning of the runtime", async () => {
  const { warn } = console;
  const warnings: unknown[] = [];
  console.warn = (...message) => warnings.push(message);
  const store = memoryStore();
  const keys = new Keys({ store, owners: ["secret"] });
  const model = scriptedModel([{ content: "a" }, { content: "b" }]);
  const { fetch } = agent(model, { store, keys, hosts: ["127.0.0.1"] });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => fetch(request));
  const send = async (method: string, path: string, body?: object) => {
    const response = await globalThis.fetch(`http://127.0.0.1:${server.addr.port}${path}`, {
      method,
      headers: { "content-type": "application/json", authorization: "Bearer secret" },
      ...(body && { body: JSON.stringify(body) }),
    });
    await response.text();
    return response.status;
  };
  const question = { model: "agent", messages: [{ role: "user", content: "q" }] };
  try {
    assertEquals(await send("POST", "/v1/chat/completions", question), 200);
    assertEquals(await send("POST", "/v1/chat/completions", { ...question, stream: true }), 200);
    assertEquals(await send("GET", "/tare/v1/spend"), 200);
    await server.shutdown();
    assertEquals(warnings, []);
  } finally {
    console.warn = warn;
  }
});
