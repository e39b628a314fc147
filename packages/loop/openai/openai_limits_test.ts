import { assertEquals } from "@std/assert";
import { ask, delta, reply, sse, stream } from "../provider_fixture_test.ts";

const MIB = 2 ** 20;
const END = delta({}, "stop");

async function delaysOf(...answers: readonly Response[]): Promise<unknown[]> {
  const { error, bodies } = await ask(answers, { maxRetries: answers.length - 1 });
  return [error?.code, error?.message.replace(/^.*?: /, ""), bodies.length];
}

/** Returns an endless body that repeats `text`; `left` settles when its reader cancels. */
function endless(text: string) {
  const bytes = new TextEncoder().encode(text);
  const left = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (controller) => controller.enqueue(bytes),
    cancel: () => left.resolve(),
  });
  return { body, left: left.promise };
}

const streamed = { headers: { "content-type": "text/event-stream" } };

Deno.test("openaiModel() fails for a reply with an endless line, without a retry", async () => {
  const { body, left } = endless("x".repeat(MIB));
  assertEquals(await delaysOf(new Response(body, streamed), reply(END)), [
    "bad_response",
    "one of its events has more than 16 MiB.",
    1,
  ]);
  await left;
});

Deno.test("openaiModel() fails for an endless reply", async () => {
  const { body, left } = endless(`: ${"x".repeat(MIB)}\n\n`);
  assertEquals(await delaysOf(new Response(body, streamed), reply(END)), [
    "bad_response",
    "its stream has more than 128 MiB.",
    1,
  ]);
  await left;
});

Deno.test("openaiModel() fails for a reply that is too long", async () => {
  const { body, left } = endless(sse(delta({ content: "x".repeat(MIB) })));
  const message = "the reply has more than 2000000 characters.";
  const { error, events } = await ask(new Response(body, streamed));
  assertEquals([error?.code, error?.message.replace(/^.*?: /, ""), events.length], [
    "bad_response",
    message,
    1,
  ]);
  await left;
});

Deno.test("openaiModel() limits the bytes read of an unstreamed reply", async () => {
  const { body, left } = endless(" ".repeat(MIB));
  const headers = { "content-type": "application/json" };
  assertEquals(await delaysOf(new Response(body, { headers }), reply(END)), [
    "bad_response",
    "it has more than 16 MiB.",
    1,
  ]);
  await left;
});

Deno.test("openaiModel() reads the beginning of an endless error body", async () => {
  const { body, left } = endless("no ".repeat(1_000));
  const { error } = await ask(new Response(body, { status: 400 }));
  assertEquals(
    error?.message.replace(/^.*?: /, "").slice(0, 45),
    "it refused the request (400: no no no no no n",
  );
  await left;
});

Deno.test("openaiModel() fails for a reply with too many calls", async () => {
  const calls = (count: number) =>
    stream(
      ...Array.from({ length: count }, (_, index) =>
        sse(delta({ tool_calls: [{ index, id: `c${index}`, function: { name: "f", arguments: "{}" } }] }))),
      sse(END),
    );
  assertEquals(await delaysOf(calls(257), reply(END)), [
    "bad_response",
    "it makes more than 256 tool calls.",
    1,
  ]);
  const { events } = await ask(calls(256));
  const last = events.at(-1);
  assertEquals(last?.type === "completed" && last.message.tool_calls?.length, 256);
});

Deno.test("openaiModel() doesn't retry after waits of hours, and doesn't follow redirects", async () => {
  const limited = Response.json({ error: { message: "Slow down." } }, {
    status: 429,
    headers: { "retry-after": "7200" },
  });
  assertEquals(await delaysOf(limited, reply(END)), [
    "rate_limited",
    "it reports an exceeded rate limit and requests a wait of 7200 s (429: Slow down).",
    1,
  ]);
  for (const status of [301, 302, 303, 307, 308]) {
    const away = new Response(null, { status, headers: { location: "/v1/chat/completions" } });
    assertEquals(await delaysOf(away, reply(END)), [
      "unreachable",
      `it redirects to "/v1/chat/completions" (${status}). Set the base URL to the final address.`,
      1,
    ]);
  }
});
