import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { type Json, longResult, SUMMARIZE } from "./agents_fixture_test.ts";
import { gatewayed, post, UPSTREAM } from "./fixture_test.ts";

const SYSTEM = [
  { type: "text", text: "x-billing: 1.0; cch=0a1b2c" },
  {
    type: "text",
    text: "You are an agent for software engineering. ".repeat(100),
    cache_control: { type: "ephemeral" },
  },
];
const BASH = {
  name: "Bash",
  description: "Runs a command.",
  input_schema: { type: "object", properties: { command: { type: "string" } } },
};
const RULES = "<system-reminder>\nRULE-7: never touch generated files.\n</system-reminder>";
const TASK = "Find the four constants in src/ and write them to answer.txt.";
const SUMMARY =
  "1. Primary request: four constants of src/ in answer.txt; eight files were read, none was written.";
const USER_ID = JSON.stringify({ device_id: "d", session_id: "e6b0a7ba-0000-4000-8000-000000000000" });

const opening = (text: string): Json => ({
  role: "user",
  content: [{ type: "text", text: RULES }, { type: "text", text }],
});
const call = (id: string): Json => ({
  role: "assistant",
  content: [{ type: "tool_use", id, name: "Bash", input: { command: `cat ${id}` } }],
});
const result = (id: string): Json => ({ type: "tool_result", tool_use_id: id, content: longResult(id) });

/** Returns a value without cache breakpoints, which move from request to request. */
// deno-lint-ignore no-explicit-any
function unmarked(value: unknown): any {
  return JSON.parse(JSON.stringify(value, (name, field) => name === "cache_control" ? undefined : field));
}

function claude() {
  const { fetch, seen, ledger: report } = gatewayed(({ url, body }) => {
    if (new URL(url).pathname.endsWith("/count_tokens")) return Response.json({ input_tokens: 7 });
    const lastMessage = JSON.stringify(body.messages.at(-1));
    const text = lastMessage.includes("TEXT ONLY")
      ? `<analysis>Hm.</analysis>\n<summary>\n${SUMMARY}\n</summary>`
      : "Hi.";
    return Response.json({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude-x",
      content: [{ type: "text", text }],
      stop_reason: "end_turn",
      usage: { input_tokens: Math.ceil(JSON.stringify(body).length / 4), output_tokens: 5 },
    });
  }, { upstreams: { messages: { ...UPSTREAM, baseURL: "http://upstream.example/v1" } } });
  const ask = async (messages: readonly Json[], more: object = {}, path = "/messages") => {
    const body = { model: "claude-x", max_tokens: 32_000, system: SYSTEM, tools: [BASH], messages };
    const headers = { "anthropic-version": "2023-06-01", "x-api-key": "sk" };
    const request = post({ ...body, metadata: { user_id: USER_ID }, ...more }, headers, `${path}?beta=true`);
    const response = await fetch(request);
    const counted = await response.json();
    const [session, epoch] = ["x-tare-session", "x-tare-epoch"].map((name) => response.headers.get(name));
    return { session, epoch, counted, body: unmarked(seen.at(-1)?.body) };
  };
  const work = async () => {
    let messages: readonly Json[] = [opening(TASK)];
    let last = await ask(messages);
    for (let at = 0; at < 8; at++) {
      messages = [...messages, call(`toolu_${at}`), { role: "user", content: [result(`toolu_${at}`)] }];
      last = await ask(messages);
    }
    return { messages, last };
  };
  const ledger = async () => (await report()).planned;
  return { ask, work, ledger };
}

Deno.test("sessions: Claude Code's compaction and the history after it are recognized", async () => {
  const { ask, work, ledger } = claude();
  const { messages, last } = await work();
  assertMatch(JSON.stringify(last.body.messages), /\[elided: Bash result/);
  const late = { role: "user", content: [result("toolu_late"), { type: "text", text: SUMMARIZE }] };
  const compaction = await ask([...messages, call("toolu_late"), late]);
  assertEquals(unmarked(compaction.body.messages), unmarked([...messages, call("toolu_late"), late]));
  assertEquals([compaction.body.tools, compaction.body.system], [last.body.tools, unmarked(SYSTEM)]);
  assertEquals([compaction.session, compaction.epoch], [last.session, last.epoch]);
  const system = [{ type: "text", text: "x-billing: 1.0; cch=ffffff" }, SYSTEM[1]];
  const fresh = [opening(`This session is being continued.\n\n${SUMMARY}\n\nContinue.`)];
  const next = await ask(fresh, { system });
  const { sessions, compactions } = await ledger();
  assertEquals([next.session, next.body.messages, sessions, compactions], [last.session, fresh, 1, 1]);
});

Deno.test("sessions: Claude Code's titles and token counts change nothing, and subagents have their own", async () => {
  const { ask, work, ledger } = claude();
  const title = { system: [{ type: "text", text: "Write a title, in sentence case." }], tools: undefined };
  const titled = await ask([{ role: "user", content: TASK }], title);
  const { messages, last } = await work();
  assertEquals(titled.session, last.session);
  const again = await ask([{ role: "user", content: TASK }], title);
  assertEquals([again.session, again.epoch, again.body.messages], [last.session, last.epoch, [{
    role: "user",
    content: TASK,
  }]]);
  const counted = await ask(messages, {}, "/messages/count_tokens");
  assertEquals([counted.counted, counted.body.messages], [{ input_tokens: 7 }, last.body.messages]);
  assertEquals((await ledger()).sessions, 1);
  const subagent = await ask([{ role: "user", content: "Explore src/." }], {
    system: [{ type: "text", text: "You are a file search specialist." }],
  });
  assertNotEquals(subagent.session, last.session);
  const resumed = await ask([...messages, { role: "assistant", content: "Hi." }, opening("Continue.")]);
  assertEquals(resumed.session, last.session);
});

Deno.test("sessions: Claude Code's device id doesn't matter, and concurrent first requests share a session later", async () => {
  const { ask, ledger } = claude();
  const from = (device_id: string) => ({
    metadata: { user_id: JSON.stringify({ device_id, account_uuid: "", session_id: "e6b0a7ba" }) },
  });
  const messages = [opening(TASK)];
  const first = await ask(messages, from("a"));
  const { session } = await ask([...messages, call("toolu_0"), {
    role: "user",
    content: [result("toolu_0")],
  }], from("b"));
  assertEquals([session, (await ledger()).sessions], [first.session, 1]);
});

Deno.test("gateway() rejects a protocol without upstream, in its own error format", async () => {
  const { fetch } = gatewayed(() => Response.json({}), { upstreams: { messages: UPSTREAM } });
  const countOf = async (path: string) => {
    const response = await fetch(post({ model: "m" }, {}, path));
    return [response.status, (await response.json()).error.message];
  };
  const missing = (
    path: string,
  ) => [404, `Cannot forward /v1${path}: no upstream is configured for its protocol.`];
  assertEquals(await countOf("/chat/completions"), missing("/chat/completions"));
  assertEquals(await countOf("/responses/resp_1/cancel"), missing("/responses/resp_1/cancel"));
  const none = gatewayed(() => Response.json({}), { upstreams: {} });
  const response = await none.fetch(post({}, {}, "/embeddings"));
  assertEquals([response.status, (await response.json()).error.code], [404, "no_upstream"]);
});
