import { assertEquals } from "@std/assert";
import { ask, call, reply, text } from "./fixture_test.ts";

const calls = (count: number) =>
  Array.from({ length: count }, (_, index) => call(index, `c${index}`, "{}")).flat();

Deno.test("anthropicModel() fails for a reply with too many calls or too long a line", async () => {
  const errorOf = async (answer: Response) => {
    const { error, bodies } = await ask([answer], { maxRetries: 1 });
    return [error?.code, error?.message.replace(/^.*?: /, ""), bodies.length];
  };
  assertEquals(await errorOf(reply("tool_use", ...calls(257))), [
    "bad_response",
    "it makes more than 256 tool calls.",
    1,
  ]);
  assertEquals(await errorOf(reply("end_turn", ...text(0, "x".repeat(17 * 2 ** 20)))), [
    "bad_response",
    "one of its events has more than 16 MiB.",
    1,
  ]);
});

Deno.test("anthropicModel() numbers the calls of a reply in order, however many there are", async () => {
  const { events } = await ask(reply("tool_use", ...text(0, "I call."), ...calls(257).slice(3)));
  const begun = events.flatMap((event) => event.type === "tool_call_delta" && event.id ? [event.index] : []);
  assertEquals(begun, Array.from({ length: 256 }, (_, at) => at));
});

Deno.test("anthropicModel() fails for a reply that pauses again and again", async () => {
  const pauses = Array.from({ length: 102 }, () => reply("pause_turn", ...text(0, "Wait.")));
  const { error, bodies } = await ask(pauses);
  assertEquals([error?.message.replace(/^.*?: /, ""), bodies.length], [
    "the reply paused more than 100 times.",
    101,
  ]);
});

Deno.test("anthropicModel() doesn't retry after waits of hours, and doesn't follow redirects", async () => {
  const errorOf = async (answer: Response) => {
    const { error, bodies } = await ask([answer, reply("end_turn", ...text(0, "ok"))], { maxRetries: 1 });
    return [error?.code, error?.message.replace(/^.*?: /, ""), bodies.length];
  };
  const body = { type: "error", error: { type: "rate_limit_error", message: "Slow." } };
  assertEquals(await errorOf(Response.json(body, { status: 429, headers: { "retry-after": "7200" } })), [
    "rate_limited",
    "it reports an exceeded rate limit and requests a wait of 7200 s (429: Slow).",
    1,
  ]);
  assertEquals(await errorOf(new Response(null, { status: 308, headers: { location: "/v1/messages" } })), [
    "unreachable",
    'it redirects to "/v1/messages" (308). Set the base URL to the final address.',
    1,
  ]);
});
