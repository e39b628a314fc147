import { assertEquals, assertThrows } from "@std/assert";
import { loadTokenizer } from "@tare/tiktoken";
import { contentText, countRequestTokens, type Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { loadData } from "../../../scripts/savings/load_data.ts";
import {
  type MakePolicy,
  play as playRecording,
  type PolicyView,
  type Recording,
} from "@tare/simulator/economy";
import { generateWorkload } from "../../workload.ts";
import { pruning } from "./ai_sdk.ts";
import { clearing, summarizing } from "./langchain.ts";
import { fromLangChain, toLangChain } from "./langchain_messages.ts";
import { fromModelPrompt, toModelPrompt } from "./model_prompt.ts";
import { peerNamed, PEERS } from "./peers.ts";

const { count: countTokens } = await loadTokenizer();

const RECORDINGS = new URL("../../../../shared/trajectories", import.meta.url);

function sessions(): Recording[] {
  const generated = generateWorkload();
  try {
    Deno.statSync(RECORDINGS);
  } catch {
    return generated;
  }
  return [
    ...generated,
    ...loadData(RECORDINGS.pathname, { warn: () => {} }).flatMap((data) => data.recordings),
  ];
}

Deno.test("converters: each one returns a session unchanged", () => {
  for (const { messages } of sessions()) {
    let ids = 0;
    assertEquals(fromModelPrompt(toModelPrompt(messages)), messages);
    assertEquals(fromLangChain(toLangChain(messages, () => `${ids++}`)), messages);
  }
});

Deno.test("converters: each one retains a whole session, also if a library copies its input", () => {
  for (const { messages } of sessions()) {
    let ids = 0;
    const plain = messages.map(textOf);
    const copies = toLangChain(messages, () => `${ids++}`);
    for (const copy of copies) copy.additional_kwargs = {};
    assertEquals(fromLangChain(copies).map(textOf), plain);
  }
});

function textOf(message: Message) {
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  return {
    role: message.role as string,
    content: contentText(message.content),
    calls: calls.map((call) =>
      call.type === "custom"
        ? call
        : { id: call.id, name: call.function.name, args: JSON.parse(call.function.arguments) }
    ),
    answers: message.role === "tool" ? message.tool_call_id : undefined,
  };
}

function session(resultTokens: number, taskTokens: number): Message[] {
  return [
    { role: "system", content: "Be brief." },
    { role: "user", content: `First task.${" word".repeat(taskTokens)}` },
    ...[1, 2, 3].flatMap((number) => step(number, resultTokens)),
    { role: "assistant", content: "Done." },
    { role: "user", content: "Second task." },
    ...[4, 5].flatMap((number) => step(number, resultTokens)),
  ];
}

function step(number: number, resultTokens: number): Message[] {
  const id = `c${number}`;
  const call = {
    id,
    type: "function",
    function: { name: "read", arguments: `{"path": "file-${number}.ts"}` },
  } as const;
  return [
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: id, content: `${number}${" word".repeat(resultTokens)}` },
  ];
}

/** Returns the visible messages of each call, each by its role's first letter and its step. */
async function play(make: MakePolicy, { windowTokens = 200_000, resultTokens = 500, taskTokens = 0 } = {}) {
  const messages = session(resultTokens, taskTokens);
  const recording = { messages } as unknown as Recording;
  const profile = profileNamed("anthropic-5m");
  const policy = await make({ profile, windowTokens, countTokens, recording });
  const views: PolicyView[] = [];
  for (let at = 2; at <= messages.length; at++) {
    if ((messages[at]?.role ?? "assistant") !== "assistant") continue;
    const view = await policy.view({ messages: messages.slice(0, at), tools: [], nowMs: at });
    const promptTokens = countRequestTokens(view, countTokens);
    policy.sent?.({ promptTokens, cachedTokens: 0, outputTokens: 0 });
    views.push(view);
  }
  return { views, visible: views.map(({ messages }) => words(messages)) };
}

function asides(views: readonly PolicyView[]): (string | undefined)[] {
  return views.map(({ aside }) => aside && words(aside.messages));
}

function words(messages: readonly Message[]): string {
  return messages.map(word).join(" ");
}

function word(message: Message): string {
  const text = contentText(message.content);
  const cut = text.length < 100 || text.includes("runcated");
  if (message.role === "tool") return cut ? "t-" : `t${message.tool_call_id.slice(1)}`;
  if (message.role === "assistant" && message.tool_calls) return `a${message.tool_calls[0]?.id.slice(1)}`;
  return text.includes("ummar") ? `${message.role[0]}*` : message.role.slice(0, 1);
}

const WHOLE = [
  "s u",
  "s u a1 t1",
  "s u a1 t1 a2 t2",
  "s u a1 t1 a2 t2 a3 t3",
  "s u a1 t1 a2 t2 a3 t3 a u",
  "s u a1 t1 a2 t2 a3 t3 a u a4 t4",
  "s u a1 t1 a2 t2 a3 t3 a u a4 t4 a5 t5",
];
const FIRST_TURN = WHOLE.slice(0, 4);

Deno.test("pruneMessages() removes nothing by default", async () => {
  assertEquals((await play(pruning({}))).visible, WHOLE);
});

Deno.test("pruneMessages() removes old turns' calls before each turn", async () => {
  const { visible } = await play(pruning({ eachTurn: true, toolCalls: "before-last-2-messages" }));
  assertEquals(visible, [...FIRST_TURN, "s u a u", "s u a u a4 t4", "s u a u a4 t4 a5 t5"]);
});

Deno.test("pruneMessages() removes all calls but the last before each step", async () => {
  const { visible } = await play(pruning({ toolCalls: "before-last-2-messages" }));
  assertEquals(visible, [
    "s u",
    "s u a1 t1",
    "s u a2 t2",
    "s u a3 t3",
    "s u a u",
    "s u a u a4 t4",
    "s u a u a5 t5",
  ]);
});

Deno.test("pruneMessages() waits until the messages are long, and starts from its last result", async () => {
  const { visible } = await play(pruning({ overTokens: 1_500, toolCalls: "before-last-3-messages" }));
  assertEquals(visible, [
    ...WHOLE.slice(0, 3),
    "s u a2 t2 a3 t3",
    "s u a2 t2 a3 t3 a u",
    "s u a u a4 t4",
    "s u a u a4 t4 a5 t5",
  ]);
});

const CLEARED = [
  "s u",
  "s u a1 t1",
  "s u a1 t- a2 t2",
  "s u a1 t- a2 t- a3 t3",
  "s u a1 t- a2 t- a3 t3 a u",
  "s u a1 t- a2 t- a3 t- a u a4 t4",
  "s u a1 t- a2 t- a3 t- a u a4 t- a5 t5",
];

Deno.test("ClearToolUsesEdit: all results but the newest are cleared", async () => {
  assertEquals(
    (await play(clearing({ trigger: { tokens: 1_000 }, keep: { messages: 1 } }))).visible,
    CLEARED,
  );
});

Deno.test("ClearToolUsesEdit: calls are cleared too", async () => {
  const settings = { trigger: { tokens: 1_000 }, keep: { messages: 1 }, clearToolInputs: true };
  const { visible, views } = await play(clearing(settings));
  assertEquals(visible, CLEARED);
  assertEquals(
    views.at(-1)?.messages.flatMap((message) =>
      textOf(message).calls.map((call) => "args" in call && call.args)
    ),
    [{}, {}, {}, {}, { path: "file-5.ts" }],
  );
});

Deno.test("ClearToolUsesEdit: triggers may be shares of the window", async () => {
  const settings = { trigger: { fraction: 0.8 }, keep: { fraction: 0.3 } };
  const { visible } = await play(clearing(settings), { windowTokens: 2_000 });
  assertEquals(visible, [
    ...WHOLE.slice(0, 3),
    "s u a1 t- a2 t- a3 t-",
    "s u a1 t- a2 t- a3 t- a u",
    "s u a1 t- a2 t- a3 t- a u a4 t4",
    "s u a1 t- a2 t- a3 t- a u a4 t4 a5 t5",
  ]);
});

const SUMMARISED = [
  ...WHOLE.slice(0, 3),
  "s u* a2 t2 a3 t3",
  "s u* a3 t3 a u",
  "s u* u a4 t4",
  "s u* a4 t4 a5 t5",
];

Deno.test("summarizationMiddleware() requests summaries on the cached prefix", async () => {
  const settings = { trigger: { tokens: 1_500 }, keep: { messages: 3 } };
  const { visible, views } = await play(summarizing(settings, "cached"));
  assertEquals(visible, SUMMARISED);
  assertEquals(
    asides(views),
    [undefined, undefined, undefined, ...[WHOLE[2], ...SUMMARISED.slice(3, 6)].map((sent) => `${sent} u*`)],
  );
});

Deno.test("summarizationMiddleware() requests summaries in its own words", async () => {
  const settings = { trigger: { tokens: 1_500 }, keep: { messages: 3 } };
  const { visible, views } = await play(summarizing(settings, "cold"));
  assertEquals(visible, SUMMARISED);
  assertEquals(
    asides(views),
    [undefined, undefined, undefined, "u*", "u*", "u*", "u*"],
  );
});

Deno.test("peers: each one plays a generated session", async () => {
  const recording = generateWorkload()[0]!;
  const profile = profileNamed("anthropic-5m");
  for (const name of Object.keys(PEERS)) {
    const { make, recall } = peerNamed(name);
    const options = { profile, windowTokens: 200_000, countTokens, recall, refetches: true };
    assertEquals((await playRecording(recording, make, options)).refused, 0, name);
  }
  assertThrows(() => peerNamed("nobody"), RangeError, "Cannot run policy nobody: it is unknown. Use");
});
