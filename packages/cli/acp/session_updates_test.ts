import type { SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk";
import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { NumberedEvent } from "@tare/server/internal";
import { joinDeltas, SessionUpdates } from "./session_updates.ts";

type Event = NumberedEvent["event"];

function updatesOf(events: readonly Event[], options?: { readonly isOwn: boolean }): SessionUpdate[] {
  const updates = new SessionUpdates({ workspace: "/w", windowTokens: 100 });
  return events.flatMap((event, index) => [...updates.of({ number: index + 1, event }, options)]);
}

const text = (text: string) => ({ type: "text" as const, text });
const call = (id: string, name = "other"): Event => ({
  type: "tool_call",
  step: 1,
  id,
  name,
  arguments: JSON.stringify({ path: "a", content: "b" }),
});
const result = (id: string, content: string, error = false) =>
  ({
    type: "tool_result",
    step: 1,
    id,
    name: "other",
    content,
    error,
    bytes: 1,
    durationMs: 1,
  }) as const;
const END: Event = { type: "turn_end", reason: "completed", text: "", ledger: EMPTY_LEDGER };
const visible = (output: string): ToolCallContent[] => [
  { type: "content", content: text(`\`\`\`\n${output}\n\`\`\``) },
];

Deno.test("SessionUpdates yields texts and thoughts as streamed, or whole", () => {
  const step: Event = { type: "step_start", step: 1 };
  const message = { role: "assistant", content: "Yes.", reasoning_content: "Hm." } as const;
  const events: Event[] = [
    { type: "turn_start", input: "Hi." },
    { type: "warning", message: "Beware." },
    step,
    { type: "reasoning_delta", step: 1, text: "Hm." },
    { type: "text_delta", step: 1, text: "Y" },
    { type: "text_delta", step: 1, text: "es." },
    { type: "assistant_message", step: 1, message },
    { type: "user_message", step: 1, input: "And?" },
    step,
    { type: "assistant_message", step: 1, message },
    step,
    { type: "assistant_message", step: 1, message: { role: "assistant", refusal: "No." } },
    END,
  ];
  const rest: SessionUpdate[] = [
    { sessionUpdate: "notice", severity: "warning", title: "Beware." },
    { sessionUpdate: "agent_thought_chunk", content: text("Hm."), messageId: "m3" },
    { sessionUpdate: "agent_message_chunk", content: text("Y"), messageId: "m3" },
    { sessionUpdate: "agent_message_chunk", content: text("es."), messageId: "m3" },
    { sessionUpdate: "user_message_chunk", content: text("And?"), messageId: "m8" },
    { sessionUpdate: "agent_thought_chunk", content: text("Hm."), messageId: "m9" },
    { sessionUpdate: "agent_message_chunk", content: text("Yes."), messageId: "m9" },
    { sessionUpdate: "agent_message_chunk", content: text("No."), messageId: "m11" },
  ];
  assertEquals(updatesOf(events), [
    { sessionUpdate: "user_message_chunk", content: text("Hi."), messageId: "m1" },
    ...rest,
  ]);
  assertEquals(updatesOf(events, { isOwn: true }), rest);
});

Deno.test("SessionUpdates distinguishes calls with the same id, and streams their output", () => {
  const updates = updatesOf([
    call("x"),
    call("x"),
    { type: "tool_output", step: 1, id: "x", text: "a" },
    { type: "tool_output", step: 1, id: "x", text: "b" },
    result("x", "first"),
    result("x", "second", true),
    result("x", "nobody's"),
    { type: "tool_output", step: 1, id: "x", text: "nobody's" },
  ]);
  assertEquals(
    updates.map((update) => "toolCallId" in update && [update.toolCallId, update.status, update.content]),
    [
      ["c1", "in_progress", []],
      ["c2", "in_progress", []],
      ["c1", undefined, visible("a")],
      ["c1", undefined, visible("ab")],
      ["c1", "completed", visible("first")],
      ["c2", "failed", visible("second")],
    ],
  );
});

Deno.test("SessionUpdates shows calls of code mode, and approved calls once", () => {
  const about = {
    step: 1,
    id: "p/1",
    name: "write_file",
    arguments: "{}",
    parent: "p",
    beganAtMs: 1,
  } as const;
  const updates = updatesOf([
    call("p"),
    { type: "approval_requested", ...about },
    { type: "tool_call", ...about },
    { ...result("p/1", "written"), parent: "p" },
    result("p", "all"),
  ]);
  assertEquals(updates.map((update) => "toolCallId" in update && [update.toolCallId, update.status]), [
    ["c1", "in_progress"],
    ["a2.p/1", "pending"],
    ["a2.p/1", "in_progress"],
    ["a2.p/1", "completed"],
    ["c1", "completed"],
  ]);
});

Deno.test("joinDeltas() joins the pieces of one call's output", () => {
  const output = (id: string, text: string): Event => ({ type: "tool_output", step: 1, id, text });
  const events: Event[] = [
    call("x"),
    call("y"),
    output("x", "a"),
    output("x", "b"),
    output("y", "c"),
    END,
    END,
  ];
  const [x, y, a, b, c, end, again] = events.map((event, index) => ({ number: index + 1, event }));
  assertEquals(joinDeltas([x!, y!, a!, b!, c!, end!, again!]), [
    ...[x!, y!, { number: 4, event: output("x", "ab") }],
    ...[c!, end!, again!],
  ]);
});

Deno.test("SessionUpdates keeps a diff visible unless the edit failed", () => {
  const [, done, , failed] = updatesOf([
    call("x", "write_file"),
    result("x", "created a"),
    call("y", "write_file"),
    result("y", "No.", true),
  ]);
  assertEquals(done, { sessionUpdate: "tool_call_update", toolCallId: "c1", status: "completed" });
  assertEquals(failed && "content" in failed && failed.content, visible("No."));
});

Deno.test("SessionUpdates marks calls without a result as failed at the turn's end", () => {
  assertEquals(updatesOf([call("x"), END, result("x", "late")]).slice(1), [
    { sessionUpdate: "tool_call_update", toolCallId: "c1", status: "failed" },
  ]);
});

Deno.test("SessionUpdates shows messages of other clients", () => {
  const calls = [{ id: "x", type: "function" as const, function: { name: "other", arguments: "{}" } }];
  const events = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Hi." },
    { role: "assistant", content: "Wait.", tool_calls: calls },
    { role: "tool", tool_call_id: "x", content: "It is." },
  ] as const;
  const updates = updatesOf(events.map((message): Event => ({ type: "message_added", message })));
  assertEquals(updates, [
    { sessionUpdate: "user_message_chunk", content: text("Hi."), messageId: "m2" },
    { sessionUpdate: "agent_message_chunk", content: text("Wait."), messageId: "m3" },
    {
      sessionUpdate: "tool_call",
      toolCallId: "c3.0",
      name: "other",
      status: "in_progress",
      title: "other",
      kind: "other",
      locations: [],
      content: [],
      rawInput: {},
    },
    {
      sessionUpdate: "tool_call_update",
      toolCallId: "c3.0",
      status: "completed",
      content: visible("It is."),
    },
  ] as SessionUpdate[]);
});

Deno.test("SessionUpdates reports window usage and session cost", () => {
  const usage = { promptTokens: 10, cachedTokens: 5, outputTokens: 2 };
  const step = (usd?: number): Event => ({
    type: "step_end",
    step: 1,
    usage,
    finishReason: "stop",
    ...(usd !== undefined && { cost: { costUnits: 1, usd } }),
  });
  const used = { sessionUpdate: "usage_update", used: 12, size: 100 } as const;
  assertEquals(updatesOf([step(), step(0.5), step(0.25)]), [
    used,
    { ...used, cost: { amount: 0.5, currency: "USD" } },
    { ...used, cost: { amount: 0.75, currency: "USD" } },
  ]);
});

Deno.test("SessionUpdates yields the plan instead of its call", () => {
  const planned = (args: object): Event => ({
    ...{ type: "tool_call", step: 1, id: "p", name: "update_plan" },
    arguments: JSON.stringify(args),
  });
  const entry = (content: string, status: "completed" | "in_progress" | "pending") => (
    { content, priority: "medium" as const, status }
  );
  assertEquals(
    updatesOf([planned({ steps: ["Look", "Mend"] }), result("p", "The user sees it."), planned({ done: 1 })]),
    [
      { sessionUpdate: "plan", entries: [entry("Look", "in_progress"), entry("Mend", "pending")] },
      { sessionUpdate: "plan", entries: [entry("Look", "completed"), entry("Mend", "in_progress")] },
    ],
  );
});

Deno.test("SessionUpdates yields a reply whose reasoning alone was streamed", () => {
  assertEquals(
    updatesOf([
      { type: "step_start", step: 1 },
      { type: "reasoning_delta", step: 1, text: "Hm." },
      {
        ...{ type: "assistant_message", step: 1 },
        message: { role: "assistant", refusal: "No.", reasoning_content: "Hm." },
      },
    ]),
    [
      { sessionUpdate: "agent_thought_chunk", content: text("Hm."), messageId: "m1" },
      { sessionUpdate: "agent_message_chunk", content: text("No."), messageId: "m1" },
    ],
  );
});
