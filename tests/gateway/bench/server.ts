/**
 * The gateway of `bench:gateway`, in a process of its own, as it is deployed: with a store on the disk and exact token
 * counts. Takes the upstream's base URL, and `off` if it shall keep nothing of conversations; prints its port.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { join } from "@std/path";
import { gateway } from "@tare/gateway";
import { sampledCount } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { agentHandler } from "@tare/server";
import { openStore } from "@tare/conversation/sqlite";

const [baseURL, keeps] = Deno.args;
if (!baseURL) throw new RangeError("Cannot start the gateway: no base URL of an upstream is given");
const folder = await Deno.makeTempDir();
const store = await openStore(join(folder, "bench.sqlite"));
const tokenizer = await loadTokenizer();
const settings = {
  countTokens: () => Promise.resolve(sampledCount(tokenizer.count)),
  onError: (error: unknown) => console.error(error),
};
const rules = { profile: profileNamed("openai"), windowTokens: 272_000 };
const upstream = { ...rules, baseURL };
const passing = gateway({
  ...settings,
  upstreams: { chat: upstream, responses: upstream },
  ...(keeps !== "off" && { store }),
});
const agent = agentHandler({
  ...settings,
  ...rules,
  model: () => {
    throw new Error("only the gateway is measured");
  },
  defaultModel: "none",
  tools: [],
  store,
  gateway: passing,
});
const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, agent.fetch);
console.log(server.addr.port);
// The bench closes the input when it is done.
for await (const _ of Deno.stdin.readable) { /* Nothing is said. */ }
await server.shutdown();
await passing.close();
await agent.close();
await store.close();
await Deno.remove(folder, { recursive: true });
