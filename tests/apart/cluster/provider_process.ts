/**
 * A simulated provider in a process of its own, which keeps what it was sent: run with a seed, it says where it listens.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { profileNamed } from "@tare/planner";
import { simulator } from "@tare/simulator";
import { seeded } from "../../seeded.ts";
import { responsesUpstream } from "../../gateway/responses_upstream.ts";
import { clusterModel } from "./cluster_model.ts";
import type { ProviderRequest } from "./provider.ts";

/** Longest pause before a piece of a reply, in milliseconds. */
const MAX_PAUSE_MS = 8;

const random = seeded(Number(Deno.args[0]));
const encode = (text: string) =>
  Array.from({ length: Math.ceil(text.length / 4) }, (_, at) => text.charCodeAt(at * 4));
const provider = simulator({
  model: clusterModel(random),
  tokenizer: { encode },
  profile: profileNamed("openai"),
});
const fetch = responsesUpstream(provider.fetch);
const conversations = new Map<string, ProviderRequest[]>();

/** The pieces of a request that a cache would compare, in their order, and by which text the conversation is known. */
function read(body: string): ProviderRequest & { readonly name: string } {
  const { messages, input, system, instructions, tools } = JSON.parse(body);
  const said = [system, instructions].filter((text) => text !== undefined && text !== null);
  const pieces: readonly unknown[] = [...said, ...(messages ?? input)].map(withoutMarks);
  const name = textOf(pieces[0]);
  return {
    name,
    tools: JSON.stringify(tools ?? null),
    messages: pieces.map((piece) => JSON.stringify(piece)),
    cachedTokens: 0,
  };
}

/** The first text in a piece. */
function textOf(piece: unknown): string {
  if (typeof piece === "string") return piece;
  const [part] = Array.isArray(piece) ? piece : [piece];
  const { text, content } = part as { readonly text?: string; readonly content?: unknown };
  return text ?? textOf(content);
}

/** Where a request asks for the cache moves on, and is no part of what is cached. */
function withoutMarks(piece: unknown): unknown {
  return JSON.parse(JSON.stringify(piece, (name, value) => name === "cache_control" ? undefined : value));
}

/** Keeps the request, and passes it on. */
async function answer(request: Request): Promise<Response> {
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
}

function slowly(): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    async transform(piece, controller) {
      await new Promise((resolve) => setTimeout(resolve, random() * MAX_PAUSE_MS));
      controller.enqueue(piece);
    },
  });
}

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`listens on http://127.0.0.1:${port}`),
}, async (request) => {
  const { pathname, searchParams } = new URL(request.url);
  if (pathname === "/recorded") return Response.json(conversations.get(searchParams.get("of") ?? "") ?? []);
  return request.method === "POST" ? await answer(request) : await fetch(request);
});
