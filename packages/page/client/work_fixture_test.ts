import { gateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { openStore } from "@tare/session/sqlite";

const DAY_MS = 24 * 60 * 60_000;
const MINUTE_MS = 60_000;

const read = (id: string, path: string, lines: number) => [
  {
    role: "assistant",
    content: null,
    tool_calls: [{
      id,
      type: "function",
      function: { name: "read_file", arguments: JSON.stringify({ path }) },
    }],
  },
  { role: "tool", tool_call_id: id, content: `A line of ${path}.\n`.repeat(lines) },
];

export const TOOLS = [{
  type: "function",
  function: { name: "read_file", description: "Reads.", parameters: { type: "object", properties: {} } },
}];

export const USER = { role: "user", content: "Fix the parser." };

export const RESULTS = [
  ...read("1", "notes.md", 20),
  ...read("2", "src/parser.ts", 900),
  ...read("3", "a.ts", 40),
];

/** Records the work of another agent on days before today, with an expired cache and an unpriced model. */
export async function workOnDays(
  data: string,
  days: readonly number[],
  agent = "some-agent",
): Promise<void> {
  for (const [at, daysAgo] of days.entries()) await workOnDay(data, { daysAgo, agent, size: at + 1 });
}

async function workOnDay(
  data: string,
  { daysAgo, agent, size }: { readonly daysAgo: number; readonly agent: string; readonly size: number },
): Promise<void> {
  let nowMs = Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2 - daysAgo * DAY_MS;
  let cachedTokens = 0;
  const store = await openStore(`${data}/tare.db`);
  const forwarding = gateway({
    upstreams: {
      chat: {
        baseURL: "http://provider.example/v1",
        profile: profileNamed("anthropic-5m"),
        price: (model) =>
          model === "some-model" ? { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 } : undefined,
        windowTokens: 200_000,
      },
    },
    countTokens: () => Promise.resolve(estimateTokens),
    store,
    // No request leaves the process; the fake provider replies.
    planning: { mechanisms: { context: false, prune: false } },
    retention: { waitMs: 60_000 },
    now: () => nowMs,
    fetch: async (...args) => {
      const promptTokens = Math.ceil((await new Request(...args).text()).length / 4);
      const usage = {
        prompt_tokens: promptTokens,
        completion_tokens: 20,
        prompt_tokens_details: { cached_tokens: Math.min(cachedTokens, promptTokens) },
      };
      cachedTokens = promptTokens;
      const choices = [{ index: 0, message: { role: "assistant", content: "Well." }, finish_reason: "stop" }];
      return Response.json({ object: "chat.completion", choices, usage });
    },
  });
  const ask = async (messages: readonly object[], model = "some-model") => {
    const headers = { "content-type": "application/json", "user-agent": `${agent}/1.0` };
    const body = JSON.stringify({ model, messages, tools: TOOLS });
    const request = new Request("http://localhost/v1/chat/completions", { method: "POST", headers, body });
    await (await forwarding.fetch(request)!).text();
    nowMs += MINUTE_MS;
  };
  const user = daysAgo === 1 && agent === "some-agent"
    ? USER
    : { role: "user", content: `Fix part ${daysAgo} for ${agent}.` };
  await ask([user]);
  await ask([user, ...RESULTS.slice(0, 2)]);
  await ask([user, ...RESULTS.slice(0, 4)]);
  nowMs += 30 * MINUTE_MS;
  cachedTokens = 0;
  await ask([user, ...RESULTS]);
  for (let more = 1; more < size % 4; more++) {
    await ask([user, ...RESULTS, { role: "user", content: `Continue with part ${more}.` }]);
  }
  await ask([{ role: "user", content: "What is the time, if I may ask?" }], "model-without-price");
  await forwarding.close();
  await store.close();
}
