import { profileNamed } from "@tare/planner";
import { type SimulatedModel, simulator } from "@tare/simulator";

/** One request as it came: each tool and message as JSON, byte by byte what a cache would compare. */
export interface RecordedRequest {
  readonly tools: string;
  readonly messages: readonly string[];
}

/** A simulated provider on loopback. */
export interface RecordingProvider {
  /** The base URL for clients. */
  readonly url: string;
  /** The requests of a conversation in order; it is known by its first message. */
  readonly requestsOf: (firstMessage: string) => readonly RecordedRequest[];
  readonly close: () => Promise<void>;
}

/** Longest pause before a piece of a reply, in milliseconds. */
const MAX_PAUSE_MS = 3;

/** Serves a simulated provider that streams its replies piece by piece and keeps what it was sent. */
export function recordingProvider(model: SimulatedModel, random: () => number): RecordingProvider {
  const encode = (text: string) =>
    Array.from({ length: Math.ceil(text.length / 4) }, (_, at) => text.charCodeAt(at * 4));
  const provider = simulator({ model, tokenizer: { encode }, profile: profileNamed("openai") });
  const conversations = new Map<string, RecordedRequest[]>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    // Which models there are.
    if (request.method === "GET") return await provider.fetch(request);
    const body = await request.text();
    const { messages, tools } = JSON.parse(body);
    const recorded = {
      tools: JSON.stringify(tools),
      messages: messages.map((message: unknown) => JSON.stringify(message)),
    };
    const conversation = conversations.get(messages[0].content) ?? [];
    conversations.set(messages[0].content, [...conversation, recorded]);
    const { method, headers } = request;
    const answer = await provider.fetch(new Request(request.url, { method, headers, body }));
    return new Response(answer.body?.pipeThrough(slowly(random)) ?? null, answer);
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}/v1`,
    requestsOf: (firstMessage) => conversations.get(firstMessage) ?? [],
    close: () => server.shutdown(),
  };
}

function slowly(random: () => number): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    async transform(piece, controller) {
      await new Promise((resolve) => setTimeout(resolve, random() * MAX_PAUSE_MS));
      controller.enqueue(piece);
    },
  });
}
