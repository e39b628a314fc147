import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import {
  type ClaudeCode,
  claudeGateway,
  type ClaudeMessage,
  claudeRequest,
  step,
  textMessage,
} from "./claude_code_fixture_test.ts";
import { completion, gatewayed, post, UPSTREAM } from "./fixture_test.ts";

const LONG = Array.from({ length: 5_000 }, (_, at) => `${at % 97}`).join(" ");

Deno.test("gateway() sends requests to the upstream of their protocol, with its key or the client's", async () => {
  const claude = { ...UPSTREAM, baseURL: "http://claude.example/v1" };
  const answer = () => completion({ content: "Hi" });
  const own = gatewayed(answer, { upstreams: { chat: UPSTREAM, messages: claude } });
  const keyed = gatewayed(answer, {
    upstreams: { chat: UPSTREAM, messages: { ...claude, apiKey: "server" } },
  });
  const request = (path: string, headers: Record<string, string> = {}) => {
    const { body, method } = claudeRequest([textMessage("user", "Hi.")]);
    const more = { "content-type": "application/json", "anthropic-version": "2023-06-01", ...headers };
    return path.startsWith("/models")
      ? new Request(`http://localhost/v1${path}`, { headers: more })
      : new Request(`http://localhost/v1${path}`, { method, headers: more, body });
  };
  for (const { fetch } of [own, keyed]) {
    await (await fetch(post({ model: "m", messages: [] }, { authorization: "Bearer openai" }))).text();
    await (await fetch(request("/messages?beta=true", { "x-api-key": "client" }))).text();
    await (await fetch(request("/messages", { authorization: "Bearer oauth", "anthropic-beta": "a,b" })))
      .text();
    await (await fetch(request("/messages/count_tokens?beta=true", { "x-api-key": "client" }))).text();
    await (await fetch(request("/models?limit=1000", { "x-api-key": "client" }))).text();
    await (await fetch(new Request("http://localhost/v1/models"))).text();
  }
  const sent = ({ seen }: typeof own) =>
    seen.map(({ method, url, headers }) =>
      [
        method,
        url,
        ...["x-api-key", "authorization", "anthropic-beta"].map((name) => headers.get(name) ?? "-"),
      ]
        .join(" ")
    );
  assertEquals(sent(own), [
    "POST http://upstream.example/v1/chat/completions - Bearer openai -",
    "POST http://claude.example/v1/messages?beta=true client - -",
    "POST http://claude.example/v1/messages - Bearer oauth a,b",
    "POST http://claude.example/v1/messages/count_tokens?beta=true client - -",
    "GET http://claude.example/v1/models?limit=1000 client - -",
    "GET http://upstream.example/v1/models - - -",
  ]);
  assertEquals(sent(keyed).slice(1, 5), [
    "POST http://claude.example/v1/messages?beta=true server - -",
    "POST http://claude.example/v1/messages server - a,b",
    "POST http://claude.example/v1/messages/count_tokens?beta=true server - -",
    "GET http://claude.example/v1/models?limit=1000 server - -",
  ]);
});

Deno.test("gateway() forwards errors of the Messages format byte for byte", async () => {
  const text =
    '{"type":"error", "error":{"type":"invalid_request_error","message":"prompt is too long: 5 > 3 maximum"}}';
  const { fetch, seen } = claudeGateway(() =>
    new Response(text, {
      status: 400,
      headers: { "content-type": "application/json", "request-id": "req_1" },
    })
  );
  const response = await fetch(claudeRequest([textMessage("user", "Go."), ...step("a", [LONG])]));
  assertEquals([response.status, response.headers.get("request-id"), await response.text()], [
    400,
    "req_1",
    text,
  ]);
  // The client's own request is tried as well.
  assertEquals(seen.length, 2);
  const big = new Request("http://localhost/v1/messages", { method: "POST", body: "{}" });
  assertEquals((await (await fetch(big)).json()).type, "error");
});

Deno.test("sessions: changed lines of instructions continue a session, and subagents have their own", async () => {
  const { fetch } = claudeGateway(() => ({ content: "Done." }));
  const ask = async (dialogue: readonly ClaudeMessage[], now?: ClaudeCode) => {
    const response = await fetch(claudeRequest(dialogue, now));
    await response.text();
    return response.headers.get("x-tare-session");
  };
  const history = [textMessage("user", "Go."), ...step("a", ["A."])];
  const one = await ask(history);
  const more = [...history, textMessage("assistant", "Done."), textMessage("user", "More.")];
  assertEquals(await ask(more, { bill: "99f" }), one);
  const resumed = [...more, textMessage("assistant", "Done."), textMessage("user", "And more.")];
  assertEquals(await ask(resumed, { status: "M a.ts\nM b.ts", bill: "77e" }), one);
  const agent = { system: "You are an agent that looks for files.\nReport what you find.", bill: "123" };
  const found = await ask([textMessage("user", "Find a.")], agent);
  const other = await ask([textMessage("user", "Find b.")], agent);
  assertEquals(new Set([one, found, other]).size, 3);
  assertEquals(await ask([textMessage("user", "Find a."), ...step("x", ["X."])], agent), found);
  assertEquals(await ask([textMessage("user", "Find b."), ...step("x", ["X."])], agent), other);
  assertNotEquals(await ask([textMessage("user", "Go.")], agent), one);
  assertEquals(await ask([...resumed, ...step("b", ["B."])], { status: "M a.ts" }), one);
});

Deno.test("messages: edits replace single blocks, retain replies, and use at most four breakpoints", async () => {
  const { fetch, seen } = claudeGateway(() => ({ content: "Done." }));
  const dialogue: ClaudeMessage[] = [textMessage("user", "RULE-7 is in CLAUDE.md. Go.")];
  for (let at = 0; at < 13; at++) {
    dialogue.push(
      ...step(
        `f${at}`,
        [`${at} ${LONG}`, `again ${at} ${LONG}`],
        at % 3 === 0 ? `Reminder ${at}.` : undefined,
      ),
    );
    await (await fetch(claudeRequest(dialogue))).text();
  }
  const { messages, system } = seen.at(-1)!.body;
  const sent = messages as ClaudeMessage[];
  assertEquals(
    sent.filter(({ role }) => role === "assistant"),
    dialogue.filter(({ role }) => role === "assistant"),
  );
  const texts = (list: readonly ClaudeMessage[]) => JSON.stringify(list).match(/RULE-7[^"]*|Reminder \d+\./g);
  assertEquals(texts(sent), texts(dialogue));
  const elided = sent.flatMap(({ content }) => typeof content === "string" ? [] : content)
    .filter(({ content }) => String(content).startsWith("[elided: "));
  assert(elided.length > 10, `${elided.length} results were elided`);
  for (const { body } of seen) {
    const all = JSON.stringify(body).match(/"cache_control"/g) ?? [];
    assert(all.length === 3 || all.length === 4);
    assert(body.messages.at(-1).content.at(-1).cache_control);
  }
  assertEquals(JSON.stringify(system).match(/"cache_control"/g)?.length, 2);
});

Deno.test("messages: a hidden recall is restored with its signed reasoning, and stream indexes are shifted", async () => {
  const { fetch, seen } = claudeGateway((_, index) =>
    index === 0
      ? { thoughts: "Which?", calls: [{ name: "recall", args: { ref: "none" }, id: "r1" }] }
      : index === 1
      ? { thoughts: "Now.", content: "Found.", calls: [{ name: "Bash", args: { command: "ls" }, id: "c1" }] }
      : { content: "Done." }
  );
  const text = await (await fetch(claudeRequest([textMessage("user", "Go.")], { stream: true }))).text();
  assertEquals(text.includes("recall"), false);
  const indexes = [...text.matchAll(/"content_block_start","index":(\d+)/g)].map(([, index]) => index);
  assertEquals(indexes, ["0", "1", "2", "3"]);
  assertEquals(text.match(/event: message_(start|stop)/g)?.length, 2);
  assertMatch(text, /"stop_reason":"tool_use"/);
  const thinking = (thinking: string) => ({ type: "thinking", thinking, signature: `sig-${thinking}` });
  const visible = [
    thinking("Which?"),
    thinking("Now."),
    { type: "text", text: "Found." },
    { type: "tool_use", id: "c1", name: "Bash", input: { command: "ls" } },
  ];
  const result = { type: "tool_result", tool_use_id: "c1", content: "a" };
  const dialogue: ClaudeMessage[] = [textMessage("user", "Go."), { role: "assistant", content: visible }, {
    role: "user",
    content: [result],
  }];
  await (await fetch(claudeRequest(dialogue, { stream: true }))).text();
  const sent = seen.at(-1)!.body.messages;
  assertEquals(sent.slice(1, 4), [
    {
      role: "assistant",
      content: [thinking("Which?"), { type: "tool_use", id: "r1", name: "recall", input: { ref: "none" } }],
    },
    {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "r1", content: sent[2].content[0].content }],
    },
    // The upstream's stable part ends here.
    {
      role: "assistant",
      content: [thinking("Now."), visible[2], { ...visible[3], cache_control: { type: "ephemeral" } }],
    },
  ]);
  assertMatch(sent[2].content[0].content, /^Cannot recall/);
});

Deno.test("messages: the requested cache lifetime and the reported writes determine costs", async () => {
  const usage = (short: number, hour: number) => ({
    input_tokens: 0,
    output_tokens: 1,
    cache_creation_input_tokens: short + hour,
    cache_creation: { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: hour },
  });
  const cost = async (short: number, hour: number) => {
    const { fetch, ledger } = gatewayed(
      () => Response.json({ type: "message", content: [], usage: usage(short, hour) }),
      {
        upstreams: { messages: { ...UPSTREAM, profile: profileNamed("anthropic-5m") } },
      },
    );
    await (await fetch(claudeRequest([textMessage("user", "Go.")]))).text();
    return (await ledger()).planned.costUnits;
  };
  assertEquals([await cost(1_000, 0), await cost(0, 1_000), await cost(400, 600)], [1_250, 2_000, 1_700]);
});

Deno.test("sessions: a conversation resumed under another name continues with hidden recalls", async () => {
  const { fetch, seen } = claudeGateway((_, index) =>
    index === 0 ? { calls: [{ name: "recall", args: { ref: "none" }, id: "r1" }] } : { content: "Done." }
  );
  const ask = async (dialogue: readonly ClaudeMessage[], now: ClaudeCode = {}) => {
    const response = await fetch(claudeRequest(dialogue, now));
    await response.text();
    return response.headers.get("x-tare-session");
  };
  const recalls = () => JSON.stringify(seen.at(-1)!.body.messages).includes('"id":"r1"');
  const opening = [textMessage("user", "Go.")];
  const one = await ask(opening);
  const resumed = [...opening, textMessage("assistant", "Done."), textMessage("user", "More.")];
  assertEquals([await ask(resumed), recalls()], [one, true]);
  const later = [...resumed, textMessage("assistant", "Done."), textMessage("user", "And more.")];
  const two = await ask(later, { session: "s2", status: "M a.ts" });
  assertEquals(recalls(), true);
  assertEquals(await ask([...later, ...step("g", ["G."])], { session: "s2", status: "M a.ts" }), two);
  assertEquals(recalls(), true);
  assertNotEquals(await ask([...opening, ...step("f0", ["Other."])], { session: "s3" }), two);
  assertEquals(recalls(), false);
});

Deno.test("messages: a recall next to the client's calls is answered in one message with their results", async () => {
  const calls = [{ name: "recall", args: { ref: "none" }, id: "r1" }, { name: "Bash", args: {}, id: "c1" }];
  const { fetch, seen } = claudeGateway((_, index) => index === 0 ? { calls } : { content: "Done." });
  await (await fetch(claudeRequest([textMessage("user", "Go.")]))).text();
  const use = { type: "tool_use", id: "c1", name: "Bash", input: {} };
  const result = { type: "tool_result", tool_use_id: "c1", content: "a" };
  const dialogue: ClaudeMessage[] = [
    textMessage("user", "Go."),
    { role: "assistant", content: [use] },
    { role: "user", content: [result, { type: "text", text: "Hm?" }] },
  ];
  await (await fetch(claudeRequest(dialogue))).text();
  const [, reply, results, ...more] = seen.at(-1)!.body.messages;
  assertEquals(more, []);
  assertEquals(reply.content.map(({ id }: { id: string }) => id), ["r1", "c1"]);
  assertEquals(
    results.content.map(({ type, tool_use_id = "" }: { type: string; tool_use_id?: string }) =>
      `${type} ${tool_use_id}`
    ),
    ["tool_result r1", "tool_result c1", "text "],
  );
});

Deno.test("messages: results that define tools, and their step, are not edited", async () => {
  const { fetch, seen } = claudeGateway(() => ({ content: "Done." }));
  const id = "toolu_search";
  const search: ClaudeMessage[] = [
    {
      role: "assistant",
      content: [{ type: "tool_use", id, name: "ToolSearch", input: { query: "github" } }],
    },
    {
      role: "user",
      content: [{
        type: "tool_result",
        tool_use_id: id,
        content: Array.from(
          { length: 40 },
          (_, at) => ({ type: "tool_reference", tool_name: `mcp__tool_${at}` }),
        ),
      }],
    },
  ];
  const dialogue: ClaudeMessage[] = [textMessage("user", "Go."), ...search];
  for (let turn = 0; turn < 4; turn++) {
    for (let at = 0; at < 4; at++) {
      dialogue.push(...step(`f${turn}_${at}`, [`${at} ${LONG}`]));
      await (await fetch(claudeRequest(dialogue))).text();
    }
    dialogue.push(textMessage("assistant", "Done."), textMessage("user", "More."));
  }
  await (await fetch(claudeRequest(dialogue))).text();
  const sent = JSON.stringify(seen.at(-1)!.body.messages);
  assertMatch(sent, /\[elided: \d+ messages/);
  for (const message of search) assert(sent.includes(JSON.stringify(message)));
});
