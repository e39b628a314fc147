import { assert, assertEquals } from "@std/assert";
import { gateway } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import { simulator, toolCall } from "@tare/simulator";

const CALLS = 60;
const tokenizer = { encode: (text: string) => text.split(" ").map((word) => word.length) };
const words = (tokens: number, word: string) => Array.from({ length: tokens }, () => word).join(" ");

/** Cache breakpoints of a client: on its last tool and its instructions, or none. */
type Breakpoints = "5m" | "1h" | "none";

function request(messages: readonly object[], ttl: Breakpoints): Request {
  const mark = ttl !== "none" && { cache_control: { type: "ephemeral", ...(ttl === "1h" && { ttl }) } };
  const tool = { name: "read", description: words(900, "d"), input_schema: { type: "object" } };
  return new Request("http://provider/v1/messages", {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": "key", "anthropic-version": "2023-06-01" },
    body: JSON.stringify({
      model: "claude-sonnet-5",
      max_tokens: 8_192,
      system: [{ type: "text", text: words(2_400, "rule"), ...mark }],
      tools: [{ ...tool, name: "list" }, { ...tool, ...mark }],
      messages,
    }),
  });
}

/** Returns the cached share of such a client's prompts in 60 calls, and its writes for an hour. */
async function played(
  { throughTare, ttl = "5m", evict, baseURL = "http://provider/v1" }: {
    readonly throughTare: boolean;
    readonly ttl?: Breakpoints;
    readonly evict?: "lossless";
    readonly baseURL?: string;
  },
) {
  let nowMs = 0;
  const provider = simulator({
    model: ({ messages }) => ({
      tool_calls: [toolCall("read", { path: `${messages.length}.ts` }, { id: `c${messages.length}` })],
    }),
    tokenizer,
    profile: profileNamed("anthropic-5m"),
    now: () => nowMs,
  });
  const fetchFrom = (...args: Parameters<typeof fetch>) => provider.fetch(new Request(...args));
  const { fetch: passed } = gateway({
    upstreams: { messages: { baseURL, profile: profileNamed("anthropic-5m") } },
    fetch: fetchFrom,
    planning: { ...(evict && { evict }) },
    countTokens: () => Promise.resolve((text) => tokenizer.encode(text).length),
    now: () => nowMs,
  });
  const messages: object[] = [{ role: "user", content: "Mend it." }];
  for (let call = 0; call < CALLS; call++) {
    nowMs += 20_000;
    const sent = request(messages, ttl);
    const response = await (throughTare ? passed(sent) : fetchFrom(sent));
    const { content, error } = await response?.json();
    assertEquals(error, undefined);
    const results = content.map(({ id }: { readonly id: string }) => ({
      type: "tool_result",
      tool_use_id: id,
      content: words(500, `r${call}`),
    }));
    messages.push({ role: "assistant", content }, { role: "user", content: results });
  }
  assertEquals([provider.requests.length, provider.requests.filter(({ status }) => status !== 200)], [
    CALLS,
    [],
  ]);
  const sum = (figure: (call: typeof provider.requests[number]) => number) =>
    provider.requests.reduce((total, call) => total + figure(call), 0);
  return {
    share: sum(({ cachedTokens }) => cachedTokens) / sum(({ promptTokens }) => promptTokens),
    hourTokens: sum(({ hourWriteTokens = 0 }) => hourWriteTokens),
  };
}

Deno.test("cache breakpoints: a client that marks only tools and instructions has its whole conversation cached through Tare", async () => {
  const straight = await played({ throughTare: false });
  const whole = await played({ throughTare: true, evict: "lossless" });
  const planned = await played({ throughTare: true });
  assert(straight.share < 0.25, `straight: ${straight.share}`);
  assert(whole.share >= 0.85, `lossless: ${whole.share}`);
  assert(planned.share >= 0.85, `planned: ${planned.share}`);
});

Deno.test("cache breakpoints: those added after a client's for an hour have the shortest lifetime", async () => {
  const { share, hourTokens } = await played({ throughTare: true, ttl: "1h", evict: "lossless" });
  const straight = await played({ throughTare: false, ttl: "1h" });
  // Except for the tool that is offered next to the client's own.
  assert(
    hourTokens - straight.hourTokens < 100,
    `${hourTokens} for an hour, straight ${straight.hourTokens}`,
  );
  assert(share >= 0.85, `${share}`);
});

Deno.test("cache breakpoints: a client without any gets them if nothing else is cached, and none if that is unknown", async () => {
  const own = { throughTare: true, ttl: "none" } as const;
  const known = await played({ ...own, baseURL: "https://api.anthropic.com/v1" });
  assert(known.share >= 0.85, `${known.share}`);
  assertEquals((await played(own)).share, 0);
});
