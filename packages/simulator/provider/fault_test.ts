import { assertEquals, assertRejects } from "@std/assert";
import { type Fault, scripted, type SimulatedReply, simulator, type ToolCallPieces } from "@tare/simulator";

function answer(reply: SimulatedReply, { stream = false } = {}): Promise<Response> {
  const provider = simulator({
    model: scripted([reply]),
    tokenizer: { encode: (text) => Array.from(text, (character) => character.charCodeAt(0)) },
    now: () => 5_000,
  });
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }], stream });
  return provider.fetch(new Request("http://provider/v1/chat/completions", { method: "POST", body }));
}

async function read(response: Response): Promise<[string, string]> {
  let text = "";
  try {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) text += chunk;
    return [text, "complete"];
  } catch (error) {
    return [text, (error as Error).message];
  }
}

Deno.test("simulator() returns the errors of faults that reject a request", async () => {
  const seen = async (fault: Fault) => {
    const response = await answer({ fault });
    const { error } = await response.json();
    return [response.status, error.code, error.message, response.headers.get("retry-after")];
  };
  assertEquals(
    await Promise.all(([
      { type: "rate_limit", retryAfterMs: 1500 },
      { type: "error" },
      { type: "error", status: 401, message: "No such key." },
      { type: "prompt_too_long" },
    ] as const).map(seen)),
    [
      [429, "rate_limit_exceeded", "Rate limit reached: try again in 1500 ms.", "2"],
      [500, null, "The simulated provider fails on demand with status 500.", null],
      [401, "invalid_api_key", "No such key.", null],
      [
        400,
        "context_length_exceeded",
        "The prompt is too long for this model. Please reduce the length of the messages.",
        null,
      ],
    ],
  );
});

const reply = { content: "A text that is longer than forty-eight characters." };
const body = await (await answer(reply)).text();
const events = (await (await answer(reply, { stream: true })).text()).split(/(?<=\n\n)/);

Deno.test("simulator() returns a JSON body, or server-sent events that end with [DONE]", async () => {
  const types = [await answer(reply), await answer(reply, { stream: true })].map(async (response) => {
    await response.body?.cancel();
    return response.headers.get("content-type");
  });
  assertEquals(await Promise.all(types), ["application/json", "text/event-stream"]);
  assertEquals([events.length, events.at(-1)], [6, "data: [DONE]\n\n"]);
});

Deno.test("simulator() ends a body after the fault's number of chunks", async () => {
  const broken = async (fault: Fault, stream = true) => read(await answer({ ...reply, fault }, { stream }));
  const reset = "The simulated provider reset the connection.";
  assertEquals(await broken({ type: "cut" }), [events.slice(0, 3).join(""), reset]);
  assertEquals(await broken({ type: "cut", afterChunks: 1, quietly: true }), [events[0]!, "complete"]);
  assertEquals(await broken({ type: "cut" }, false), [body.slice(0, body.length / 2), reset]);
});

Deno.test("simulator() stalls until the client disconnects", async () => {
  const giveUp = new AbortController();
  const response = await answer({ ...reply, fault: { type: "stall", afterChunks: 2 } }, { stream: true });
  let seen = "";
  const reading = response.body!.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({
      write(text) {
        seen += text;
        if (seen === events.slice(0, 2).join("")) giveUp.abort();
      },
    }),
    { signal: giveUp.signal },
  );
  await assertRejects(() => reading, DOMException, "aborted");
  const silent = await answer({ ...reply, fault: { type: "stall" } });
  const reader = silent.body!.getReader();
  const first = reader.read();
  await reader.cancel();
  assertEquals((await first).done, true);
});

const long = `{"text":"${"x".repeat(20)}"}`;
const a = { id: "a", type: "function", function: { name: "f", arguments: long } } as const;
const b = { id: "b", type: "function", function: { name: "g", arguments: "{}" } } as const;

Deno.test("simulator() splits tool calls in each unusual way", async () => {
  const cut = async (pieces: ToolCallPieces, tool_calls: SimulatedReply["tool_calls"] = []) => {
    const response = await answer({ tool_calls, fault: { type: "odd_tool_calls", pieces } }, {
      stream: true,
    });
    const chunks = (await response.text()).split("\n\n").map((event) => event.slice("data: ".length))
      .filter((data) => data !== "" && data !== "[DONE]").map((data) => JSON.parse(data));
    return chunks.map((chunk) => chunk.choices[0].delta.tool_calls).filter((calls) => calls !== undefined);
  };
  const open = (index: number, { id, type, function: { name } }: typeof a | typeof b) => ({
    index,
    id,
    type,
    function: { name, arguments: "" },
  });
  const piece = (index: number, text: string) => ({ index, function: { arguments: text } });
  assertEquals(await cut("whole", [a, b]), [[{ index: 0, ...a }, { index: 1, ...b }]]);
  assertEquals(await cut("whole"), []);
  assertEquals(await cut("no_index", [a, b]), [[a], [b]]);
  assertEquals(await cut("no_id", [b]), [[{ ...open(0, b), id: "" }], [piece(0, "{}")]]);
  assertEquals(await cut("characters", [{ ...a, function: { name: "f", arguments: "😀" } }]), [
    [open(0, a)],
    [piece(0, "\ud83d")],
    [piece(0, "\ude00")],
  ]);
  assertEquals(await cut("repeated", [b]), [
    [open(0, b)],
    [{ index: 0, id: "b", function: { name: "g", arguments: "{}" } }],
  ]);
  assertEquals(await cut("interleaved", [a, b]), [
    [open(0, a)],
    [open(1, b)],
    [piece(0, long.slice(0, 24))],
    [piece(1, "{}")],
    [piece(0, long.slice(24))],
  ]);
});
