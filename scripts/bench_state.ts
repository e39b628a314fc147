/**
 * Measures what one more call of a long turn writes to the store, by the agent server and by the gateway: what prompts are
 * made by, and everything, the call's own events included.
 *
 *     deno task bench:state [--json]
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { memoryStore, type Store, type StoreRecord } from "@tare/conversation";
import { gateway } from "@tare/gateway";
import {
  type AssistantMessage,
  estimateTokens,
  type Message,
  type Model,
  type Tool,
  type ToolDefinition,
} from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler, ALLOW_EVERYTHING } from "@tare/server";
import { formatTable } from "./bench/format_table.ts";

/** Messages of the turn. */
const LENGTHS = [400, 6_400, 20_000] as const;

/** Calls that are measured at each length, and those before: what is seen for the first time is written once. */
const CALLS = 20;
const SETTLING = 3;

/** Messages that a request brings at most. */
const NEW_MESSAGES = 6_000;

const PROFILE = profileNamed("anthropic-5m");
const WINDOW_TOKENS = 10 ** 9;

/** What one call writes, in bytes of JSON and text. */
interface Written {
  readonly messages: number;
  readonly calls: number;
  readonly all: number;
  /** What prompts are made by. */
  readonly prompt: number;
}

/** A store that says how much is written to it. */
function counted(): { readonly store: Store; readonly written: { all: number; prompt: number } } {
  const store = memoryStore();
  const written = { all: 0, prompt: 0 };
  const count = (record: StoreRecord) => {
    const bytes = new TextEncoder().encode(JSON.stringify(record)).length;
    written.all += bytes;
    const isPrompts = record.type === "state" && (record.name === "context" || record.name === "value") ||
      record.type === "archive" && record.content.startsWith("[");
    if (isPrompts) written.prompt += bytes;
  };
  const commit: Store["commit"] = (records) => {
    records.forEach(count);
    return store.commit(records);
  };
  return { store: { ...store, commit }, written };
}

/** What a step reads: numbered lines, of which each third step sees some again. */
function resultOf(step: number): string {
  const file = step % 3 === 2 ? step - 1 : step;
  return Array.from(
    { length: 12 + file % 20 },
    (_, line) => `${line + 1}\tconst name${file}_${line} = module${file % 90}.read(argument${line});`,
  ).join("\n");
}

const READ: ToolDefinition = {
  type: "function",
  function: {
    name: "read_file",
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  },
};

function callOf(step: number): AssistantMessage {
  const read = { name: "read_file", arguments: `{"path":"src/module${step % 50}.ts"}` };
  return {
    role: "assistant",
    content: null,
    tool_calls: [{ id: `${step}`, type: "function", function: read }],
  };
}

/** The messages of so many steps. */
function turnOf(steps: number): Message[] {
  const messages: Message[] = [{ role: "user", content: "Go." }];
  for (let step = 0; step < steps; step++) {
    messages.push(callOf(step), { role: "tool", tool_call_id: `${step}`, content: resultOf(step) });
  }
  return messages;
}

/** Lets the agent server go on with a session of that length. */
async function measureAgent(length: number): Promise<Written> {
  const { store, written } = counted();
  let [step, nowMs] = [length / 2, 0];
  let [first, last] = [{ ...written }, { ...written }];
  const model: Model = async function* ({ messages }) {
    nowMs += 10_000;
    const call = step - length / 2;
    if (call === SETTLING) first = { ...written };
    if (call === SETTLING + CALLS) last = { ...written };
    const goesOn = call < SETTLING + CALLS;
    const message: AssistantMessage = goesOn ? callOf(step) : { role: "assistant", content: "Done." };
    const promptTokens = messages.length * 100;
    const usage = { promptTokens, cachedTokens: promptTokens - 100, outputTokens: 50 };
    yield { type: "completed", message, finishReason: goesOn ? "tool_calls" : "stop", usage };
  };
  const readFile: Tool = { definition: READ, stance: "rederivable", run: () => resultOf(step++) };
  const open = () =>
    agentHandler({
      model: () => model,
      defaultModel: "scripted",
      instructions: "Be brief.",
      tools: [readFile],
      approvals: { rules: ALLOW_EVERYTHING },
      store: { ...store, now: () => nowMs },
      countTokens: () => Promise.resolve(estimateTokens),
      profile: PROFILE,
      windowTokens: WINDOW_TOKENS,
    });
  const post = async (path: string, body: string) => {
    const headers = { "content-type": "application/json" };
    const request = new Request(`http://localhost${path}`, { method: "POST", headers, body });
    const response = await open().fetch(request);
    const text = await response.text();
    if (!response.ok) throw new Error(`The agent refused: ${text}`);
    return text;
  };
  const { id: sessionId } = JSON.parse(await post("/v1/sessions", "{}"));
  const history: Message[] = [...turnOf(length / 2), { role: "assistant", content: "Done." }];
  const events = history.map((message) => ({ type: "message_added", message }));
  await store.commit([{ type: "events", sessionId, after: await store.lastEvent(sessionId), events }]);
  await post(`/v1/sessions/${sessionId}/turns`, JSON.stringify({ input: "Go on." }));
  return difference(length, last, first);
}

/** Sends the turn through the gateway: what is long at once, and then call by call. */
async function measureGateway(length: number): Promise<Written> {
  const { store, written } = counted();
  let nowMs = 0;
  const fetch = async (...args: Parameters<typeof globalThis.fetch>) => {
    const { messages } = await new Request(...args).json();
    const message = callOf(messages.length >> 1);
    const prompt_tokens = 100 * messages.length;
    const usage = { prompt_tokens, completion_tokens: 5, total_tokens: prompt_tokens + 5 };
    return Response.json({
      id: "c",
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: "tool_calls" }],
      usage,
    });
  };
  const through = gateway({
    upstreams: { chat: { baseURL: "http://chat.example/v1", profile: PROFILE, windowTokens: WINDOW_TOKENS } },
    countTokens: () => Promise.resolve(estimateTokens),
    now: () => nowMs,
    store,
    fetch,
    maxBodyBytes: 2 ** 30,
    keepWaitMs: 60_000,
  });
  const messages = turnOf(length / 2);
  const ask = async (messages: readonly Message[]) => {
    nowMs += 10_000;
    const body = JSON.stringify({ model: "m", messages, tools: [READ] });
    const headers = { "content-type": "application/json" };
    const request = new Request("http://localhost/v1/chat/completions", { method: "POST", headers, body });
    const response = await through.fetch(request);
    const text = await response!.text();
    if (!response!.ok) throw new Error(`The gateway refused: ${text}`);
  };
  let before = { ...written };
  // A request may not bring more at once.
  for (let more = NEW_MESSAGES; more < length; more += NEW_MESSAGES) await ask(messages.slice(0, more + 1));
  for (let call = 0; call < SETTLING + CALLS; call++) {
    if (call === SETTLING) before = { ...written };
    await ask(messages);
    messages.push(...turnOf(length / 2 + call + 1).slice(-2));
  }
  await through.close();
  return difference(length, written, before);
}

function difference(
  messages: number,
  now: { readonly all: number; readonly prompt: number },
  before: { readonly all: number; readonly prompt: number },
): Written {
  const perCall = (name: "all" | "prompt") => Math.round((now[name] - before[name]) / CALLS);
  return { messages, calls: CALLS, all: perCall("all"), prompt: perCall("prompt") };
}

async function main(): Promise<void> {
  const { values } = parseArgs({ args: Deno.args, options: { json: { type: "boolean" } } });
  const [agent, through]: [Written[], Written[]] = [[], []];
  for (const length of LENGTHS) {
    agent.push(await measureAgent(length));
    through.push(await measureGateway(length));
  }
  if (values.json) return console.log(JSON.stringify({ agent, gateway: through }));
  const rows = (name: string, written: readonly Written[]) =>
    written.map(({ messages, all, prompt }) => [name, String(messages), String(prompt), String(all)]);
  console.log(formatTable([
    ["", "messages", "bytes a call, prompts", "all"],
    ...rows("agent", agent),
    ...rows("gateway", through),
  ]));
}

if (import.meta.main) await main();
