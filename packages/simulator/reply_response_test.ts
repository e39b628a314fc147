import { assertEquals, assertRejects } from "@std/assert";
import { replyResponse } from "./reply_response.ts";
import { completionBody, completionChunks, type WireReply } from "./wire_reply.ts";

const reply: WireReply = {
  id: "c1",
  created: 5,
  model: "m",
  message: { role: "assistant", content: "A text that is longer than forty-eight characters." },
  finishReason: "stop",
};
const body = JSON.stringify(completionBody(reply));
const events = completionChunks(reply).map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);

/** What a client reads before the body ends or fails, and how it ends. */
async function read(response: Response): Promise<[string, string]> {
  let text = "";
  try {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) text += chunk;
    return [text, "complete"];
  } catch {
    return [text, "reset"];
  }
}

Deno.test("replyResponse() is a JSON body, or server-sent events that end with [DONE]", async () => {
  const whole = replyResponse(reply, { stream: false });
  assertEquals([whole.headers.get("content-type"), ...await read(whole)], [
    "application/json",
    body,
    "complete",
  ]);
  const streamed = replyResponse(reply, { stream: true });
  assertEquals([streamed.headers.get("content-type"), ...await read(streamed)], [
    "text/event-stream",
    `${events.join("")}data: [DONE]\n\n`,
    "complete",
  ]);
});

Deno.test("replyResponse() breaks off where the fault says", async () => {
  const streamed = { stream: true } as const;
  assertEquals(await read(replyResponse(reply, { ...streamed, fault: { type: "cut" } })), [
    events.slice(0, 3).join(""),
    "reset",
  ]);
  assertEquals(
    await read(replyResponse(reply, { ...streamed, fault: { type: "cut", afterChunks: 1, quietly: true } })),
    [
      events.slice(0, 1).join(""),
      "complete",
    ],
  );
  assertEquals(await read(replyResponse(reply, { stream: false, fault: { type: "cut" } })), [
    body.slice(0, body.length / 2),
    "reset",
  ]);
});

Deno.test("replyResponse() stalls until the client gives up", async () => {
  const giveUp = new AbortController();
  const response = replyResponse(reply, { stream: true, fault: { type: "stall", afterChunks: 2 } });
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
  const silent = replyResponse(reply, { stream: false, fault: { type: "stall" } });
  const reader = silent.body!.getReader();
  const first = reader.read();
  await reader.cancel();
  assertEquals((await first).done, true);
});
