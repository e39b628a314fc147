import { assertEquals } from "@std/assert";
import { ask, call, reply, text } from "./fixture_test.ts";

const calls = (count: number) =>
  Array.from({ length: count }, (_, index) => call(index, `c${index}`, "{}")).flat();

Deno.test("anthropicModel() ends a reply with more calls than a model makes, or with a line that is too long", async () => {
  const told = async (answer: Response) => {
    const { error, bodies } = await ask([answer], { maxRetries: 1 });
    return [error?.code, error?.message.replace(/^.*?: /, ""), bodies.length];
  };
  assertEquals(await told(reply("tool_use", ...calls(1_001))), [
    "bad_response",
    "it makes more than 1000 calls of tools.",
    1,
  ]);
  assertEquals(await told(reply("end_turn", ...text(0, "x".repeat(17 * 2 ** 20)))), [
    "bad_response",
    "one of its events has more than 16 MiB.",
    1,
  ]);
});

Deno.test("anthropicModel() numbers the calls of a reply in order, however many there are", async () => {
  const { events } = await ask(reply("tool_use", ...text(0, "I call."), ...calls(1_001).slice(3)));
  const begun = events.flatMap((event) => event.type === "tool_call_delta" && event.id ? [event.index] : []);
  assertEquals(begun, Array.from({ length: 1_000 }, (_, at) => at));
});
