import { SentRequests } from "@tare/loop/internal";
import {
  contentText,
  countRequestTokens,
  type CountTokens,
  type Message,
  type Model,
  type ModelRequest,
  type Usage,
} from "@tare/messages";
import { addUsage, countMessageTokens, transcribe } from "@tare/messages/internal";
import type { Summarize } from "@tare/planner";

const SUMMARY_TIMEOUT_MS = 120_000;

/** Tokens reserved for the answer: a share of the window, and at most. */
const ANSWER_SHARE = 1 / 16;
const ANSWER_TOKENS = 4_096;

const QUOTED_CHARS = 120;

const WHAT =
  "Write it for the agent, who will continue without that part: what was found and decided and why, " +
  "what was changed and where (paths, names, identifiers as they are), what is still open. Omit what no " +
  "longer matters. Answer with the summary alone, as plain text of at most 800 words.";

/**
 * Returns a function that has a model summarize the older part of a conversation. The instruction follows the last
 * prompt, whose rest is then a cache hit. If that exceeds the window, a transcript is sent in one user message, if
 * necessary in parts, each with the summary of the earlier ones. A summary fails after two minutes; a reply without
 * text is none.
 */
export function summarizeWith(
  model: Model,
  options: {
    readonly countTokens: CountTokens;
    readonly unfinished: (usage: Usage) => void;
  },
): Summarize {
  const { countTokens } = options;
  return async (request) => {
    const { sent, signal, progress, windowTokens = Infinity } = request;
    const timeout = AbortSignal.timeout(SUMMARY_TIMEOUT_MS);
    const ask = (messages: readonly Message[], tools: ModelRequest["tools"]) =>
      askModel(model, {
        messages,
        tools,
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        ...(progress && { progress }),
      }, options);
    const promptTokens = windowTokens - Math.min(ANSWER_TOKENS, ANSWER_SHARE * windowTokens);
    const warm: readonly Message[] = [...sent.messages, message(instruct(request))];
    if (countRequestTokens({ messages: warm, tools: sent.tools }, countTokens) <= promptTokens) {
      return await ask(warm, sent.tools);
    }
    let summary: Awaited<ReturnType<Summarize>> | undefined;
    for (const part of transcriptParts(request, { promptTokens, countTokens })) {
      const next = await ask([message(instructPart(request, part, summary?.text))], []);
      summary = { text: next.text, usage: summary ? addUsage(summary.usage, next.usage) : next.usage };
      if (next.text === "") break;
    }
    return summary ?? { text: "", usage: NOTHING };
  };
}

const NOTHING: Usage = { promptTokens: 0, cachedTokens: 0, outputTokens: 0, estimated: true };

async function askModel(
  model: Model,
  request: ModelRequest,
  { countTokens, unfinished }: Parameters<typeof summarizeWith>[1],
): ReturnType<Summarize> {
  const sent = new SentRequests(request, countTokens);
  try {
    for await (const event of model(sent.watched(request))) {
      request.progress?.();
      sent.received(event);
      if (event.type !== "completed") continue;
      const { message } = event;
      // A reply that calls tools is no summary, whatever its text.
      const text = message.tool_calls?.length ? "" : contentText(message.content).trim();
      const usage = event.usage ?? {
        promptTokens: countRequestTokens(request, countTokens),
        cachedTokens: 0,
        outputTokens: countMessageTokens(message, countTokens),
        estimated: true,
      };
      return { text, usage };
    }
    throw new Error("the model's reply ended before it was complete");
  } finally {
    sent.end({ isStopped: request.signal.aborted });
    sent.take().forEach(unfinished);
  }
}

function message(content: string): Message {
  return { role: "user", content };
}

function instruct({ next, users }: Parameters<Summarize>[0]): string {
  const where = next ? `everything before the message that begins with ${quote(next)}` : "everything above";
  return "The context window is nearly full. Stop working on the task and don't call any tool: summarize the " +
    `older part of this conversation, ${where}. ${WHAT} ${aboutUsers(users)}`;
}

function aboutUsers(users: readonly Message[]): string {
  const [first] = users;
  const last = users.at(-1);
  if (!first || !last) return "The user's messages there are kept; don't repeat them.";
  const which = first === last
    ? `the user's message that begins with ${quote(first)}`
    : `the user's messages from the one that begins with ${quote(first)} to the one that begins with ` +
      `${quote(last)}`;
  return `It replaces ${which} too: keep every wish, rule and fact in it. The user's other messages are kept.`;
}

function quote(message: Message): string {
  return JSON.stringify(contentText(message.content).slice(0, QUOTED_CHARS).toWellFormed());
}

function instructPart(
  request: Parameters<Summarize>[0],
  transcript: string,
  before: string | undefined,
): string {
  const sofar = before === undefined
    ? ""
    : `\n\nSummary of the earlier parts, to be included in yours:\n${before}`;
  return `Below is the older part of a conversation between a user and an agent with tools. Summarize it. ${WHAT} ${
    aboutUsers(request.users)
  }${sofar}\n\n${transcript}`;
}

function transcriptParts(
  request: Parameters<Summarize>[0],
  { promptTokens, countTokens }: { readonly promptTokens: number; readonly countTokens: CountTokens },
): string[] {
  const frame = countMessageTokens(message(instructPart(request, "", "")), countTokens);
  const whole = request.messages.map(transcribe).join("\n\n");
  if (frame + countTokens(whole) <= promptTokens) return [whole];
  const most = Math.max(1, (promptTokens - frame) * 0.75);
  const parts: string[][] = [[]];
  let tokens = 0;
  for (const message of request.messages) {
    for (const piece of cut(transcribe(message), { most, countTokens })) {
      if (tokens > 0 && tokens + piece.tokens > most) {
        parts.push([]);
        tokens = 0;
      }
      parts.at(-1)!.push(piece.text);
      tokens += piece.tokens + BETWEEN_TOKENS;
    }
  }
  return parts.map((pieces) => pieces.join("\n\n"));
}

const BETWEEN_TOKENS = 1;

function cut(
  text: string,
  { most, countTokens }: { readonly most: number; readonly countTokens: CountTokens },
): { readonly text: string; readonly tokens: number }[] {
  const tokens = countTokens(text);
  if (text.length <= 1 || tokens <= most) return [{ text, tokens }];
  const middle = Math.ceil(text.length / 2);
  const lineEnd = text.lastIndexOf("\n", middle);
  const at = lineEnd > middle / 2 ? lineEnd + 1 : middle;
  return [text.slice(0, at), text.slice(at)].flatMap((half) => cut(half, { most, countTokens }));
}
