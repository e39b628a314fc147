import { assertEquals, assertRejects } from "@std/assert";
import { groupTurns, toolLoopContext } from "@tare/context";
import { estimateTokens as countTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import {
  memoryArchive,
  pruneResults,
  relievePressure,
  selectElisions,
  summarizeTurns,
  truncateResults,
} from "@tare/prune";

const archive = memoryArchive();
const options = { archive, countTokens };

/** Functions of the public packages that take a conversation. */
const TAKES: Readonly<Record<string, (messages: readonly Message[]) => unknown>> = {
  "view()": (messages) =>
    plannerSession({ ...options, profile: profileNamed("openai") })
      .view({ messages, tools: [] }, { nowMs: 0 }),
  "toolLoopContext()": (messages) => toolLoopContext(messages, { countTokens }),
  "groupTurns()": (messages) => groupTurns(messages),
  "pruneResults()": (messages) => pruneResults(messages, options),
  "selectElisions()": (messages) => selectElisions(messages, options),
  "truncateResults()": (messages) => truncateResults(messages, options),
  "relievePressure()": (messages) => relievePressure(messages, { ...options, windowTokens: 10_000 }),
  "summarizeTurns()": (messages) =>
    summarizeTurns(messages, { ...options, summarize: () => Promise.reject(new Error("not asked")) }),
};

Deno.test("planner: every function that takes a conversation names a tool message with invalid content", async () => {
  const content = "a string, or an array of content parts";
  const part = 'a content part, such as { type: "text", text: "…" }';
  const cases = [
    { given: undefined, field: "content", state: "missing", right: content },
    { given: null, field: "content", state: "null", right: content },
    { given: { ok: true }, field: "content", state: "an object", right: content },
    { given: ["text"], field: "content[0]", state: '"text"', right: part },
  ];
  const call = { id: "call_7", type: "function", function: { name: "f", arguments: "{}" } };
  for (const { given, field, state, right } of cases) {
    const messages = [
      { role: "user", content: "Go." },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_7", content: given },
    ] as unknown as Message[];
    for (const [name, take] of Object.entries(TAKES)) {
      const { message } = await assertRejects(async () => await take(messages), TypeError);
      const list = name === "view()" ? "history.messages" : "messages";
      assertEquals(
        message,
        `Cannot run ${name}: ${list}[2].${field} (role tool, tool_call_id "call_7") is ${state}; it must be ${right}`,
      );
    }
  }
});
