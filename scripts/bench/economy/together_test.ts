import { assertEquals } from "@std/assert";
import { readRecording } from "@tare/simulator/economy";
import { together } from "./together.ts";

/** A call and its result. */
function step(id: string, [name, args]: readonly [string, object], result: string, output?: number) {
  const call = { id, type: "function", function: { name, arguments: JSON.stringify(args) } };
  return [
    {
      role: "assistant",
      content: `I call ${id}.`,
      tool_calls: [call],
      ...(output && { usage: { input: 1, output } }),
    },
    { role: "tool", tool_call_id: id, content: result },
  ];
}

const read = (path: string) => ["read_file", { path }] as const;
const edit = (path: string) => ["edit_file", { path, old_string: "a", new_string: "b" }] as const;
const shell = (command: string) => ["bash", { command }] as const;

function of(messages: readonly object[]) {
  const { recording, single, saved } = together(
    readRecording(
      JSON.stringify({ id: "r", tools: [{ type: "function", function: { name: "x" } }], messages }),
    ),
  );
  const steps = recording.calls.map(({ messages: at }) => {
    const message = recording.messages[at];
    return message?.role === "assistant" ? message.tool_calls?.map(({ id }) => id) ?? [] : undefined;
  });
  return { steps, single, saved, recording };
}

const ASK = { role: "user", content: "Look at src/harbour.ts, src/ferries.ts and src/berths.ts." };
const DONE = { role: "assistant", content: "Done." };

Deno.test("together() joins reads whose files stood in the prompt before the first of them", () => {
  const { steps, single, saved, recording } = of([
    ASK,
    ...step("1", read("src/harbour.ts"), "import limits.ts", 10),
    ...step("2", read("src/ferries.ts"), "import timetables.ts", 20),
    ...step("3", shell("cat src/berths.ts | head -20"), "text"),
    ...step("4", read("src/timetables.ts"), "text"),
    DONE,
  ]);
  // Which timetables there are a result has told.
  assertEquals([steps, single, saved], [[["1", "2", "3"], ["4"], []], 4, 2]);
  assertEquals(recording.messages.map(({ role }) => role), [
    "user",
    "assistant",
    "tool",
    "tool",
    "tool",
    "assistant",
    "tool",
    "assistant",
  ]);
  assertEquals(recording.messages[1]?.content, "I call 1.\nI call 2.\nI call 3.");
  assertEquals(recording.usage.get(1)?.output, 30);
});

Deno.test("together() leaves apart what an edit, a command or a person stands between", () => {
  for (
    const between of [
      step("x", edit("src/harbour.ts"), "ok"),
      step("x", shell("cat a > src/ferries.ts"), ""),
      step("x", shell("ls && rm -r src"), ""),
      [{ role: "assistant", content: "Which?" }, { role: "user", content: "All." }],
    ]
  ) {
    const { steps, saved } = of([
      ASK,
      ...step("1", read("src/harbour.ts"), "text"),
      ...between,
      ...step("2", read("src/ferries.ts"), "text"),
      DONE,
    ]);
    assertEquals([steps.length, steps[0], steps[2], saved], [4, ["1"], ["2"], 0]);
  }
  const { steps } = of([
    ASK,
    ...step("1", read("src/harbour.ts"), "text"),
    { role: "user", content: "And the ferries." },
    ...step("2", read("src/ferries.ts"), "text"),
  ]);
  assertEquals(steps, [["1"], ["2"]]);
});

Deno.test("together() changes nothing of what was asked for at once", () => {
  const messages = [
    ASK,
    ...step("1", read("src/harbour.ts"), "import timetables.ts"),
    ...step("2", read("src/timetables.ts"), "text"),
    DONE,
  ];
  const { recording, saved } = of(messages);
  assertEquals(saved, 0);
  const whole = readRecording(
    JSON.stringify({ id: "r", tools: [{ type: "function", function: { name: "x" } }], messages }),
  );
  assertEquals([recording.messages, recording.calls], [whole.messages, whole.calls]);
});
