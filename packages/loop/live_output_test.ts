import { assertEquals } from "@std/assert";
import { run } from "@tare/loop";
import { breathe, call, callTools, collect, FakeClock, say, scripted, tool } from "./fixture_test.ts";

Deno.test("run() emits the output of long calls at intervals, up to a limit", async () => {
  const clock = new FakeClock();
  const { model } = scripted(callTools(call("a", "long"), call("b", "quick")), say("Done."));
  const long = tool("long", async (_, { output }) => {
    output!("one ");
    output!("two");
    await breathe();
    clock.advance(500);
    await breathe();
    output!("three".repeat(20_000));
    output!("never shown");
    clock.advance(500);
    await breathe();
    output!("nothing either");
    return "all of it";
  });
  const quick = tool("quick", (_, { output }) => {
    output!("at once");
    return "done";
  });
  const { events } = await collect(
    run({ model, tools: [long, quick], history: [], input: "Go", time: { clock } }),
  );
  const visible = events.flatMap((event) =>
    event.type === "tool_output"
      ? [[event.step, event.id, event.text.slice(0, 12), event.text.indexOf("\n["), event.text.slice(65_529)]]
      : event.type === "tool_result"
      ? [[event.step, event.id, event.content]]
      : []
  );
  assertEquals(visible, [
    [1, "b", "done"],
    [1, "a", "one two", -1, ""],
    [1, "a", "threethreeth", 65_529, "\n[Further output is omitted while it runs.]\n"],
    [1, "a", "all of it"],
  ]);
});
