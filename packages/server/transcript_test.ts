import { assertEquals } from "@std/assert";
import type { SessionEvent } from "@tare/server";
import { type TranscriptEntry, TranscriptReducer, updateEntries } from "@tare/server/internal/transcript";
import type { Content, Message } from "@tare/messages";

const LEDGER = { calls: 1, promptTokens: 1, cachedTokens: 0, outputTokens: 1, saved: {}, estimated: false };

function entriesOf(events: readonly SessionEvent[]) {
  const reducer = new TranscriptReducer();
  const entries: TranscriptEntry[] = [];
  for (const event of events) updateEntries(entries, reducer.apply(event));
  assertEquals(entries.map(({ key }) => key), [...entries.keys()]);
  return entries.map(({ key: _, ...rest }) => rest);
}

const added = (message: Message): SessionEvent => ({ type: "message_added", message });

Deno.test("TranscriptReducer displays a call's output while it runs, and then its result", () => {
  const call = { type: "tool_call", step: 1, id: "a", name: "shell", arguments: "{}" } as const;
  const output = (text: string, id = "a") => ({ type: "tool_output", step: 1, id, text }) as const;
  const outcome = { id: "a", name: "shell", content: "all", error: false, bytes: 3, durationMs: 5 };
  const result = { type: "tool_result", step: 1, ...outcome } as const;
  const settled = { content: "all", error: false, bytes: 3, durationMs: 5 };
  assertEquals(entriesOf([call, output("one "), output("two"), output("its", "b"), { ...result, id: "b" }]), [
    { kind: "call", id: "a", name: "shell", arguments: "{}", output: "one two" },
    { kind: "call", id: "b", name: "shell", arguments: "", output: "its", result: settled },
  ]);
  const [done] = entriesOf([call, output("one "), result, output("too late")]);
  assertEquals(done, {
    ...{ kind: "call", id: "a", name: "shell", arguments: "{}", output: "one " },
    result: settled,
  });
});

Deno.test("TranscriptReducer displays a program's calls once, with or without approval", () => {
  const about = {
    step: 1,
    id: "p/1",
    name: "write_file",
    arguments: "{}",
    parent: "p",
    beganAtMs: 1,
  } as const;
  const nested = { kind: "call", id: "p/1", name: "write_file", arguments: "{}", parent: "p" } as const;
  const pending = { type: "approval_requested", ...about } as const;
  assertEquals(entriesOf([pending]), [{ ...nested, approval: "requested" }]);
  const answered = {
    type: "approval_answered",
    approvalId: "q-p/1",
    id: "p/1",
    decision: "allow",
    by: "user",
  } as const;
  const result = { content: "ok", error: false, bytes: 2, durationMs: 5 };
  const outcome = { type: "tool_result", step: 1, id: "p/1", name: "write_file", ...result } as const;
  assertEquals(entriesOf([pending, answered, { type: "tool_call", ...about }, { ...outcome, parent: "p" }]), [
    { ...nested, approval: answered, result },
  ]);
  assertEquals(entriesOf([{ type: "tool_call", ...about }]), [nested]);
});

Deno.test("TranscriptReducer adds the session of a subagent to its call", () => {
  const call = { type: "tool_call", step: 1, id: "a", name: "delegate", arguments: "{}" } as const;
  const started = (id: string) => ({ type: "subagent_started", id, session: "s" }) as const;
  assertEquals(entriesOf([call, started("b"), started("a")]), [
    { kind: "call", id: "a", name: "delegate", arguments: "{}", subagent: "s" },
  ]);
});

Deno.test("TranscriptReducer shows that a call waits for approval, and the answer", () => {
  const call = { step: 1, id: "a", name: "shell", arguments: "{}" } as const;
  const about = { kind: "call", id: "a", name: "shell", arguments: "{}" } as const;
  const pending = [{ type: "tool_call", ...call }, { type: "approval_requested", ...call }] as const;
  assertEquals(entriesOf(pending), [{ ...about, approval: "requested" }]);
  const answered = {
    type: "approval_answered",
    approvalId: "q-a",
    id: "a",
    decision: "deny",
    by: "user",
  } as const;
  assertEquals(entriesOf([...pending, answered, { ...answered, id: "nobody's" }]), [
    { ...about, approval: answered },
  ]);
});

Deno.test("TranscriptReducer takes messages of every role", () => {
  const image = { type: "image_url", image_url: { url: "data:," } } as const;
  assertEquals(
    entriesOf([
      added({
        role: "developer",
        content: [{ type: "text", text: "Be brief." }, { type: "refusal", refusal: "No." }],
      }),
      added({
        role: "assistant",
        tool_calls: [{ id: "c", type: "custom", custom: { name: "grep", input: "x" } }],
      }),
      added({ role: "tool", tool_call_id: "c", content: [image] }),
      added({ role: "function", name: "old", content: null }),
      added({ role: "assistant", refusal: "I won't." }),
    ]),
    [
      { kind: "instructions", text: "Be brief.\nNo." },
      { kind: "call", id: "c", name: "grep", arguments: "x", result: { content: "", images: ["data:,"] } },
      { kind: "call", id: "old", name: "old", arguments: "", result: { content: "" } },
      { kind: "reply", text: "I won't.", reasoning: "" },
    ],
  );
});

Deno.test("TranscriptReducer marks a warning that repeats the last one", () => {
  const turn: readonly SessionEvent[] = [
    { type: "turn_start" },
    { type: "warning", message: "No model is configured." },
    { type: "text_delta", step: 1, text: "a" },
    { type: "reasoning_delta", step: 1, text: "b" },
    { type: "turn_end", reason: "cancelled", text: "", ledger: LEDGER },
  ];
  const kinds = entriesOf([...turn, ...turn]).map((entry) => "isRepeated" in entry ? "repeated" : entry.kind);
  assertEquals(kinds, ["warning", "reply", "end", "repeated", "reply", "end"]);
});

Deno.test("TranscriptReducer reports at each end the cost of its part of the turn", () => {
  const end = (reason: "approval" | "completed", calls: number) =>
    ({ type: "turn_end", reason, text: "", ledger: { ...LEDGER, calls } }) as const;
  const whole = { ...LEDGER, calls: 3 };
  assertEquals(
    entriesOf([
      { type: "turn_start", input: "a" },
      end("approval", 1),
      { type: "turn_start" },
      { ...end("completed", 2), whole },
    ]).flatMap((item) => item.kind === "end" ? [[item.reason, item.ledger.calls]] : []),
    [["approval", 1], ["completed", 2]],
  );
});

Deno.test("TranscriptReducer marks a refusal after images", () => {
  const end = { type: "turn_end", reason: "model_error", text: "", ledger: LEDGER } as const;
  const start = (input: Content) => ({ type: "turn_start", input }) as const;
  const image = start([{ type: "image_url", image_url: { url: "data:image/png;base64,AA" } }]);
  const kindsOf = (events: readonly SessionEvent[]) =>
    entriesOf(events).flatMap((item) => item.kind === "end" ? [item.refusedImages] : []);
  const refused = { ...end, code: "bad_request" } as const;
  assertEquals(kindsOf([start("a"), refused, image, { ...end, code: "unreachable" }, refused]), [
    undefined,
    undefined,
    true,
  ]);
});

Deno.test("TranscriptReducer lists the images of results", () => {
  const url = "data:image/png;base64,AA";
  const call = { type: "tool_call", step: 1, id: "a", name: "read_file", arguments: "{}" } as const;
  const outcome = {
    id: "a",
    name: "read_file",
    content: "A picture.",
    error: false,
    bytes: 3,
    durationMs: 5,
  };
  const result = { type: "tool_result", step: 1, ...outcome, images: [url] } as const;
  const images = (items: readonly object[]) =>
    items.flatMap((item) => "result" in item ? [(item.result as { images?: unknown }).images] : []);
  assertEquals(images(entriesOf([call, result])), [[url]]);
  const urls = [url, "https://example.com/a.png"];
  const content = urls.map((url) => ({ type: "image_url", image_url: { url } }) as const);
  assertEquals(images(entriesOf([call, added({ role: "tool", tool_call_id: "a", content })])), [urls]);
});

Deno.test("TranscriptReducer removes the streamed part of an interrupted reply", () => {
  const piece = (text: string) => ({ type: "text_delta", step: 1, text }) as const;
  const start = { type: "step_start", step: 1 } as const;
  const message = { role: "assistant", content: "Hello." } as const;
  const whole = [piece("Hel"), piece("lo."), { type: "assistant_message", step: 1, message }] as const;
  const warning = { type: "warning", message: "Cut." } as const;
  const reply = { kind: "reply", text: "Hello.", reasoning: "" } as const;
  assertEquals(entriesOf([start, piece("Hal"), start, warning, ...whole]), [
    { kind: "warning", message: "Cut." },
    reply,
  ]);
  assertEquals(entriesOf([start, piece("Hal"), { type: "turn_resumed", step: 1 }, start, ...whole]), [
    { kind: "warning", message: "The server was restarted; the turn continues." },
    reply,
  ]);
  assertEquals(entriesOf([start, ...whole, start, piece("More")]), [
    reply,
    { ...reply, text: "More" },
  ]);
});

Deno.test("TranscriptReducer answers the oldest of several calls with one id", () => {
  const call = (name: string) => ({ type: "tool_call", step: 1, id: "x", name, arguments: "" }) as const;
  const result = (content: string) => ({ content, error: false, bytes: 1, durationMs: 1 });
  const settled = (content: string): SessionEvent => ({
    ...{ type: "tool_result", step: 1, id: "x", name: "", ...result(content) },
  });
  const entry = (name: string, content: string) => (
    { kind: "call", id: "x", name, arguments: "", result: result(content) } as const
  );
  const reply = { type: "assistant_message", step: 2, message: { role: "assistant", content: "" } } as const;
  assertEquals(
    entriesOf([call("a"), call("b"), settled("1"), settled("2"), call("c"), reply, call("d"), settled("3")]),
    [entry("a", "1"), entry("b", "2"), { kind: "call", id: "x", name: "c", arguments: "" }, entry("d", "3")],
  );
});

Deno.test("TranscriptReducer keeps a reply one entry across a warning", () => {
  const message = { role: "assistant", content: "Hello." } as const;
  assertEquals(
    entriesOf([
      { type: "text_delta", step: 1, text: "Hel" },
      { type: "warning", message: "w" },
      { type: "text_delta", step: 1, text: "lo." },
      { type: "assistant_message", step: 1, message },
    ]),
    [{ kind: "reply", text: "Hello.", reasoning: "" }, { kind: "warning", message: "w" }],
  );
});
