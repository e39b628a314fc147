import { assertEquals } from "@std/assert";
import type { LoopEvent } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { SessionEvent } from "@tare/server";
import { waitingLine } from "./waiting.ts";

const ERASE = "\r\x1b[K";

Deno.test("waitingLine() shows what the turn waits for, and how long, below permanent text", () => {
  let nowMs = 0;
  let draw = () => {};
  let stopped = false;
  const written: string[] = [];
  const line = waitingLine({
    write: (text) => void written.push(text),
    now: () => nowMs,
    tick(given) {
      draw = given;
      return () => stopped = true;
    },
  });
  const follow = (...events: readonly LoopEvent[]) => events.forEach(line.follow);
  const call = (id: string, args: string): LoopEvent => ({
    type: "tool_call",
    step: 1,
    id,
    name: "shell",
    arguments: args,
  });
  const result = {
    type: "tool_result",
    step: 1,
    name: "shell",
    content: "",
    error: false,
    bytes: 0,
  } as const;
  draw();
  follow({ type: "step_start", step: 1 });
  nowMs = 2_900;
  draw();
  line.write("I look");
  nowMs = 4_000;
  // It is hidden while text is streamed.
  draw();
  line.write(".\n");
  follow({ type: "assistant_message", step: 1, message: { role: "assistant", content: "I look." } });
  follow(call("a", JSON.stringify({ command: "make\n\x1b[2J" })), call("b", "{}"));
  nowMs = 9_000;
  draw();
  follow({ ...result, id: "a", durationMs: 1 });
  draw();
  follow({ type: "turn_end", reason: "completed", text: "", ledger: EMPTY_LEDGER });
  line.close();
  assertEquals(written, [
    `${ERASE}⠋ 2 s · Thinking`,
    ERASE,
    "I look",
    ".\n",
    `${ERASE}⠙ 5 s · Run make … and 1 more`,
    `${ERASE}⠹ 5 s · shell`,
    ERASE,
  ]);
  assertEquals(stopped, true);
});

Deno.test("waitingLine() fits in one row of a narrowed terminal", () => {
  let draw = () => {};
  let columns: number | undefined;
  const written: string[] = [];
  const line = waitingLine({
    write: (text) => void written.push(text),
    columns: () => columns,
    now: () => 0,
    tick(given) {
      draw = given;
      return () => {};
    },
  });
  line.follow({
    type: "tool_call",
    step: 1,
    id: "a",
    name: "shell",
    arguments: '{"command":"echo 日本語日本語"}',
  });
  for (columns of [undefined, 0, 40, 20, 18]) draw();
  assertEquals(written, [
    `${ERASE}⠋ 0 s · Run echo 日本語日本語`,
    `${ERASE}⠙ 0 s · Run echo 日本語日本語`,
    `${ERASE}⠹ 0 s · Run echo 日本語日本語`,
    `${ERASE}⠸ 0 s · Run echo 日`,
    `${ERASE}⠼ 0 s · Run echo `,
  ]);
});

Deno.test("waitingLine() shows a call once it is approved", () => {
  let draw = () => {};
  const written: string[] = [];
  const line = waitingLine({
    write: (text) => void written.push(text),
    now: () => 0,
    tick(given) {
      draw = given;
      return () => {};
    },
  });
  const event = { type: "approval_requested", step: 1, arguments: "{}" } as const;
  const answered = { type: "approval_answered", by: "user" } as const;
  const followed: SessionEvent[] = [
    { ...event, id: "a", name: "shell" },
    { ...event, id: "b", name: "write_file" },
    { type: "turn_end", reason: "approval", text: "", ledger: EMPTY_LEDGER },
    { ...answered, approvalId: "q-b", id: "b", decision: "deny" },
    { ...answered, approvalId: "q-a", id: "a", decision: "allow" },
    // Until then the next approval request may be visible.
    { type: "turn_start", input: "" },
    {
      ...{ type: "tool_result", step: 1, id: "a", name: "shell", content: "", error: false },
      ...{ bytes: 0, durationMs: 1 },
    } as const,
    // The call began before the turn was followed.
    { type: "tool_output", step: 1, id: "c", text: "one" },
  ];
  for (const event of followed) {
    line.follow(event);
    draw();
    written.push(event.type);
  }
  assertEquals(written, [
    ...["approval_requested", "approval_requested", "turn_end", "approval_answered", "approval_answered"],
    ...[`${ERASE}⠋ 0 s · shell`, "turn_start", ERASE, "tool_result"],
    ...[`${ERASE}⠙ 0 s · Working`, "tool_output"],
  ]);
});

Deno.test("waitingLine() shows and removes rows above itself, within the terminal's height", () => {
  let draw = () => {};
  let [columns, height] = [20, 24];
  const written: string[] = [];
  const line = waitingLine({
    write: (text) => void written.push(text),
    columns: () => columns,
    height: () => height,
    now: () => 0,
    tick(given) {
      draw = given;
      return () => {};
    },
  });
  const taken = () => written.splice(0);
  line.follow({ type: "tool_call", step: 1, id: "a", name: "shell", arguments: "" });
  line.above((columns) => ["one", "two", `${columns} wide`]);
  draw();
  assertEquals(taken(), [`${ERASE}one\ntwo\n19 wide\n⠋ 0 s · shell`]);
  // Unchanged rows aren't redrawn.
  draw();
  assertEquals(taken(), [`${ERASE}⠙ 0 s · shell`]);
  [columns, height] = [30, 3];
  draw();
  assertEquals(taken(), ["\r\x1b[3A\x1b[J29 wide\n⠹ 0 s · shell"]);
  height = 2;
  draw();
  assertEquals(taken(), ["\r\x1b[1A\x1b[J⠸ 0 s · shell"]);
  height = 24;
  draw();
  line.write("stays\n");
  draw();
  line.above(undefined);
  draw();
  line.close();
  assertEquals(taken(), [
    `${ERASE}one\ntwo\n29 wide\n⠼ 0 s · shell`,
    "\r\x1b[3A\x1b[J",
    "stays\n",
    `${ERASE}one\ntwo\n29 wide\n⠴ 0 s · shell`,
    "\r\x1b[3A\x1b[J⠦ 0 s · shell",
    ERASE,
  ]);
});

Deno.test("waitingLine() shows a joined turn until an event specifies more", () => {
  let draw = () => {};
  const written: string[] = [];
  const line = waitingLine({
    write: (text) => void written.push(text),
    joins: true,
    now: () => 0,
    tick(given) {
      draw = given;
      return () => {};
    },
  });
  draw();
  line.follow({ type: "tool_output", step: 1, id: "a", text: "out" });
  draw();
  line.follow({ type: "step_start", step: 2 });
  line.close();
  assertEquals(written, [`${ERASE}⠋ 0 s · Working`, `${ERASE}⠙ 0 s · Working`, ERASE]);
});

Deno.test("waitingLine() continues the numbers of steps after an approval, and not in the next turn", () => {
  let draw = () => {};
  const written: string[] = [];
  const line = waitingLine({
    write: (text) => void written.push(text.split(" s · ")[1]!),
    now: () => 0,
    tick(given) {
      draw = given;
      return () => {};
    },
  });
  const end = { type: "turn_end", text: "", ledger: EMPTY_LEDGER } as const;
  const followed: readonly SessionEvent[] = [
    { type: "turn_start", input: "q" },
    { type: "step_start", step: 1 },
    { type: "step_start", step: 2 },
    { ...end, reason: "approval" },
    { type: "turn_start" },
    { type: "step_start", step: 1 },
    { ...end, reason: "completed" },
    { type: "turn_start", input: "q" },
    { type: "step_start", step: 1 },
  ];
  for (const event of followed) {
    line.follow(event);
    if (event.type === "step_start") draw();
  }
  assertEquals(written, ["Thinking", "Thinking · step 2", "Thinking · step 3", "Thinking"]);
});
