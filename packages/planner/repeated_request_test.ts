import { assert, assertEquals } from "@std/assert";
import { countRequestTokens, estimateTokens, type Message, type Tool } from "@tare/messages";
import { plannerSession, profileNamed, type PromptSession, type SessionView } from "@tare/planner";
import { classicSession } from "./classic/classic_session.ts";
import { memoryArchive } from "@tare/prune";

const log: Tool = {
  definition: { type: "function", function: { name: "log", description: "Reads a log. ".repeat(200) } },
  run: () => "",
};

const WINDOW_TOKENS = 12_000;

/** Returns the views of a turn of two requests, each after this many failures. */
async function play(makeSession: typeof classicSession, failures: number) {
  const archive = memoryArchive();
  let session: PromptSession | undefined;
  let messages: Message[] = [];
  let nowMs = 0;
  const seen: unknown[] = [];
  const text = (turn: number) =>
    Array.from({ length: 600 }, (_, line) => `GET /${turn}/${line} 200`).join("\n");
  for (let turn = 0; turn < 8; turn++) {
    messages.push({ role: "user", content: `Is log ${turn} fine?` });
    const turnStart = messages.length - 1;
    for (const step of [1, 2]) {
      session ??= makeSession({
        profile: profileNamed("openai"),
        windowTokens: WINDOW_TOKENS,
        archive,
        countTokens: estimateTokens,
      });
      const call = { nowMs: nowMs += 1_000, model: "m", turnStart, step };
      const views: SessionView[] = [];
      for (let attempt = 0; attempt <= failures; attempt++) {
        views.push(await session.view({ messages, tools: [log.definition] }, call));
      }
      const [first, last] = [views[0]!, views.at(-1)!];
      // A permanent change is reported with the first try, others with each.
      const again = views.slice(1).flatMap(({ rewrites }) => rewrites.map(({ mechanism }) => mechanism));
      assertEquals(again.filter((mechanism) => !["context", "schemas"].includes(mechanism)), []);
      const promptTokens = countRequestTokens(last, estimateTokens);
      const entry = session.sent({ promptTokens, cachedTokens: 0, outputTokens: 10 });
      // The reason is reported with the first try.
      const { decision: _, ...booked } = { decision: undefined, ...entry };
      seen.push([
        last.messages,
        last.tools,
        first.rewrites,
        last.saved,
        last.promptTokens,
        booked,
        session.state,
      ]);
      const id = `${turn}`;
      const called = {
        id,
        type: "function",
        function: { name: "log", arguments: `{"turn":${turn}}` },
      } as const;
      messages = step === 2 ? [...messages, { role: "assistant", content: "Yes." }] : [
        ...messages,
        { role: "assistant", tool_calls: [called] },
        { role: "tool", tool_call_id: id, content: text(turn) },
      ];
    }
  }
  return seen;
}

async function assertRepeatable(makeSession: typeof classicSession): Promise<void> {
  const once = await play(makeSession, 0);
  assert(JSON.stringify(once).includes("[elided: "));
  assertEquals(await play(makeSession, 2), once);
}

Deno.test("plannerSession() counts no message twice, and records one call, when a request is retried", () =>
  assertRepeatable(plannerSession));

Deno.test("classicSession() counts no message twice, and records one call, when a request is retried", () =>
  assertRepeatable(classicSession));
