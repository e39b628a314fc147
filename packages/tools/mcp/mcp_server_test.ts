import { assertEquals } from "@std/assert";
import { type McpSdk, mcpServers } from "@tare/tools/mcp";

/** Returns an MCP server in this process: its tools, and its notifications. */
function fakeServer() {
  const state = { tools: ["first"], changed: () => {} };
  const sdk: McpSdk = {
    Client: class {
      connect(transport: { onmessage?: (message: unknown) => void }) {
        transport.onmessage = () => {};
        state.changed = () => transport.onmessage!({ method: "notifications/tools/list_changed" });
        return Promise.resolve();
      }
      request() {
        const tools = state.tools.map((name) => ({ name, inputSchema: { type: "object" } }));
        return Promise.resolve({ tools });
      }
      close() {
        return Promise.resolve();
      }
    },
    StreamableHTTPClientTransport: class {
      terminateSession() {
        return Promise.resolve();
      }
    },
  };
  return { state, sdk };
}

Deno.test("mcpServers() lists tools again that change during an earlier listing", async () => {
  const { setTimeout } = globalThis;
  for (const steps of [0, 1, 2, 3, 4, 5]) {
    const { state, sdk } = fakeServer();
    const servers = mcpServers([{ name: "s", by: "http", url: "http://127.0.0.1:9/", headers: {} }], {
      cwd: "/",
      sdk: () => Promise.resolve(sdk),
    });
    const names = async () =>
      (await servers.take(["s"])).tools.map(({ definition }) => definition.function.name);
    servers.start();
    assertEquals(await names(), ["s__first"]);
    state.tools = ["second"];
    const after = Promise.withResolvers<readonly string[]>();
    // The list changes again this many steps after the pause between two listings.
    globalThis.setTimeout = ((work: () => void, ms = 0) =>
      setTimeout(async () => {
        work();
        if (ms !== 200 || state.tools[0] === "third") return;
        for (let step = 0; step < steps; step++) await undefined;
        state.tools = ["third"];
        state.changed();
        after.resolve(names());
      }, ms === 200 ? 0 : ms)) as typeof setTimeout;
    try {
      state.changed();
      assertEquals([steps, await after.promise], [steps, ["s__third"]]);
    } finally {
      globalThis.setTimeout = setTimeout;
      await servers.close();
    }
  }
});
