import { assertEquals } from "@std/assert";
import { run } from "@tare/loop";
import type { Message } from "@tare/messages";
import { collect, say, scripted } from "./fixture_test.ts";

Deno.test("makeView() counts unanswered user messages at the end of the history to the turn", async () => {
  const user: Message = { role: "user", content: "Hi" };
  const assistant: Message = { role: "assistant", content: "Hello" };
  for (
    const [history, expected] of [
      [[], 0],
      [[assistant], 1],
      [[user, assistant], 2],
      [[user, assistant, user, user], 2],
      [[user], 0],
    ] as const
  ) {
    const starts: number[] = [];
    await collect(run({
      model: scripted(say("Hi")).model,
      history,
      input: "Go",
      context: ({ messages, tools, turnStart }) => {
        starts.push(turnStart);
        return { messages, tools };
      },
    }));
    assertEquals(starts, [expected]);
  }
});
