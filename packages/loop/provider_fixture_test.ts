import type { ModelError } from "@tare/loop";
import type { Model, ModelEvent, ModelRequest } from "@tare/messages";
import { openaiModel, type OpenaiModelOptions } from "@tare/loop/openai";
import { assert } from "@std/assert";
import { refusedBy } from "../../tests/refused.ts";

export interface SentRequest {
  readonly events: ModelEvent[];
  readonly bodies: Record<string, unknown>[];
  readonly headers: Headers;
  readonly error?: ModelError;
}

export const REQUEST: ModelRequest = {
  messages: [{ role: "user", content: "Hi" }],
  tools: [],
  signal: new AbortController().signal,
};

export function sse(data: unknown): string {
  return `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
}

export function delta(fields: Record<string, unknown>, finish_reason: string | null = null): unknown {
  return { object: "chat.completion.chunk", choices: [{ index: 0, delta: fields, finish_reason }] };
}

/** Returns a stream with each part in its own packet; functions run in between. */
export function stream(...parts: readonly (string | (() => void | Promise<void>))[]): Response {
  const encoder = new TextEncoder();
  let next = 0;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const part = parts[next++];
        if (part === undefined) return controller.close();
        if (typeof part === "string") return controller.enqueue(encoder.encode(part));
        await part();
      }
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

export function reply(...chunks: readonly unknown[]): Response {
  return stream(...chunks.map(sse), sse("[DONE]"));
}

export async function ask(
  answers: Response | readonly Response[],
  options: Partial<OpenaiModelOptions> & { readonly request?: Partial<ModelRequest> } = {},
): Promise<SentRequest> {
  const { request, ...modelOptions } = options;
  const make = (url: string) =>
    openaiModel({ model: "m", baseURL: `${url}/v1`, maxRetries: 0, ...modelOptions });
  return await askProvider(answers, { make, request });
}

export async function askProvider(
  answers: Response | readonly Response[],
  { make, request }: {
    readonly make: (url: string) => Model;
    readonly request?: Partial<ModelRequest> | undefined;
  },
): Promise<SentRequest> {
  const waiting = Array.isArray(answers) ? [...answers] : [answers];
  const bodies: Record<string, unknown>[] = [];
  let headers = new Headers();
  const serveOptions = { port: 0, onListen() {}, onError: () => new Response(null, { status: 500 }) };
  const server = Deno.serve(serveOptions, async (request) => {
    headers = request.headers;
    const path = new URL(request.url).pathname;
    const body = await request.json();
    bodies.push({ path, ...body });
    const refused = refusedBy(path, body);
    if (refused) return refused;
    return waiting.shift() ?? new Response("No answer is left.", { status: 400 });
  });
  const events: ModelEvent[] = [];
  try {
    const model = make(`http://127.0.0.1:${server.addr.port}`);
    for await (const event of model({ ...REQUEST, ...request })) events.push(event);
    return { events, bodies, headers };
  } catch (error) {
    return { events, bodies, headers, error: error as ModelError };
  } finally {
    await server.shutdown();
  }
}

export function completed({ events, error }: SentRequest): Extract<ModelEvent, { type: "completed" }> {
  if (error) throw error;
  const last = events.at(-1);
  assert(last?.type === "completed");
  return last;
}

/** Returns a model whose provider hangs after this text. `gone` resolves when the client disconnects. */
export function endless(
  answered: string = sse(delta({ content: "Hi" })),
): { readonly model: Model; readonly gone: Promise<void> } {
  const left = Promise.withResolvers<void>();
  const first = new TextEncoder().encode(answered);
  const server = Deno.serve({ port: 0, onListen() {} }, () =>
    new Response(
      new ReadableStream({ start: (stream) => stream.enqueue(first), cancel: () => left.resolve() }),
    ));
  const model = openaiModel({ model: "m", baseURL: `http://127.0.0.1:${server.addr.port}` });
  return { model, gone: left.promise.then(() => server.shutdown()) };
}
