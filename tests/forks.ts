/**
 * Measures what a subagent's first call reads from the provider's cache.
 *
 * @module
 */
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import { contentText, type Message, type Tool } from "@tare/messages";
import { hashPiece } from "@tare/messages/internal";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { agentHandler } from "@tare/server";
import { type SimulatedModel, simulator, toolCall } from "@tare/simulator";
import { memoryStore } from "@tare/session/sqlite";
import { postSession } from "./post_session.ts";
import { seeded } from "./seeded.ts";
import { word } from "./words.ts";

const STEPS = 8;
const STEP_MS = 5_000;
const PAUSE_MS = 3 * 60_000;

/** Overlap of a subagent's first call with its parent's newest request, and its cache reads. */
export interface MeasuredFork {
  readonly sharedTokens: number;
  readonly cachedTokens: number;
  /** Whether the subagent's request begins with its parent's messages and tools. */
  readonly isWhole: boolean;
}

export const CACHING: readonly string[] = Object.keys(PROFILES).filter((name) => name !== "none");

/** Plays long turns whose steps each call two subagents, on a simulated provider. */
export async function measureForks(name: string, { turns = 4 } = {}): Promise<{
  readonly forks: readonly MeasuredFork[];
  readonly rewrites: number;
}> {
  const tokenizer = await loadTokenizer();
  const profile = profileNamed(name);
  let nowMs = 0;
  const provider = simulator({ model: delegating, tokenizer, profile, now: () => nowMs });
  const options = {
    baseURL: name.startsWith("anthropic") ? "http://provider" : "http://provider/v1",
    apiKey: "key",
    fetch: (url: string | URL | Request, init?: RequestInit) => {
      nowMs += STEP_MS;
      return provider.fetch(new Request(url, init));
    },
  };
  const agent = agentHandler({
    models: {
      model: (model) =>
        name.startsWith("anthropic")
          ? anthropicModel({ model, cacheTtlMs: profile.ttlMs, ...options })
          : openaiModel({ model, ...options }),
      defaultModel: "m",
      countTokens: () => Promise.resolve(tokenizer.count),
      profile,
      windowTokens: 100_000,
    },
    tools: [readTool()],
    store: memoryStore({ now: () => nowMs }),
    advanced: { delegates: true },
  });
  const send = (path: string, body: object) => postSession(agent, path, body);
  const { id } = JSON.parse(await send("", { instructions: words(1_500) }));
  let rewrites = 0;
  for (let turn = 0; turn < turns; turn++) {
    nowMs += PAUSE_MS;
    const events = await send(`/${id}/turns`, { input: `Look at part ${turn}.` });
    if (!events.includes('"reason":"completed"')) {
      throw new Error(`Cannot measure forks at ${name}: a turn failed. ${events.slice(-1_000)}`);
    }
    rewrites += events.split('"context_rewritten"').length - 1;
  }
  await agent.close();
  const forks: MeasuredFork[] = [];
  let parent: typeof provider.requests[number] | undefined;
  for (const request of provider.requests) {
    if (!isTask(request.messages.at(-1))) {
      if (!isSubagent(request.messages)) parent = request;
      continue;
    }
    if (!parent) throw new Error("Cannot measure a fork: its parent sent no request before.");
    const pieces = ({ tools, messages }: typeof request) => [...tools, ...messages].map(hashPiece);
    const own = pieces(request);
    forks.push({
      sharedTokens: parent.promptTokens,
      // A sibling's request may share more than the parent's.
      cachedTokens: Math.min(request.cachedTokens, parent.promptTokens),
      isWhole: request.tools.length === parent.tools.length &&
        pieces(parent).every((piece, at) => piece === own[at]),
    });
  }
  return { forks, rewrites };
}

/** Reads in each step and calls two subagents, which read once. */
const delegating: SimulatedModel = ({ messages }) => {
  const step = messages.length - 1 - messages.findLastIndex(({ role }) => role === "user");
  const read = toolCall("read", { path: `${messages.length}.txt` });
  if (isSubagent(messages)) return step === 0 ? { tool_calls: [read] } : { content: "It is there." };
  const steps = messages.slice(-step).filter(({ role }) => role === "assistant").length;
  if (step > 0 && steps >= STEPS) return { content: "All was looked at." };
  const delegate = (task: string) => toolCall("delegate", { task, max_steps: 3 });
  return {
    tool_calls: [read, delegate(`Find the first of ${steps}.`), delegate(`Find the last of ${steps}.`)],
  };
};

function isTask(message: Message | undefined): boolean {
  return message?.role === "user" && contentText(message.content).startsWith("You are a subagent now");
}

function isSubagent(messages: readonly Message[]): boolean {
  return isTask(messages.findLast(({ role }) => role === "user"));
}

const random = seeded(1);

function words(length: number): string {
  return Array.from({ length }, () => word(random)).join(" ");
}

function readTool(): Tool {
  return {
    definition: {
      type: "function",
      function: {
        name: "read",
        description: words(100),
        parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
      },
    },
    stance: "rederivable",
    run: () => words(1_000),
  };
}
