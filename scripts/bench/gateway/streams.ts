import { countRequestTokens, type CountTokens } from "@tare/messages";
import { generateWorkload } from "../economy/workload.ts";

/** Prompts of growing sessions, the first of each of about so many tokens. */
const START_TOKENS = 93_000;

/** The bodies of growing sessions. They are alike but share no message, so that nothing is known of one from another. */
export interface GrowingSession {
  /** Requests of the session. */
  readonly requests: number;
  /** Tokens of its first and last prompt. */
  readonly tokens: readonly [first: number, last: number];
  /** The body of a session's request; `session` tells it from the others. */
  body(session: string, request: number): Uint8Array<ArrayBuffer>;
}

/** Takes so many successive requests of a long generated session, as an agent sends them: each with all before it. */
export function growingSession(requests: number, countTokens: CountTokens): GrowingSession {
  const { messages, tools, calls } = generateWorkload().at(-1)!;
  const tokensOf = (at: number) => {
    const call = calls[at];
    if (!call) throw new RangeError("Cannot make so long a session: the workload ends before");
    return countRequestTokens({ messages: messages.slice(0, call.messages), tools }, countTokens);
  };
  let start = 0;
  while (tokensOf(start) < START_TOKENS) start++;
  const encoder = new TextEncoder();
  const texts = calls.slice(start, start + requests).map((call) =>
    JSON.stringify({ model: "gpt-5", messages: messages.slice(0, call.messages), tools, stream: true })
  );
  return {
    requests,
    tokens: [tokensOf(start), tokensOf(start + requests - 1)],
    body: (session, request) =>
      encoder.encode(texts[request]?.replaceAll(CONTENT, () => `${CONTENT}${session} `)),
  };
}

/** How the text of every message begins. */
const CONTENT = '"content":"';

/** How streams behave. */
export interface StreamOptions {
  readonly baseURL: string;
  /** Streams at the same time. */
  readonly streams: number;
  /** Sessions that each stream plays, one after the other. */
  readonly sessions: number;
  /** Longest pause between two requests of a session: what tools take. */
  readonly pauseMs: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Times from sending a request to the first byte of its reply, in milliseconds. */
export interface FirstBytes {
  /** Of the requests that open a session. */
  readonly opening: readonly number[];
  /** Of all others. */
  readonly following: readonly number[];
}

/** Plays sessions in so many streams at the same time. */
export async function playStreams(
  session: GrowingSession,
  { baseURL, streams, sessions, pauseMs, headers = {} }: StreamOptions,
): Promise<FirstBytes> {
  const opening: number[] = [];
  const following: number[] = [];
  const pause = () => new Promise((resolve) => setTimeout(resolve, pauseMs * Math.random()));
  await Promise.all(Array.from({ length: streams }, async (_, stream) => {
    for (let at = 0; at < sessions; at++) {
      for (let request = 0; request < session.requests; request++) {
        await pause();
        const body = session.body(`${stream}-${at}`, request);
        const startMs = performance.now();
        const response = await post(baseURL, body, headers);
        const firstMs = await firstByte(response);
        (request === 0 ? opening : following).push(firstMs - startMs);
      }
    }
  }));
  return { opening, following };
}

/** Reads so many replies at the same time; gives bytes per second. */
export async function readBulk(baseURL: string, streams: number): Promise<number> {
  const body = new TextEncoder().encode(
    '{"model":"gpt-5","messages":[{"role":"user","content":"Go."}],"stream":true}',
  );
  const startMs = performance.now();
  const bytes = await Promise.all(Array.from({ length: streams }, async () => {
    let bytes = 0;
    const response = await post(baseURL, body, {});
    for await (const chunk of response.body ?? []) bytes += chunk.length;
    return bytes;
  }));
  return bytes.reduce((sum, bytes) => sum + bytes, 0) / ((performance.now() - startMs) / 1000);
}

async function post(baseURL: string, body: Uint8Array<ArrayBuffer>, headers: StreamOptions["headers"]) {
  const response = await fetch(`${baseURL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
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
