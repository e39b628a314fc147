import type { Message } from "@tare/messages";
import { type Edit, profileNamed } from "@tare/planner";
import type { Plan } from "./plan.ts";
import { Planner } from "./planner.ts";
import { memoryArchive } from "@tare/prune";

const MESSAGES = 400;
const TOKENS_EACH = 500;

/** A session of 200,000 tokens in 400 messages, of which half are results; a user message each 40. */
function session(): Message[] {
  const messages: Message[] = [];
  for (let at = 0; messages.length < MESSAGES; at++) {
    if (at % 20 === 0) messages.push({ role: "user", content: text(at) });
    const call = {
      id: `${at}`,
      type: "function" as const,
      function: { name: "read", arguments: `{"n":${at}}` },
    };
    messages.push({ role: "assistant", content: text(at).slice(0, 400), tool_calls: [call] });
    messages.push({ role: "tool", tool_call_id: `${at}`, content: text(at + 1000) });
  }
  return messages;
}

/** Code-like text of so many tokens, at four characters each. */
function text(seed: number): string {
  let all = "";
  for (let at = 0; all.length < 4 * TOKENS_EACH; at++) {
    all += `const someName${seed}_${at % 40} = otherModule.method${(seed * 7 + at) % 90}(argument${at});\n`;
  }
  return all;
}

const countTokens = (text: string) => Math.ceil(text.length / 4);

/** A planner that has seen the session up to its last call, and that call's request. */
async function prepared(profile: string) {
  const messages = session();
  const planner = new Planner({
    profile: profileNamed(profile),
    countTokens,
    archive: memoryArchive(),
  });
  const edits: Edit[] = [];
  let nowMs = 0;
  let plan: Plan | undefined;
  for (let length = 1; length < MESSAGES - 1; length++) {
    if (messages[length]?.role !== "assistant") continue;
    plan = await planner.plan({ messages: messages.slice(0, length), tools: [], edits, nowMs, recall: true });
    edits.push(...plan.edits);
    planner.sent(plan);
    nowMs += 10_000;
  }
  return { planner, request: { messages: messages.slice(0, -1), tools: [], edits, nowMs, recall: true } };
}

const warm = await prepared("anthropic-5m");
Deno.bench("plan() of a warm call that waits", async () => {
  await warm.planner.plan(warm.request);
});

const none = await prepared("none");
Deno.bench("plan() of a call that elides what is new, without a cache", async () => {
  await none.planner.plan(none.request);
});

const { request } = await prepared("anthropic-5m");
Deno.bench("plan() of a resumed session, cold and without its state: everything old goes", async () => {
  const planner = new Planner({ profile: profileNamed("deepseek"), countTokens, archive: memoryArchive() });
  await planner.plan({ ...request, edits: [] });
});

const ledger = await prepared("anthropic-5m");
const last = await ledger.planner.plan(ledger.request);
Deno.bench("sent()", () => {
  ledger.planner.sent(last);
});
