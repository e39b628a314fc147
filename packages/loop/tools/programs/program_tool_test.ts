import { assertEquals } from "@std/assert";
import { run } from "@tare/loop";
import { programTool } from "@tare/loop/programs";
import { call, callTools, collect, outline, say, scripted, tool } from "../../fixture_test.ts";

Deno.test("run_program runs a program", async () => {
  const { model } = scripted(
    callTools(call("p", "run_program", {
      code: `
  const x: string[] = await Promise.all([1,2,3].map((n) => tools.read({ n })));
  print(x.join(), Date.now(), Math.random(), globalThis === undefined, new Date(5).getTime());
  try { await tools.nope({}) } catch (e) { print(e.message) }
  function f() { throw new TypeError("bad") }
  f();
`,
    })),
    say("Done."),
  );
  const tools = [tool("read", ({ n }) => `line ${n}`, { stance: "rederivable" }), programTool()];
  const { events, result } = await collect(run({ model, tools, history: [], input: "Go", now: () => 17 }));
  console.log(outline(events), result.messages[2], events);
});
