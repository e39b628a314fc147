/**
 * A simulated provider as a process of its own. A model's name says how long it thinks before it answers, how many
 * words it says with each call, and how many of them a second: `after-250` thinks 250 ms and says nothing with its calls,
 * `after-250-say-100-at-80` says 100 words in more than a second. Each turn makes three calls of `read_file`, one a step,
 * and then answers. `POST /bench/times` hands out when each request came and when its reply had been sent, by the part of
 * the user's message that stands in brackets, since it was last asked.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { simulator, toolCall } from "@tare/simulator";

/** Steps in which a turn calls a tool. */
const TOOL_STEPS = 3;

/** How a model of this name answers. */
function mannerOf(model: string): { delayMs: number; words: number; perSecond: number } {
  const [, delay = 0, words = 0, speed = Infinity] =
    /^after-(\d+)(?:-say-(\d+)(?:-at-(\d+))?)?$/.exec(model) ?? [];
  return { delayMs: Number(delay), words: Number(words), perSecond: Number(speed) };
}

const provider = simulator({
  async model({ model, messages }) {
    const { delayMs, words } = mannerOf(model);
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
    const results = messages.length - 1 - messages.findLastIndex(({ role }) => role === "user");
    const step = Math.floor(results / 2) + 1;
    const content = "word ".repeat(words);
    return step > TOOL_STEPS
      ? { content: content || "The file says what was expected of it, and nothing else." }
      : {
        content: content || null,
        tool_calls: [toolCall("read_file", { path: "notes.txt", start_line: step })],
      };
  },
  // Cheap, since the provider shares the machine with what is measured.
  tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) },
});

/** A streamed reply whose words come one by one, so many a second. At infinite speed it is as it was. */
function paced(response: Response, perSecond: number): Response {
  const { body } = response;
  if (perSecond === Infinity || !body) return response;
  const encoder = new TextEncoder();
  const everyMs = 1000 / perSecond;
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      const startedAt = performance.now();
      let words = 0;
      for (const line of (await new Response(body).text()).split("\n\n")) {
        for (const piece of line === "" ? [] : wordsOf(line)) {
          controller.enqueue(encoder.encode(`${piece}\n\n`));
          // By the start, so that timers that are late add up to nothing.
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

/** A chunk as a provider sends it that tells every word as soon as it has it. */
function wordsOf(line: string): string[] {
  const content = /"content":"([^"\\]+)"/.exec(line)?.[1];
  const words = content?.match(/\s*\S+|\s+$/g);
  return words?.map((word) => line.replace(`"content":"${content}"`, `"content":"${word}"`)) ?? [line];
}

/** When a request came and when its reply had been sent, in milliseconds since the epoch, by what the user said. */
const times: Record<string, [cameMs: number, sentMs: number][]> = {};

const nowMs = () => performance.timeOrigin + performance.now();

/** Notes when the reply has been sent. */
function timed({ messages = [] }: Asked, response: Response, cameMs: number): Response {
  const said = /\(([\d.]+)\)$/.exec(String(messages.findLast(({ role }) => role === "user")?.content))?.[1];
  if (said === undefined) return response;
  const pass = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    flush: () => void (times[said] ??= []).push([cameMs, nowMs()]),
  });
  return new Response(response.body?.pipeThrough(pass) ?? null, response);
}

/** What of a request's body counts here. */
interface Asked {
  readonly model?: string;
  readonly messages?: readonly { readonly role: string; readonly content: unknown }[];
}

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`provider listens on http://127.0.0.1:${port}/v1`),
}, async (request) => {
  const cameMs = nowMs();
  if (new URL(request.url).pathname === "/bench/times") {
    const told = Response.json(times);
    for (const said of Object.keys(times)) delete times[said];
    return told;
  }
  const asked: Asked = request.method === "POST" ? await request.clone().json() : {};
  const response = paced(await provider.fetch(request), mannerOf(asked.model ?? "").perSecond);
  return timed(asked, response, cameMs);
});
