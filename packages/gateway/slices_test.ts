import { assertEquals } from "@std/assert";
import { completion, gatewayed } from "./fixture_test.ts";

Deno.test("gateway() answers a short request before a long history has been read", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Fine." }));
  const post = (messages: readonly object[]) =>
    fetch(
      new Request("http://gateway.example/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "m", messages }),
      }),
    );
  const messages = Array.from(
    { length: 3_000 },
    (_, at) => ({ role: "user", content: `${at} some words`.repeat(9) }),
  );
  const answers = await Promise.all([post(messages), post([{ role: "user", content: "Short." }])]);
  assertEquals(answers.map(({ status }) => status), [200, 200]);
  assertEquals(seen.map(({ body }) => body.messages.length), [1, 3_000]);
});
