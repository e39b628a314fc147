import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { contentText, estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { profileNamed, type PromptSession, type SessionView } from "@tare/planner";
import { classicSession } from "./classic_session.ts";
import { type Archive, memoryArchive } from "@tare/prune";
import fc from "../../../tests/cases.ts";
import { callPairs } from "../../../tests/call_pairs.ts";
import { conversations } from "../../../tests/conversations.ts";

const TOOLS: readonly ToolDefinition[] = ["read", "list"].map((name) => ({
  type: "function",
  function: { name, description: "Does as it is told. ".repeat(100), parameters: { type: "object" } },
}));

interface Given {
  readonly messages: readonly Message[];
  readonly windowTokens: number;
  readonly summary: "works" | "fails" | "none";
  readonly historyBudgetTokens: number;
}

const given = fc.record({
  messages: conversations(),
  windowTokens: fc.integer({ min: 1_200, max: 6_000 }),
  summary: fc.constantFrom("works", "fails", "none"),
  historyBudgetTokens: fc.constantFrom(0, 500, 16_000),
}) as fc.Arbitrary<Given>;

async function play(
  { messages, windowTokens, summary, historyBudgetTokens }: Given,
  check: (step: {
    readonly view: SessionView;
    readonly history: readonly Message[];
    readonly archive: Archive;
    readonly session: PromptSession;
    readonly again: () => Promise<SessionView>;
  }) => Promise<void>,
): Promise<void> {
  const archive = memoryArchive();
  let state: unknown;
  const ends = messages.flatMap(({ role }, at) => role === "assistant" && at > 0 ? [at] : []);
  for (const [nowMs, end] of [...ends, messages.length].entries()) {
    const history = messages.slice(0, end);
    const session = classicSession({
      profile: profileNamed("none"),
      archive,
      countTokens: estimateTokens,
      windowTokens,
      triggers: { historyBudgetTokens, protectTokens: 200, minBytes: 200 },
      truncateTokens: 600,
      ...(summary !== "none" && {
        summarize: () =>
          Promise.resolve({
            text: summary === "works" ? "In short." : "",
            usage: { promptTokens: 9, cachedTokens: 0, outputTokens: 1 },
          }),
      }),
      ...(state !== undefined && { state: JSON.parse(JSON.stringify(state)) }),
    });
    const again = () => session.view({ messages: history, tools: TOOLS }, { nowMs });
    await check({ view: await again(), history, archive, session, again });
    session.sent();
    state = session.state;
  }
}

Deno.test("invariant 1 by classic triggers: all evicted content can be recalled by the visible references", async () => {
  await fc.assert(fc.asyncProperty(given, async (session) => {
    await play(session, async ({ view, history, archive }) => {
      const texts = new Map<string, string>();
      const open = [JSON.stringify(view.messages)];
      for (let text = open.pop(); text !== undefined; text = open.pop()) {
        for (const [, ref = ""] of text.matchAll(/ref ([0-9a-f]{16})\]/g)) {
          const original = texts.has(ref) ? undefined : await archive.get(ref);
          if (original === undefined) continue;
          texts.set(ref, original);
          open.push(original);
        }
      }
      const visible = new Set(view.messages.map((message) => JSON.stringify(message)));
      const originals = [...texts.values()];
      const lines = new Set(originals.flatMap((text) => text.split("\n")));
      for (const [at, message] of history.entries()) {
        const json = JSON.stringify(message);
        const isThere = visible.has(json) || lines.has(json) ||
          originals.includes(contentText(message.content));
        assert(isThere, `message ${at} is nowhere`);
      }
    });
  }));
});

Deno.test("invariant 2 by classic triggers: pairs stay whole, and places are those of the history", async () => {
  await fc.assert(fc.asyncProperty(given, async (session) => {
    await play(session, async ({ view: { messages, places }, history }) => {
      const { orphans, unanswered } = callPairs(messages);
      assertEquals([orphans.length, unanswered.length], [0, callPairs(history).unanswered.length]);
      assertEquals(places.length, messages.length);
      for (const [at, place] of places.entries()) {
        if (place >= 0) assertEquals(messages[at]?.role, history[place]?.role);
      }
      await Promise.resolve();
    });
  }));
});

Deno.test("invariant 3 by classic triggers: in a turn each request is a prefix of the next, unless a rewrite is reported", async () => {
  await fc.assert(fc.asyncProperty(given, async (session) => {
    let before: { readonly view: SessionView; readonly users: number } | undefined;
    await play(session, async ({ view, history }) => {
      const users = history.filter(({ role }) => role === "user").length;
      const reported = view.rewrites.some(({ mechanism }) => mechanism !== "truncate");
      if (before?.users === users && !reported) {
        assertEquals(JSON.stringify(view.tools), JSON.stringify(before.view.tools));
        const start = view.messages.slice(0, before.view.messages.length);
        assertEquals(JSON.stringify(start), JSON.stringify(before.view.messages));
      }
      before = { view, users };
      await Promise.resolve();
    });
  }));
});

Deno.test("invariant 5 by classic triggers: viewing twice without new information changes nothing", async () => {
  await fc.assert(fc.asyncProperty(given, async (one) => {
    await play(one, async ({ session, again }) => {
      const { state } = session;
      const [twice, thrice] = [await again(), await again()];
      assertEquals([twice.rewrites, twice.warnings.filter((warning) => warning.includes("pause"))], [[], []]);
      assertStrictEquals(session.state, state);
      assertEquals(JSON.stringify(thrice), JSON.stringify(twice));
    });
  }));
});
