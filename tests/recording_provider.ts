/**
 * Simulates a provider for tests: a model decides the replies, pieces are sent after pauses, and requests
 * are recorded. Contains no tests.
 *
 * @module
 */
import { profileNamed } from "@tare/planner";
import { simulator, type SimulatorOptions } from "@tare/simulator";
import { responsesUpstream } from "./gateway/responses_upstream.ts";

/** Request, each part as JSON, which a cache would compare byte by byte. */
export interface RecordedRequest {
  readonly tools: string;
  readonly messages: readonly string[];
  readonly cachedTokens: number;
}

/** Simulated provider of three protocols that records its requests. */
export interface Recorder {
  readonly fetch: (request: Request) => Promise<Response>;
  /** Returns the requests of a conversation in order; it is identified by its first text. */
  readonly requestsOf: (firstText: string) => readonly RecordedRequest[];
}

export interface RecordingProvider extends Pick<Recorder, "requestsOf"> {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Serves a recorder whose pauses are at most 3 ms. */
export function recordingProvider(
  model: SimulatorOptions["model"],
  random: () => number = () => 0,
): RecordingProvider {
  const { fetch, requestsOf } = recorder(model, { random, maxPauseMs: 3 });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, fetch);
  return {
    url: `http://127.0.0.1:${server.addr.port}/v1`,
    requestsOf,
    close: () => server.shutdown(),
  };
}

/** Returns a provider that streams each piece of a reply after a random pause. */
export function recorder(
  model: SimulatorOptions["model"],
  { random, maxPauseMs }: { readonly random: () => number; readonly maxPauseMs: number },
): Recorder {
  const encode = (text: string) =>
    Array.from({ length: Math.ceil(text.length / 4) }, (_, at) => text.charCodeAt(at * 4));
  const provider = simulator({ model, tokenizer: { encode }, profile: profileNamed("openai") });
  const fetch = responsesUpstream(provider.fetch);
  const conversations = new Map<string, RecordedRequest[]>();
  const slowly = () =>
    new TransformStream<Uint8Array, Uint8Array>({
      async transform(piece, controller) {
        await new Promise((resolve) => setTimeout(resolve, random() * maxPauseMs));
        controller.enqueue(piece);
      },
    });
  return {
    requestsOf: (firstText) => conversations.get(firstText) ?? [],
    async fetch(request) {
      if (request.method !== "POST") return await fetch(request);
      const body = await request.text();
      const { name, ...recorded } = read(body);
      const known = conversations.get(name) ?? [];
      conversations.set(name, known);
      const place = known.push(recorded) - 1;
      const { method, headers, url } = request;
      const response = await fetch(new Request(url, { method, headers, body }));
      // Others may have been answered at the same time.
      const answered = provider.requests.findLast(({ messages: [first] }) => textOf(first?.content) === name);
      known[place] = { ...recorded, cachedTokens: answered?.cachedTokens ?? 0 };
      return new Response(response.body?.pipeThrough(slowly()) ?? null, response);
    },
  };
}

/** Returns the parts of a request that a cache would compare, and the text that identifies it. */
function read(body: string): RecordedRequest & { readonly name: string } {
  const { messages, input, system, instructions, tools } = JSON.parse(body);
  const heads = [system, instructions].filter((text) => text !== undefined && text !== null);
  const parts: readonly unknown[] = [...heads, ...(messages ?? input)].map(withoutBreakpoints);
  return {
    name: textOf(parts[0]),
    tools: JSON.stringify(tools ?? null),
    messages: parts.map((part) => JSON.stringify(part)),
    cachedTokens: 0,
  };
}

function textOf(part: unknown): string {
  if (typeof part === "string") return part;
  const [first] = Array.isArray(part) ? part : [part];
  const { text, content } = (first ?? {}) as { readonly text?: string; readonly content?: unknown };
  return text ?? (content === undefined || content === null ? "" : textOf(content));
}

/** Removes cache breakpoints, which move from request to request and are not part of the cached content. */
function withoutBreakpoints(part: unknown): unknown {
  return JSON.parse(JSON.stringify(part, (name, value) => name === "cache_control" ? undefined : value));
}
