import { assert, assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";

Deno.test("plannerSession() returns the same views in slices, whatever is called meanwhile", async () => {
  const tools = [{ type: "function", function: { name: "read", description: "Reads a file." } }] as const;
  const history = Array.from({ length: 60 }, (_, at): readonly Message[] => [
    ...(at % 12 === 0 ? [{ role: "user", content: `Look at part ${at / 12}.` }] as const : []),
    {
      role: "assistant",
      content: null,
      tool_calls: [{
        id: `${at}`,
        type: "function",
        function: { name: "read", arguments: `{"path":"${at}.ts"}` },
      }],
    },
    { role: "tool", tool_call_id: `${at}`, content: `${at}: some words of file_${at}. `.repeat(100) },
    ...(at % 12 === 11 ? [{ role: "assistant", content: "Seen." }] as const : []),
  ]).flat();
  let steps = 0;
  let length = 1;
  const options = { profile: profileNamed("openai"), countTokens: estimateTokens, windowTokens: 40_000 };
  const whole = plannerSession({ ...options, archive: memoryArchive() });
  const sliced = plannerSession({
    ...options,
    archive: memoryArchive(),
    advanced: {
      async inSlices(work) {
        while (!work.next().done) {
          steps++;
          await Promise.resolve();
          if (steps % 7 === 0) {
            sliced.quote({ messages: history.slice(0, length), tools }, { nowMs: 10_000 * length });
          }
        }
      },
    },
  });
  let rewrites = 0;
  for (; length <= history.length; length += 3) {
    const call = { nowMs: 10_000 * length };
    const seen = { messages: history.slice(0, length), tools };
    const views = [await whole.view(seen, call), await sliced.view(seen, call)] as const;
    assertEquals(views[1], views[0]);
    rewrites += views[0].rewrites.length;
    assertEquals(sliced.sent(undefined, views[1]), whole.sent(undefined, views[0]));
  }
  assert(rewrites > 0);
  assert(steps > history.length / 2);
  assertEquals(sliced.state, whole.state);
});
