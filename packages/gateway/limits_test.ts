import { assertEquals, assertStringIncludes } from "@std/assert";
import { BASH } from "./agents_fixture_test.ts";
import { completion, gatewayed, post } from "./fixture_test.ts";

const MIB = 2 ** 20;
const encode = (text: string) => new TextEncoder().encode(text);
const REQUEST = { model: "m", stream: true, messages: [{ role: "user", content: "Hi" }], tools: [BASH] };

async function passed(pieces: readonly string[], type = "text/event-stream") {
  let next = 0;
  const upstream = () =>
    new Response(
      new ReadableStream<Uint8Array<ArrayBuffer>>({
        pull(controller) {
          const piece = pieces[next++];
          if (piece === undefined) controller.close();
          else controller.enqueue(encode(piece));
        },
      }),
      { headers: { "content-type": type } },
    );
  const errors: unknown[] = [];
  const { fetch } = gatewayed(upstream, { onError: (error) => errors.push(error) });
  const response = await fetch(post({ ...REQUEST, stream: type === "text/event-stream" }));
  return { text: await response.text(), reported: errors.map(String) };
}

const chunk = (delta: object) => `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta }] })}\n\n`;
const isSame = (text: string, pieces: readonly string[]) => text === pieces.join("");

Deno.test("gateway() forwards a stream that begins with line feeds", async () => {
  const pieces = ["\n", "\r\n\n", chunk({ content: "Hi" }), "data: [DONE]\n\n"];
  const { text, reported } = await passed(pieces);
  assertEquals([isSame(text, pieces), reported], [true, []]);
});

Deno.test("gateway() forwards a stream unchanged from an event that is too long", async () => {
  const pieces = [
    chunk({ content: "Hi" }),
    'data: {"x":"',
    ...Array(17).fill("x".repeat(MIB)),
    '"}\n\n',
    "data: [DONE]\n\n",
  ];
  const { text, reported } = await passed(pieces);
  assertEquals([isSame(text, pieces), reported], [true, [
    "Error: Cannot process a model call: one of its events has more than 16 MiB; the rest of the stream is forwarded unchanged.",
  ]]);
});

Deno.test("gateway() forwards a stream with too many calls unchanged", async () => {
  const call = (index: number) => ({ index, id: `c${index}`, function: { name: "f", arguments: "{}" } });
  const pieces = [
    ...Array.from({ length: 257 }, (_, index) => chunk({ tool_calls: [call(index)] })),
    "data: [DONE]\n\n",
  ];
  const { text, reported: [reported] } = await passed(pieces);
  assertEquals(isSame(text, pieces), true);
  assertStringIncludes(
    String(reported),
    "it makes more than 256 tool calls; the rest of the stream is forwarded",
  );
});

Deno.test("gateway() forwards a reply that is too long unchanged", async () => {
  const pieces = ['{"choices": [], "x": "', ...Array(17).fill("x".repeat(MIB)), '"}'];
  const { text, reported } = await passed(pieces, "application/json");
  assertEquals([isSame(text, pieces), reported], [true, [
    "Error: Cannot process a model call: the reply has more than 16 MiB; the answer is forwarded unchanged.",
  ]]);
});

Deno.test("gateway() reads only the quoted part of an error", async () => {
  const left = Promise.withResolvers<void>();
  const recall = { index: 0, id: "r", function: { name: "recall", arguments: '{"ref":"x"}' } };
  const replies = [
    () =>
      new Response(
        chunk({ tool_calls: [recall] }) +
          `data: ${
            JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] })
          }\n\ndata: [DONE]\n\n`,
        { headers: { "content-type": "text/event-stream" } },
      ),
    () =>
      new Response(
        new ReadableStream({
          pull: (controller) => controller.enqueue(encode("no ".repeat(100))),
          cancel: () => left.resolve(),
        }),
        { status: 500 },
      ),
  ];
  const { fetch } = gatewayed(() => replies.shift()!());
  const text = await (await fetch(post(REQUEST))).text();
  assertStringIncludes(text, "The upstream answered 500: no no ");
  await left.promise;
});

Deno.test("gateway() forwards a request that is nested too deep unchanged", async () => {
  const errors: unknown[] = [];
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }), {
    onError: (error) => errors.push(error),
  });
  const body = `{"model":"m","messages":[{"role":"user","content":"Hi","x":${"[".repeat(300)}${
    "]".repeat(300)
  }}]}`;
  const response = await fetch(post(body));
  await response.body?.cancel();
  assertEquals([seen.map(({ text }) => text), response.status], [[body], 200]);
  assertEquals(errors.map(String), [
    "Error: Cannot process a model call: it is nested more than 200 levels deep; the request was forwarded unchanged.",
  ]);
});
