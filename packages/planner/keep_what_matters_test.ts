import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import fc from "../../tests/cases.ts";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { memoryArchive } from "@tare/prune";
import { conversations } from "../../tests/conversations.ts";
import { checkAllIsVisible, play } from "../../tests/played_session.ts";

const MINUTE = 60_000;

function read(id: string, tokens: number): Message[] {
  const text = Array.from(
    { length: tokens / 10 },
    (_, line) => `const value${line} = "of ${id}, line ${line}";\n`,
  );
  return [
    {
      role: "assistant",
      tool_calls: [{
        id,
        type: "function",
        function: { name: "read", arguments: `{"path":"src/${id}.ts"}` },
      }],
    },
    { role: "tool", tool_call_id: id, content: text.join("") },
  ];
}

const ask = (content: string): Message => ({ role: "user", content });
const answer = (content: string): Message => ({ role: "assistant", content });

function historiesOf(messages: readonly Message[]): readonly (readonly Message[])[] {
  const ends = messages.flatMap(({ role }, at) => role === "assistant" && at > 0 ? [at] : []);
  return [...ends, messages.length].map((end) => messages.slice(0, end));
}

for (const profile of Object.values(PROFILES)) {
  Deno.test(`plannerSession() keeps questions and answers when it is resumed, at ${profile.name}`, async () => {
    const files = ["one", "two", "three", "four", "five", "six"];
    const messages = [
      ask("Find out why the build fails, and remember: never touch generated files."),
      ...files.flatMap((file) => read(file, 5_000)),
      answer("It fails in three.ts."),
      ask("And now?"),
    ];
    await play(historiesOf(messages), {
      profile,
      windowTokens: 200_000,
      idleMs: (call) => call === files.length + 1 ? 6 * MINUTE : 5_000,
      check: ({ messages }, view) => {
        assertEquals(view.messages.length, messages.length);
        for (const [at, message] of messages.entries()) {
          if (message.role !== "tool") assertStrictEquals(view.messages[at], message);
        }
      },
    });
  });

  Deno.test(`plannerSession() keeps every rule that the user gave in a small window, at ${profile.name}`, async () => {
    const messages = Array.from({ length: 24 }, (_, turn) => [
      ask(`Remember RULE-${turn}.`),
      ...read(`file${turn}`, 900),
      answer(`I will keep RULE-${turn} in mind.`),
    ]).flat();
    let most = 0;
    await play(historiesOf(messages), {
      profile,
      windowTokens: 16_000,
      idleMs: () => 5_000,
      check: ({ messages }, view) => {
        for (const message of messages) {
          if (message.role === "user") assert(view.messages.includes(message), `${message.content} is gone`);
        }
        most = Math.max(most, view.promptTokens);
      },
    });
    assert(most < 16_000, `${most} tokens`);
  });
}

const IDLE = [1_000, 1_000, 90_000, 6 * MINUTE, 100_000 * MINUTE];

Deno.test("invariant 8: user messages, final answers and the text of an unfinished turn stay", async () => {
  await fc.assert(fc.asyncProperty(
    conversations(),
    fc.constantFrom(...Object.values(PROFILES)),
    fc.infiniteStream(fc.constantFrom(...IDLE)),
    async (messages, profile, idle) => {
      const scaled = { ...profile, minTokens: Math.min(profile.minTokens, 64) };
      await play(historiesOf(messages), {
        profile: scaled,
        windowTokens: 1_000_000,
        idleMs: () => idle.next().value,
        check: checkAllIsVisible,
      });
    },
  ));
});

Deno.test("invariant 9: a request that isn't a turn gets the last view and changes nothing", async () => {
  await fc.assert(fc.asyncProperty(
    conversations(),
    fc.constantFrom(...Object.values(PROFILES)),
    async (messages, profile) => {
      const make = () => plannerSession({ profile, countTokens: estimateTokens, archive: memoryArchive() });
      const [requested, other] = [make(), make()];
      let nowMs = 0;
      for (const messages_ of historiesOf(messages)) {
        const history = { messages: messages_, tools: [] };
        const call = { nowMs: nowMs += 400_000, recall: true };
        const seen = await requested.view(history, call);
        assertEquals(seen, await other.view(history, call));
        const usage = { promptTokens: seen.promptTokens, cachedTokens: 0, outputTokens: 1 };
        assertEquals(requested.sent(usage), other.sent(usage));
        const { state } = requested;
        const summary = { messages: [...messages_, ask("Summarize all this.")], tools: [] };
        const inspected = await requested.view(summary, { ...call, oneShot: true });
        assertEquals<readonly unknown[]>(inspected.messages, [...seen.messages, summary.messages.at(-1)]);
        assertEquals([inspected.rewrites, requested.sent(usage)], [[], undefined]);
        assertStrictEquals(requested.state, state);
      }
    },
  ));
});
