import { assertEquals } from "@std/assert";
import type { Content } from "@tare/messages";
import type { TalkEvent } from "../api/sessions.ts";
import { Items } from "./items.ts";

const LEDGER = { calls: 1, promptTokens: 1, cachedTokens: 0, outputTokens: 1, saved: {}, estimated: false };

function shown(events: readonly TalkEvent[]) {
  const items = new Items();
  for (const event of events) items.apply(event);
  return items.list.map(({ key: _, ...rest }) => rest);
}

Deno.test("Items show a call's output while it runs, and then its result", () => {
  const call = { type: "tool_call", step: 1, id: "a", name: "shell", arguments: "{}" } as const;
  const output = (text: string, id = "a") => ({ type: "tool_output", step: 1, id, text }) as const;
  const told = { id: "a", name: "shell", content: "all", error: false, bytes: 3, durationMs: 5 };
  const result = { type: "tool_result", step: 1, ...told } as const;
  assertEquals(shown([call, output("one "), output("two"), output("nobody's", "b")]), [
    { kind: "call", id: "a", name: "shell", arguments: "{}", output: "one two" },
  ]);
  const [long] = shown([call, output("x".repeat(5_000)), output("end")]);
  assertEquals([
    long?.kind === "call" && long.output?.length,
    long?.kind === "call" && long.output?.slice(-4),
  ], [4_000, "xend"]);
  const [done] = shown([call, output("one "), result, output("too late")]);
  assertEquals(done, {
    ...{ kind: "call", id: "a", name: "shell", arguments: "{}", output: "one " },
    result: { content: "all", error: false, durationMs: 5 },
  });
});

Deno.test("Items show what a program calls, once, whether or not somebody is asked first", () => {
  const about = {
    step: 1,
    id: "p/1",
    name: "write_file",
    arguments: "{}",
    parent: "p",
    beganAtMs: 1,
  } as const;
  const nested = { kind: "call", id: "p/1", name: "write_file", arguments: "{}", isNested: true } as const;
  const asked = { type: "approval_asked", ...about } as const;
  assertEquals(shown([asked]), [{ ...nested, approval: "asked" }]);
  const answered = {
    type: "approval_answered",
    approvalId: "q-p/1",
    id: "p/1",
    decision: "allow",
    by: "person",
  } as const;
  const result = { content: "ok", error: false, durationMs: 5 };
  const told = { type: "tool_result", step: 1, id: "p/1", name: "write_file", bytes: 2, ...result } as const;
  assertEquals(shown([asked, answered, { type: "tool_call", ...about }, { ...told, parent: "p" }]), [
    { ...nested, approval: answered, result },
  ]);
  assertEquals(shown([{ type: "tool_call", ...about }]), [nested]);
});

Deno.test("Items lead from a call to the session of its helper", () => {
  const call = { type: "tool_call", step: 1, id: "a", name: "delegate", arguments: "{}" } as const;
  const started = (id: string) => ({ type: "helper_started", id, session: "s" }) as const;
  assertEquals(shown([call, started("b"), started("a")]), [
    { kind: "call", id: "a", name: "delegate", arguments: "{}", helper: "s" },
  ]);
});

Deno.test("Items show that a call waits for an answer, and what was said", () => {
  const call = { step: 1, id: "a", name: "shell", arguments: "{}" } as const;
  const shownCall = { kind: "call", id: "a", name: "shell", arguments: "{}" } as const;
  const asked = [{ type: "tool_call", ...call }, { type: "approval_asked", ...call }] as const;
  assertEquals(shown(asked), [{ ...shownCall, approval: "asked" }]);
  const answered = {
    type: "approval_answered",
    approvalId: "q-a",
    id: "a",
    decision: "deny",
    by: "person",
  } as const;
  assertEquals(shown([...asked, answered, { ...answered, id: "nobody's" }]), [
    { ...shownCall, approval: answered },
  ]);
});

Deno.test("Items take messages of every role", () => {
  const items = new Items();
  items.addMessage({
    role: "developer",
    content: [{ type: "text", text: "Be brief." }, { type: "refusal", refusal: "No." }],
  });
  items.addMessage({
    role: "assistant",
    tool_calls: [{ id: "c", type: "custom", custom: { name: "grep", input: "x" } }],
  });
  items.addMessage({
    role: "tool",
    tool_call_id: "c",
    content: [{ type: "image_url", image_url: { url: "data:," } }],
  });
  items.addMessage({ role: "function", name: "old", content: null });
  items.addMessage({ role: "assistant", refusal: "I won't." });
  assertEquals(items.list.map(({ key: _, ...rest }) => rest), [
    { kind: "instructions", text: "Be brief.\nNo." },
    { kind: "call", id: "c", name: "grep", arguments: "x", result: { content: "(image)" } },
    { kind: "call", id: "old", name: "old", arguments: "", result: { content: "" } },
    { kind: "reply", text: "I won't.", reasoning: "", growing: false },
  ]);
  assertEquals(items.isAnswered, true);
});

Deno.test("Items tell a warning once, however many turns tell it", () => {
  const turn: readonly TalkEvent[] = [
    { type: "turn_start" },
    { type: "warning", message: "No model is configured." },
    { type: "text_delta", step: 1, text: "a" },
    { type: "reasoning_delta", step: 1, text: "b" },
    { type: "turn_end", reason: "cancelled", text: "", ledger: LEDGER },
  ];
  assertEquals(shown([...turn, ...turn]).map(({ kind }) => kind), [
    "warning",
    "reply",
    "end",
    "reply",
    "end",
  ]);
});

Deno.test("Items tell once what a turn cost that went on with answers", () => {
  const end = (reason: "approval" | "completed", calls: number, whole?: number) => {
    const ledger = { ...LEDGER, calls };
    const all = whole !== undefined && { whole: { ...LEDGER, calls: whole } };
    return { type: "turn_end", reason, text: "", ledger, ...all } as const;
  };
  const ends = (events: readonly TalkEvent[]) =>
    shown(events).flatMap((item) => item.kind === "end" ? [[item.reason, item.ledger?.calls]] : []);
  const start = (input: string) => ({ type: "turn_start", input }) as const;
  const first = [start("a"), end("completed", 5), start("b"), end("approval", 1)] as const;
  assertEquals(ends(first), [["completed", 5], ["approval", 1]]);
  assertEquals(ends([...first, { type: "turn_start" }, end("completed", 2, 3)]), [
    ["completed", 5],
    ["approval", undefined],
    ["completed", 3],
  ]);
});

Deno.test("Items say of a turn that asks that it waits, until all is answered", () => {
  const asked = (id: string): TalkEvent => ({
    type: "approval_asked",
    step: 1,
    id,
    name: "f",
    arguments: "",
  });
  const answered = (id: string): TalkEvent => ({
    ...{ type: "approval_answered", approvalId: `q-${id}`, id, decision: "deny", by: "person" },
  });
  const ends = (events: readonly TalkEvent[]) =>
    shown(events).flatMap((item) => item.kind === "end" ? [item.reason] : []);
  const call = (id: string): TalkEvent => ({ type: "tool_call", step: 1, id, name: "f", arguments: "" });
  const end: TalkEvent = { type: "turn_end", reason: "approval", text: "", ledger: LEDGER };
  const waits = [
    { type: "turn_start", input: "a" },
    call("1"),
    call("2"),
    asked("1"),
    asked("2"),
    end,
  ] as const;
  assertEquals(ends([...waits, answered("1")]), ["approval"]);
  assertEquals(ends([...waits, answered("1"), answered("2")]), ["answered"]);
  const [, ...again] = waits;
  assertEquals(ends([...waits, answered("2"), answered("1"), ...again]), ["answered", "approval"]);
});

Deno.test("Items say that a refusal may be one of pictures, where there are some", () => {
  const end = { type: "turn_end", reason: "model_error", text: "", ledger: LEDGER } as const;
  const start = (input: Content) => ({ type: "turn_start", input }) as const;
  const picture = start([{ type: "image_url", image_url: { url: "data:image/png;base64,AA" } }]);
  const told = (events: readonly TalkEvent[]) =>
    shown(events).flatMap((item) => item.kind === "end" ? [item.refusedPictures] : []);
  const refused = { ...end, code: "bad_request" } as const;
  assertEquals(told([start("a"), refused, picture, { ...end, code: "unreachable" }, refused]), [
    undefined,
    undefined,
    true,
  ]);
});

Deno.test("Items show the pictures of results, and none from elsewhere", () => {
  const url = "data:image/png;base64,AA";
  const call = { type: "tool_call", step: 1, id: "a", name: "read_file", arguments: "{}" } as const;
  const told = { id: "a", name: "read_file", content: "A picture.", error: false, bytes: 3, durationMs: 5 };
  const result = { type: "tool_result", step: 1, ...told, pictures: [url] } as const;
  const pictures = (items: readonly object[]) =>
    items.flatMap((item) => "result" in item ? [(item.result as { pictures?: unknown }).pictures] : []);
  assertEquals(pictures(shown([call, result])), [[url]]);
  const items = new Items();
  const content = [url, "https://example.com/a.png", "data:image/svg+xml,x"].map((url) =>
    ({ type: "image_url", image_url: { url } }) as const
  );
  items.addMessage({ role: "tool", tool_call_id: "a", content });
  assertEquals(pictures(items.list), [[url]]);
});

Deno.test("Items take back what was shown of a reply that broke off", () => {
  const piece = (text: string) => ({ type: "text_delta", step: 1, text }) as const;
  const start = { type: "step_start", step: 1 } as const;
  const message = { role: "assistant", content: "Hello." } as const;
  const whole = [piece("Hel"), piece("lo."), { type: "assistant_message", step: 1, message }] as const;
  const told = { type: "warning", message: "Cut." } as const;
  const reply = { kind: "reply", text: "Hello.", reasoning: "", growing: false } as const;
  assertEquals(shown([start, piece("Hal"), start, told, ...whole]), [
    { kind: "warning", message: "Cut." },
    reply,
  ]);
  assertEquals(shown([start, piece("Hal"), { type: "turn_resumed", step: 1 }, start, ...whole]), [
    { kind: "warning", message: "The server was started again, and the turn goes on." },
    reply,
  ]);
  assertEquals(shown([start, ...whole, start, piece("More")]), [
    reply,
    { ...reply, text: "More", growing: true },
  ]);
});
