import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { run, type TurnResult } from "@tare/loop";
import { openaiModel } from "@tare/loop/openai";
import { contentText, type Message } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { type LedgerEntry, plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive, RECALL_TOOL } from "@tare/prune";
import { type SimulatedModel, simulator } from "@tare/simulator";
import { summarizeWith } from "../packages/server/sessions/summarize.ts";

const WINDOW = 16_000;
const TURNS = 20;
const tokenizer = await loadTokenizer();

const notifier: SimulatedModel = ({ messages }) => {
  const lastText = contentText(messages.at(-1)?.content);
  if (isInstruction(lastText)) return { content: "I wrote stories of many handlers." };
  const story = Array.from(
    { length: 110 },
    (_, at) => `${lastText}_handler${at * 7919} met resolveX${at}().`,
  );
  return { content: story.join(" ") };
};

function isInstruction(text: string): boolean {
  return text.startsWith("The context window is nearly full.");
}

async function tell(name: string) {
  let nowMs = 0;
  const profile = profileNamed(name);
  const provider = simulator({ model: notifier, tokenizer, profile, windowTokens: WINDOW, now: () => nowMs });
  const model = openaiModel({
    model: "notifier",
    baseURL: "http://provider/v1",
    fetch: (url, init) => provider.fetch(new Request(url, init)),
  });
  const session = plannerSession({
    profile,
    archive: memoryArchive(),
    countTokens: tokenizer.count,
    windowTokens: WINDOW,
    // Only a full window evicts text.
    advanced: { retention: { stepTailTokens: Infinity } },
    summarize: summarizeWith(model, { countTokens: tokenizer.count, unfinished() {} }),
  });
  const entries: LedgerEntry[] = [];
  let history: readonly Message[] = [{ role: "system", content: "Tell stories." }];
  for (let turn = 0; turn < TURNS; turn++) {
    const { messages } = await lastOf(run({
      model,
      history,
      input: `story${turn}`,
      async context({ messages, step, signal }) {
        nowMs += 10_000;
        const view = await session.view({ messages, tools: [RECALL_TOOL] }, { nowMs, step, signal });
        return {
          messages: view.messages,
          tools: view.tools,
          succeeded(usage) {
            const entry = session.sent(usage, view);
            if (entry) entries.push(entry);
            return entry;
          },
        };
      },
    }));
    history = [...history, ...messages];
  }
  return { requests: provider.requests, entries, history };
}

async function lastOf(events: AsyncGenerator<unknown, TurnResult>): Promise<TurnResult> {
  for (;;) {
    const { done, value } = await events.next();
    if (done) return value;
  }
}

Deno.test("summaries: a summary's prompt is read from the provider's cache, and the ledger records its usage", async () => {
  for (const name of ["openai", "anthropic-5m", "deepseek"]) {
    const { requests, entries, history } = await tell(name);
    assertEquals(requests.filter(({ status }) => status !== 200), []);
    assertEquals(history.length, 1 + 2 * TURNS);
    const summaries = requests.filter(({ messages }) => isInstruction(contentText(messages.at(-1)?.content)));
    assertGreater(summaries.length, 0);
    for (const { promptTokens, cachedTokens } of summaries) {
      assertLess(promptTokens, WINDOW);
      assertGreater(cachedTokens / promptTokens, 0.95);
    }
    assertEquals(
      entries.flatMap(({ summary }) => summary ? [[summary.promptTokens, summary.cachedTokens]] : []),
      summaries.map(({ promptTokens, cachedTokens }) => [promptTokens, cachedTokens]),
    );
  }
});
