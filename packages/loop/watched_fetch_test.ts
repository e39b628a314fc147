import { assertEquals } from "@std/assert";
import { ask, completed, delta, reply, sse, stream } from "./openai_fixture_test.ts";

Deno.test("watchedFetch() counts each arrival of bytes as a sign of life, keep-alives too", async () => {
  let signs = 0;
  let seen = -1;
  const look = async () => {
    // The packet before is on its way until its sign has come.
    while (signs === seen) await new Promise((resolve) => setTimeout(resolve));
    seen = signs;
  };
  const asked = await ask(
    stream(": keep-alive\n\n", look, ": keep-alive\n\n", look, sse(delta({ content: "Hi" }, "stop"))),
    { request: { progress: () => signs++ } },
  );
  assertEquals(completed(asked).message.content, "Hi");
});

Deno.test("watchedFetch() makes a stream of a reply that isn't streamed", async () => {
  const message = {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: '{"a":"b\\nc"}' } }],
  };
  const body = {
    choices: [{ message, finish_reason: "tool_calls" }],
    usage: { prompt_tokens: 3, completion_tokens: 1 },
  };
  for (const indent of [0, 2]) {
    const asked = await ask(
      new Response(JSON.stringify(body, null, indent), {
        headers: { "content-type": "application/json; charset=utf-8" },
      }),
    );
    assertEquals(completed(asked), {
      type: "completed",
      message,
      finishReason: "tool_calls",
      usage: { promptTokens: 3, cachedTokens: 0, outputTokens: 1 },
    } as never);
  }
});

Deno.test("watchedFetch() leaves what is neither to be told as such", async () => {
  for (const type of ["text/html", "application/json"]) {
    const { error } = await ask(new Response("<html>Welcome</html>", { headers: { "content-type": type } }));
    assertEquals(error?.code, "bad_response");
  }
  assertEquals((await ask(reply({ hello: "world" }))).error?.code, "bad_response");
});
