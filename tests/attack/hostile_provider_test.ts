import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { withServer } from "./watched_server.ts";
import { refusedBy } from "../refused.ts";

const MIB = 2 ** 20;
const encoder = new TextEncoder();

const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;

const call = (index: number, name: string) => ({
  tool_calls: [{ index, id: `c${index}`, type: "function", function: { name, arguments: "{}" } }],
});

const READ = { type: "function", function: { name: "read" } };

function streamed(pieces: Iterable<string>): Response {
  const next = pieces[Symbol.iterator]();
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      const { done, value } = next.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

function* times(count: number, piece: string): Iterable<string> {
  for (let at = 0; at < count; at++) yield piece;
}

function* joined(...parts: Iterable<string>[]): Iterable<string> {
  for (const part of parts) yield* part;
}

const END = [chunk({}, "stop"), "data: [DONE]\n\n"];

const ATTACKS: Readonly<Record<string, { readonly reply: () => Response; readonly expected: string }>> = {
  "a line of 20 MB": {
    reply: () => streamed(joined(['data: {"x":"'], times(320, "x".repeat(MIB / 16)), ['"}\n\n'], END)),
    expected: "one of its events has more than 16 MiB",
  },
  "a line without an end": {
    reply: () => streamed(times(Infinity, "x".repeat(MIB))),
    expected: "one of its events has more than 16 MiB",
  },
  "a reply without an end": {
    reply: () => streamed(times(Infinity, chunk({ content: "word ".repeat(MIB / 5) }))),
    expected: "the reply has more than 2000000 characters",
  },
  "a whole reply without an end": {
    reply: () => {
      const { body } = streamed(times(Infinity, " ".repeat(MIB)));
      return new Response(body, { headers: { "content-type": "application/json" } });
    },
    expected: "it has more than 16 MiB",
  },
  "30,000 calls": {
    reply: () =>
      streamed(
        joined(Array.from({ length: 30_000 }, (_, at) => chunk(call(at, "nobody"))), [
          chunk({}, "tool_calls"),
        ]),
      ),
    expected: "it makes more than 256 tool calls",
  },
  "an error without an end": {
    reply: () => new Response(streamed(times(Infinity, "no ".repeat(1_000))).body, { status: 400 }),
    expected: "it refused the request (400: no no no",
  },
  "hours to wait": {
    reply: () =>
      Response.json({ error: { message: "Slow." } }, { status: 429, headers: { "retry-after": "86400" } }),
    expected: "it reports an exceeded rate limit and requests a wait of 86400 s",
  },
  "redirects without an end": {
    reply: () => new Response(null, { status: 307, headers: { location: "/v1/chat/completions" } }),
    expected: 'it redirects to "/v1/chat/completions" (307)',
  },
};

Deno.test("hostile provider: its turn ends with an error, within memory limits, and delays no other request", async (t) => {
  let reply = () => streamed([chunk({ content: "Hello." }), ...END]);
  let requestCount = 0;
  const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    if (request.method === "POST") requestCount++;
    return reply();
  });
  const args = ["--base-url", `http://127.0.0.1:${provider.addr.port}/v1`, "--model", "m"];
  try {
    await withServer(args, async (server) => {
      const { text, memory } = await server.turn();
      assertStringIncludes(text, '"reason":"completed"');
      // Long and harmless: as many bytes in ordinary events.
      reply = () =>
        streamed(joined(times(20_000, chunk({ content: "innocent " }) + `: ${"x".repeat(900)}\n\n`), END));
      const innocent = await server.turn();
      assertStringIncludes(innocent.text, '"reason":"completed"');
      for (const [name, attack] of Object.entries(ATTACKS)) {
        await t.step(name, async () => {
          reply = attack.reply;
          requestCount = 0;
          const seen = await server.turn();
          assertStringIncludes(seen.text, JSON.stringify(attack.expected).slice(1, -1));
          assertStringIncludes(seen.text, '"type":"turn_end"');
          assertEquals(requestCount, 1);
          assert(
            seen.stallMs < 5 * innocent.stallMs + 1_000,
            `stalled ${seen.stallMs} ms (${innocent.stallMs} ms)`,
          );
          assert(seen.memory < memory + 700 * MIB, `took ${Math.round((seen.memory - memory) / MIB)} MiB`);
        });
      }
      await t.step("hostile provider: a turn works after the attacks", async () => {
        reply = () => streamed([chunk({ content: "Hello again." }), ...END]);
        assertStringIncludes((await server.turn()).text, '"reason":"completed"');
      });
    });
  } finally {
    await provider.shutdown();
  }
});

Deno.test("hostile provider: a tool name of a megabyte is an unknown tool like any other", async () => {
  let requestCount = 0;
  const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "POST") {
      requestCount++;
      const refused = refusedBy(new URL(request.url).pathname, await request.json());
      if (refused) return refused;
    }
    return requestCount === 1
      ? streamed([chunk(call(0, "read file ".repeat(100_000))), chunk({}, "tool_calls"), "data: [DONE]\n\n"])
      : streamed([chunk({ content: "Well." }), ...END]);
  });
  const args = ["--base-url", `http://127.0.0.1:${provider.addr.port}/v1`, "--model", "m"];
  try {
    await withServer(args, async (server) => {
      const { text } = await server.turn();
      assertStringIncludes(text, "there is no such tool");
      assertStringIncludes(text, '"reason":"completed"');
    });
  } finally {
    await provider.shutdown();
  }
});

Deno.test("hostile provider: a line of 64 MiB passes the gateway unchanged and delays no other request", async () => {
  let pieces: () => Iterable<string> = () => [];
  const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => streamed(pieces()));
  const ask = { model: "m", stream: true, messages: [{ role: "user", content: "Hello?" }], tools: [READ] };
  try {
    await withServer(["--base-url", `http://127.0.0.1:${provider.addr.port}/v1`], async (server) => {
      const ordinary = `: ${"x".repeat(1_000)}\n\n`;
      pieces = () => joined([chunk({ content: "Hi" })], times(64 * 1_046, ordinary), END);
      const innocent = await server.post("/v1/chat/completions", JSON.stringify(ask));
      pieces = () =>
        joined([chunk({ content: "Hi" }), "data: "], times(1_024, "x".repeat(MIB / 16)), ["\n\n"], END);
      const { text, ms, memory } = await server.post("/v1/chat/completions", JSON.stringify(ask));
      assertEquals([text.length, text.endsWith("data: [DONE]\n\n")], [[...pieces()].join("").length, true]);
      assert(ms < 5 * innocent.ms + 2_000, `took ${Math.round(ms)} ms (${Math.round(innocent.ms)} ms)`);
      assert(
        memory < innocent.memory + 300 * MIB,
        `took ${Math.round((memory - innocent.memory) / MIB)} MiB`,
      );
    });
  } finally {
    await provider.shutdown();
  }
});
