/**
 * The clients of `bench:gateway`, in a process of their own. Takes tokens and requests of the sessions, then a line of
 * JSON with {@linkcode StreamOptions} for each run; prints a line with what the sessions are, then one for each run.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { loadTokenizer } from "@tare/tiktoken";
import { countMessageTokens, type CountTokens, countToolTokens, type Message } from "@tare/messages";
import { generateWorkload } from "../../workload.ts";

/** The bodies of growing sessions. They are alike but share no message, so that nothing is known of one from another. */
export interface GrowingSession {
  /** Requests of a session. */
  readonly requests: number;
  /** Tokens of its first and last prompt, without what tells it from others. */
  readonly tokens: readonly [first: number, last: number];
  /** Returns the body of a session's request; its name distinguishes the session from others. */
  body(session: string, request: number): string;
}

/** Takes successive requests of a long generated session, as an agent sends them: each with all before it. */
export function growingSession(
  { tokens: wanted, requests }: { readonly tokens: number; readonly requests: number },
  countTokens: CountTokens,
): GrowingSession {
  const { messages, tools } = longSession();
  const sizes = messages.map((message) => countMessageTokens(message, countTokens));
  const toolTokens = tools.reduce((sum, tool) => sum + countToolTokens(tool, countTokens), 0);
  const ends: { readonly length: number; readonly tokens: number }[] = [];
  let tokens = toolTokens;
  for (const [at, message] of messages.entries()) {
    // Before each answer a request is sent.
    if (message.role === "assistant" && tokens >= wanted && ends.length < requests) {
      ends.push({ length: at, tokens });
    }
    tokens += sizes[at] ?? 0;
  }
  if (ends.length < requests) throw new RangeError("Cannot make so long a session: the workload ends before");
  const bodies = ends.map(({ length }) => {
    const body = { model: "gpt-5", messages: messages.slice(0, length), tools, stream: true };
    return JSON.stringify(body).replaceAll('"content":"', `"content":"${NO_NAME} `);
  });
  return {
    requests,
    tokens: [ends[0]?.tokens ?? 0, ends.at(-1)?.tokens ?? 0],
    body: (session, request) => bodies[request]!.replaceAll(NO_NAME, session),
  };
}

/** Marks where the session's name is inserted; no text of the workload contains it. */
const NO_NAME = "~~~~~~~~";

/** The sessions of the workload one behind the other, the longest first, as one. */
function longSession() {
  const sessions = generateWorkload().toReversed();
  const messages = sessions.flatMap(({ messages }, number) =>
    messages.slice(number === 0 ? 0 : 1).map((message): Message => {
      if (message.role === "tool") return { ...message, tool_call_id: `${message.tool_call_id}-${number}` };
      if (message.role !== "assistant" || !message.tool_calls) return message;
      return {
        ...message,
        tool_calls: message.tool_calls.map((call) => ({ ...call, id: `${call.id}-${number}` })),
      };
    })
  );
  return { messages, tools: sessions[0]?.tools ?? [] };
}

/** How streams behave. */
export interface StreamOptions {
  readonly baseURL: string;
  /** Streams at the same time. */
  readonly streams: number;
  /** Sessions that each stream plays, one after the other. */
  readonly sessions: number;
  /** Longest pause between two requests of a session: what tools take. */
  readonly pauseMs: number;
  /** Tells these sessions from those of other runs: two letters. */
  readonly run: string;
}

/** Times from sending a request to the first byte of its reply, in milliseconds. */
export interface FirstBytes {
  /** Of the requests that open a session. */
  readonly opening: readonly number[];
  /** Of all others. */
  readonly following: readonly number[];
}

/** Plays sessions in so many streams at the same time. */
export async function playStreams(session: GrowingSession, options: StreamOptions): Promise<FirstBytes> {
  const { baseURL, streams, sessions, pauseMs, run } = options;
  const opening: number[] = [];
  const following: number[] = [];
  const pause = () => new Promise((resolve) => setTimeout(resolve, pauseMs * Math.random()));
  await Promise.all(Array.from({ length: streams }, async (_, stream) => {
    for (let at = 0; at < sessions; at++) {
      for (let request = 0; request < session.requests; request++) {
        await pause();
        const body = session.body(`${run}${stream}-${at}`, request);
        const startMs = performance.now();
        const response = await post(baseURL, body);
        (request === 0 ? opening : following).push(await firstByte(response) - startMs);
      }
    }
  }));
  return { opening, following };
}

async function post(baseURL: string, body: string) {
  const response = await fetch(`${baseURL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer none" },
    body,
  });
  if (response.ok) return response;
  throw new Error(`Cannot measure: the answer is ${response.status} ${await response.text()}`);
}

/** When the first byte came; reads the rest too. */
async function firstByte(response: Response): Promise<number> {
  let firstMs: number | undefined;
  for await (const _ of response.body ?? []) firstMs ??= performance.now();
  if (firstMs === undefined) throw new Error("Cannot measure: the reply is empty");
  return firstMs;
}

if (import.meta.main) {
  const [tokens, requests] = Deno.args.map(Number);
  if (!tokens || !requests) {
    throw new RangeError("Cannot play sessions: their tokens and requests are wanted");
  }
  const session = growingSession({ tokens, requests }, (await loadTokenizer()).count);
  console.log(JSON.stringify({ tokens: session.tokens, bytes: session.body("", requests - 1).length }));
  let rest = "";
  for await (const piece of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      console.log(JSON.stringify(await playStreams(session, JSON.parse(line) as StreamOptions)));
    }
  }
}
