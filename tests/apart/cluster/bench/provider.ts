/**
 * Runs a simulated provider as a process of its own, with the latency of {@linkcode MANNER}. Each turn makes
 * three calls of `read_file`, one a step, and then answers. `POST /bench/times` returns the times of each
 * request and its reply's end since the last call, by the part of the user's message in brackets.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { simulator, toolCall } from "@tare/simulator";
import { MANNER } from "./load.ts";

const TOOL_STEPS = 3;

const provider = simulator({
  async model({ messages }) {
    await new Promise((resolve) => setTimeout(resolve, MANNER.thinkMs));
    const results = messages.length - 1 - messages.findLastIndex(({ role }) => role === "user");
    const step = Math.floor(results / 2) + 1;
    const content = "word ".repeat(MANNER.words);
    const calls = [toolCall("read_file", { path: "notes.txt", start_line: step })];
    return { content, ...(step <= TOOL_STEPS && { tool_calls: calls }) };
  },
  // Cheap, since the provider shares the machine with the measured servers.
  tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) },
});

function paced(response: Response): Response {
  const encoder = new TextEncoder();
  const everyMs = 1000 / MANNER.perSecond;
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      const startedAt = performance.now();
      let words = 0;
      for (const line of (await response.text()).split("\n\n")) {
        for (const piece of line === "" ? [] : wordsOf(line)) {
          controller.enqueue(encoder.encode(`${piece}\n\n`));
          // Relative to the start, so that late timers don't accumulate.
          const waitMs = piece.includes('"content":"')
            ? startedAt + ++words * everyMs - performance.now()
            : 0;
          if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
        }
      }
      controller.close();
    },
  });
  return new Response(stream, response);
}

/** Splits a chunk into one chunk per word, as a provider that sends each word at once. */
function wordsOf(line: string): string[] {
  const content = /"content":"([^"\\]+)"/.exec(line)?.[1];
  const words = content?.match(/\s*\S+|\s+$/g);
  return words?.map((word) => line.replace(`"content":"${content}"`, `"content":"${word}"`)) ?? [line];
}

/** Times of requests and replies' ends in epoch milliseconds, by user message. */
const times: Record<string, [arrivedMs: number, sentMs: number][]> = {};

const nowMs = () => performance.timeOrigin + performance.now();

function timed({ messages = [] }: Body, response: Response, arrivedMs: number): Response {
  const text = /\(([\d.]+)\)$/.exec(String(messages.findLast(({ role }) => role === "user")?.content))?.[1];
  if (text === undefined) return response;
  const pass = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    flush: () => void (times[text] ??= []).push([arrivedMs, nowMs()]),
  });
  return new Response(response.body?.pipeThrough(pass) ?? null, response);
}

interface Body {
  readonly messages?: readonly { readonly role: string; readonly content: unknown }[];
}

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`provider listens on http://127.0.0.1:${port}/v1`),
}, async (request) => {
  const arrivedMs = nowMs();
  if (new URL(request.url).pathname === "/bench/times") {
    const reply = Response.json(times);
    for (const text of Object.keys(times)) delete times[text];
    return reply;
  }
  if (request.method !== "POST") return await provider.fetch(request);
  const body: Body = await request.clone().json();
  return timed(body, paced(await provider.fetch(request)), arrivedMs);
});
