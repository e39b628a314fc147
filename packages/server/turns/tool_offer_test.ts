import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  type AssistantMessage,
  estimateTokens,
  type Message,
  type Model,
  type ModelRequest,
  type Tool,
} from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import { profileNamed } from "@tare/planner";
import { Catalogue } from "@tare/schemas";
import type { ToolSource } from "@tare/server";
import { memoryStore } from "@tare/session/sqlite";
import fc, { cases } from "../../../tests/cases.ts";
import { recordedStore } from "../sessions/store_fixture_test.ts";
import { type OfferOptions, type OfferState, offerTools } from "./session_tools.ts";
import { agent, call, echo, events, newSession, request, turn } from "../fixture_test.ts";
import { answerCall } from "../approvals/fixture_test.ts";

const PROSE = "It explains at length details that only its callers need to know. ".repeat(10);

function thing(name: string, more: Partial<Tool> = {}, type = "integer"): Tool {
  return {
    definition: {
      type: "function",
      function: {
        name,
        description: `Does ${name.replaceAll("_", " ")}. ${PROSE}`,
        parameters: {
          type: "object",
          properties: { id: { type, description: `Which ${name}.` } },
          required: ["id"],
        },
      },
    },
    mayDefer: true,
    run: ({ id }) => `${name} ${id}`,
    ...more,
  };
}

const MANY = Array.from({ length: 40 }, (_, at) => thing(`make_${at}`));

function calling(name: string, args: unknown, id: string): Partial<AssistantMessage> {
  const text = JSON.stringify(args);
  return { tool_calls: [{ id, type: "function", function: { name, arguments: text } }] };
}

function recorded(replies: readonly Partial<AssistantMessage>[]): { model: Model; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    const message: AssistantMessage = { role: "assistant", content: "", ...replies[requests.length] };
    requests.push(request);
    const finishReason = message.tool_calls ? "tool_calls" : "stop";
    yield { type: "completed", message, finishReason };
  };
  return { model, requests };
}

const names = ({ tools }: ModelRequest) => tools.map((tool) => tool.function.name);

Deno.test("deferred tools: many tools are listed by a line each, found, called, and explained", async () => {
  const { model, requests } = recorded([
    calling("find_tools", { query: "make_7" }, "a"),
    calling("call_tool", { name: "make_7", arguments: { id: "seven" } }, "b"),
    calling("call_tool", { name: "make_7", arguments: { id: 7 } }, "c"),
    calling("make_8", { id: 8 }, "d"),
    calling("call_tool", { name: "make_77" }, "e"),
    { content: "Done." },
  ]);
  const handler = agent(model, { tools: [echo, ...MANY] });
  const session = await newSession(handler);
  const seen = await turn(handler, session, "Make 7 and 8.");
  assertEquals(requests.map(names), requests.map(() => ["echo", "recall", "find_tools", "call_tool"]));
  const [first] = requests;
  assertEquals(first!.messages.map(({ role }) => role), ["system", "system", "user"]);
  const list = String(first!.messages[1]!.content).split("\n");
  assertEquals(list.length, 41);
  assertEquals(list[8], "make_7: Does make 7.");
  const results = seen.flatMap(({ event }) => event.type === "tool_result" ? [event.content] : []);
  assertStringIncludes(results[0]!, JSON.stringify(MANY[7]!.definition.function));
  assertStringIncludes(results[1]!, "its arguments are invalid");
  assertStringIncludes(results[1]!, JSON.stringify(MANY[7]!.definition.function));
  assertEquals(results.slice(2, 4), ["make_7 7", "make_8 8"]);
  assertStringIncludes(results[4]!, 'Cannot call "make_77": there is no such tool.');
  const { body } = await call(handler, "GET", session);
  const { ledger: { saved } } = body as { ledger: { saved: Record<string, number> } };
  assert(saved.deferred! > 0);
});

Deno.test("deferred tools: they are described once, whichever write the server ends after", async () => {
  const store = recordedStore();
  const replies = [calling("find_tools", { query: "make_7" }, "a"), { content: "One." }, { content: "Two." }];
  const options = { tools: [echo, ...MANY] };
  const handler = agent(recorded(replies).model, { ...options, store });
  const session = await newSession(handler);
  for (const input of ["One?", "Two?"]) await turn(handler, session, input);
  for (let writes = 1; writes <= store.writes; writes++) {
    const replies = ["Three.", "Four.", "Five."].map((content) => ({ content }));
    const { model, requests } = recorded(replies);
    const restarted = agent(model, { ...options, store: await store.upTo(writes) });
    await events(await restarted.fetch(request("GET", `${session}/events`)));
    const goneOn = requests.length;
    for (const input of ["Three?", "Four?"]) await turn(restarted, session, input);
    assertEquals(requests.length, goneOn + 2);
    for (const { messages } of requests) {
      assertEquals(messages.filter(Catalogue.announces).length, 1, `${writes}`);
    }
    assertPrefixes(requests);
  }
});

Deno.test("deferred tools: each request is a prefix of the next, across tools, calls and restarts", async () => {
  const pool = MANY.map(({ definition }) => definition.function.name);
  const action = fc.record({
    how: fc.constantFrom("find", "call", "wrong", "direct", "answer"),
    which: fc.nat(pool.length - 1),
  });
  const played = fc.record({
    there: fc.subarray(pool, { minLength: 25 }),
    other: fc.subarray(pool, { maxLength: 5 }),
    // A repeated call would get a note.
    actions: fc.uniqueArray(action, { maxLength: 4, selector: ({ how, which }) => `${how} ${which}` }),
    restarts: fc.nat(3).map((number) => number === 0),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(played, { minLength: 2, maxLength: 5 }), async (turns) => {
      let now: readonly Tool[] = [];
      let ids = 0;
      const steps: Partial<AssistantMessage>[] = [];
      const requests: ModelRequest[] = [];
      const model: Model = async function* (request) {
        requests.push(request);
        const message: AssistantMessage = { role: "assistant", content: "", ...steps.shift() };
        yield { type: "completed", message, finishReason: message.tool_calls ? "tool_calls" : "stop" };
      };
      const toolSource: ToolSource = {
        names: ["make"],
        known: () => now,
        take: () => Promise.resolve({ tools: now, warnings: [] }),
      };
      const store = memoryStore();
      const mechanisms = { context: false, prune: false, truncate: false };
      const profile = profileNamed("openai");
      const start = () => agent(model, { store, toolSource, mechanisms, profile });
      let handler = start();
      const session = await newSession(handler);
      for (const { there, other, actions, restarts } of turns) {
        if (restarts) handler = start();
        now = there.map((name) => thing(`make__${name}`, {}, other.includes(name) ? "number" : "integer"));
        const expected: RegExp[] = [];
        for (const { how, which } of actions) {
          const name = `make__${pool[which]}`;
          const isThere = there.includes(pool[which]!);
          const id = `call_${++ids}`;
          const sent = { id: how === "wrong" ? "x" : which };
          if (how === "answer") continue;
          steps.push(
            how === "find"
              ? calling("find_tools", { query: name }, id)
              : how === "direct"
              ? calling(name, sent, id)
              : calling("call_tool", { name, arguments: sent }, id),
          );
          expected.push(
            how === "find"
              ? isThere ? new RegExp(`"name":"${name}"`) : /tools/
              : !isThere
              ? /there is no such tool/
              : how === "wrong"
              ? /invalid: .*\n.*\n.*"description":"Which/
              : new RegExp(`^${name} ${which}$`),
          );
        }
        steps.push({ content: "Done." });
        const seen = await turn(handler, session, "Go on.");
        const results = seen.flatMap(({ event }) => event.type === "tool_result" ? [event.content] : []);
        assertEquals(results.length, expected.length);
        for (const [at, text] of results.entries()) assertMatch(text, expected[at]!);
        const announced = new Map<string, boolean>();
        for (const message of requests.at(-1)!.messages.filter(Catalogue.announces)) {
          for (const line of String(message.content).split("\n")) {
            if (line.startsWith("Removed: ")) {
              for (const name of line.slice("Removed: ".length).split(", ")) announced.set(name, false);
            } else if (line.startsWith("make__")) announced.set(line.split(":", 1)[0]!, true);
          }
        }
        const known = [...announced].flatMap(([name, isThere]) => isThere ? [name] : []);
        assertEquals(known.toSorted(), there.map((name) => `make__${name}`).toSorted());
      }
      assertPrefixes(requests);
    }),
    { numRuns: cases(10) },
  );
});

const OPTIONS = {
  profile: profileNamed("openai"),
  windowTokens: 100_000,
  countTokens: estimateTokens,
  mayTell: true,
};

Deno.test(
  "deferred tools: a call of call_tool needs the named tool's approval, and describes nothing while it waits",
  async () => {
    let now: readonly Tool[] = MANY.map(({ definition }) => thing(`make__${definition.function.name}`));
    const toolSource: ToolSource = {
      names: ["make"],
      known: () => now,
      take: () => Promise.resolve({ tools: now, warnings: [] }),
    };
    const { model, requests } = recorded([
      calling("call_tool", { name: "make__make_7", arguments: { id: 7 } }, "a"),
      { content: "Made." },
      { content: "Bye." },
    ]);
    const handler = agent(model, { toolSource, approvals: {} });
    const session = await newSession(handler);
    await turn(handler, session, "Make 7.");
    const { body } = await call(handler, "GET", `${session}/approvals`);
    const [approval] =
      (body as { approvals: { callId: string; name: string; arguments: string }[] }).approvals;
    assertEquals([approval!.name, approval!.arguments], ["make__make_7", '{"id":7}']);
    now = now.slice(1);
    const { lastEvent } = (await call(handler, "GET", session)).body as { lastEvent: number };
    await answerCall(handler, session, { callId: "a", decision: "allow" });
    await events(await handler.fetch(request("GET", `${session}/events?after=${lastEvent}`)));
    await turn(handler, session, "Thanks.");
    const [, second, third] = requests;
    assertEquals(second!.messages.slice(-2).map(({ content }) => content), ["", "make__make_7 7"]);
    assertEquals(String(third!.messages.at(-2)!.content).split("\n").at(-1), "Removed: make__make_0");
    assertPrefixes(requests);
  },
);

Deno.test("deferred tools: a subagent uses its parent's list, and may call its own tools", async () => {
  const both = ["make_1", "make_2"].map((name, at) =>
    calling("call_tool", { name, arguments: { id: at } }, `h${at}`).tool_calls![0]!
  );
  const { model, requests } = recorded([
    calling("delegate", { task: "Make 1.", tools: ["make_1"] }, "a"),
    { tool_calls: both },
    { content: "Made." },
    { content: "Done." },
  ]);
  const profile = profileNamed("openai");
  const handler = agent(model, { tools: [echo, ...MANY], delegates: true, profile });
  await turn(handler, await newSession(handler), "Have it made.");
  const [first, subagent, after] = requests;
  assertEquals(JSON.stringify(subagent!.tools), JSON.stringify(first!.tools));
  assertEquals(subagent!.messages.slice(0, first!.messages.length), first!.messages);
  assertEquals(subagent!.messages.filter(Catalogue.announces).length, 1);
  const [made, refused] = after!.messages.slice(-2).map(({ content }) => String(content));
  assertEquals(made, "make_1 0");
  assertStringIncludes(refused!, "subagents may not use it");
});

Deno.test("deferred tools: a client tool can't have the name of a tool that represents others", async () => {
  const body = {
    model: "agent",
    messages: [{ role: "user", content: "q" }],
    tools: [{ type: "function", function: { name: "call_tool" } }],
  };
  const { model } = recorded([]);
  const ask = (tools: readonly Tool[]) =>
    call(agent(model, { tools }), "POST", "/v1/chat/completions", body).then(({ status }) => status);
  assertEquals([await ask([echo]), await ask([echo, ...MANY])], [200, 400]);
});

Deno.test("offerTools() decides once deferral is possible, and again only if tools in full have changed", () => {
  const state = (tools: readonly Tool[], before?: OfferState, more = {}) =>
    offerTools(tools, before, { ...OPTIONS, ...more }).state;
  assertEquals(state([echo]), undefined);
  const few = state([echo, MANY[0]!])!;
  assertEquals([few.isDeferred, Object.keys(few.announced)], [false, ["make_0"]]);
  // The same tools, though they would be too many for the window by now.
  const some = [echo, ...MANY.slice(0, 6)];
  const full = state(some)!;
  assertEquals(full.isDeferred, false);
  assertEquals(state(some, undefined, { windowTokens: 1_000 })?.isDeferred, true);
  assertEquals(state(some, full, { windowTokens: 1_000 }), full);
  assertEquals(state([...some, MANY[7]!], full, { windowTokens: 1_000 })?.isDeferred, true);
  const many = state([echo, ...MANY], few)!;
  assertEquals([many.isDeferred, Object.keys(many.announced).length], [true, 40]);
  const back = state([echo, MANY[0]!], many)!;
  assertEquals([back.isDeferred, Object.keys(back.announced)], [true, ["make_0"]]);
  assertEquals(state([echo, MANY[0]!], back), back);
});

Deno.test("offerTools() defers tools at any cost if there are more than providers accept", () => {
  const profile = profileNamed("none");
  const listed = (count: number) => {
    const tools = Array.from({ length: count }, (_, at) => thing(`t${at}`));
    const costly = { ...OPTIONS, profile, countTokens: () => 0 };
    return offerTools(tools, undefined, costly).listed.length;
  };
  assertEquals([listed(128), listed(129)], [128, 2]);
});

Deno.test("offerTools() defers no tools that are shorter than their list and the tools that represent them", () => {
  const tools = ["a", "b", "c"].map((name): Tool => ({
    definition: { type: "function", function: { name } },
    mayDefer: true,
    run: () => "",
  }));
  assertEquals(offerTools(tools, undefined, { ...OPTIONS, windowTokens: 100 }).listed, tools);
});

Deno.test("offerTools() defers no tool that is always offered in full, and none if schemas are unchanged", () => {
  const listed = (more: Partial<OfferOptions>) =>
    offerTools([echo, ...MANY], undefined, { ...OPTIONS, ...more }).listed.map((tool) =>
      tool.definition.function.name
    );
  const all = ["echo", ...MANY.map(({ definition }) => definition.function.name)];
  assertEquals(listed({ alwaysFull: ["make_3"] }), ["echo", "make_3", "find_tools", "call_tool"]);
  assertEquals(listed({ mayDefer: false }), all);
  const taken = offerTools([...MANY, thing("call_tool")], undefined, OPTIONS);
  assertEquals([taken.listed.length, taken.unlisted.length], [41, 0]);
});

Deno.test("offerTools() describes nothing while calls have no results, and catches up afterwards", () => {
  const tell = { ...OPTIONS, mayTell: false };
  assertEquals(offerTools(MANY, undefined, tell).state, undefined);
  const { state } = offerTools(MANY, undefined, OPTIONS);
  const during = offerTools(MANY.slice(1), state, tell);
  assertEquals([during.notice, during.state, during.unlisted.length], [undefined, state, 39]);
  const after = offerTools(MANY.slice(1), during.state, OPTIONS);
  assertStringIncludes(String(after.notice?.content), "Removed: make_0");
});

Deno.test("offerTools() returns the tokens that deferral saves, less its own", () => {
  const { deferred, notice } = offerTools(MANY, undefined, OPTIONS);
  const user = { role: "user", content: "Go on." } as const;
  const { tokens: all, isDetour } = deferred([user])!;
  assert(all > 6_000 && !isDetour);
  const deferredTools = deferred([notice!, user])!;
  assertEquals(all - deferredTools.tokens, countMessageTokens(notice!, estimateTokens));
  const find: Message = { role: "assistant", ...calling("find_tools", { query: "make_1" }, "a") };
  const found: Message = { role: "tool", tool_call_id: "a", content: "Here it is." };
  const inspected = deferred([notice!, user, find, found])!;
  assertEquals(inspected.isDetour, true);
  const took = countMessageTokens(find, estimateTokens) + countMessageTokens(found, estimateTokens);
  assertEquals(deferredTools.tokens - inspected.tokens, took);
  const used: Message = { role: "assistant", ...calling("call_tool", { name: "make_1" }, "b") };
  assertEquals(deferred([notice!, user, find, found, used])!, { ...inspected, isDetour: false });
  // A reply without calls is part of the conversation, and so is one with other calls too.
  const answer: Message = { role: "assistant", content: "Done." };
  assertEquals(deferred([notice!, user, answer])!, deferredTools);
  const both: Message = {
    role: "assistant",
    tool_calls: [find, used].flatMap((message) => message.role === "assistant" ? message.tool_calls! : []),
  };
  assertEquals(deferred([notice!, user, both, found])!, {
    ...deferredTools,
    tokens: deferredTools.tokens - countMessageTokens(found, estimateTokens),
    isDetour: false,
  });
});

function assertPrefixes(requests: readonly ModelRequest[]): void {
  for (const [at, { messages, tools }] of requests.slice(1).entries()) {
    const before = requests[at]!;
    assertEquals(JSON.stringify(tools), JSON.stringify(before.tools));
    assertEquals(messages.slice(0, before.messages.length), before.messages, `request ${at + 2}`);
  }
}

Deno.test("tools: those of a server that returns with another list keep their places, and new ones follow", async () => {
  const spelled = (tool: Tool): Tool => {
    const { name, description = "", parameters = {} } = tool.definition.function;
    return { ...tool, definition: { function: { parameters, description, name }, type: "function" } };
  };
  const [a, b, c] = ["s__a", "s__b", "s__c"].map((name) => thing(name, { mayDefer: false }));
  const lists = [[a!, b!], [spelled(b!), spelled(a!)], [a!], [c!, b!, a!]];
  let turns = 0;
  const tools: ToolSource = {
    names: ["s"],
    known: () => [],
    take: () => Promise.resolve({ tools: lists[turns++]!, warnings: [] }),
  };
  const { model, requests } = recorded(lists.map(() => ({ content: "Done." })));
  const handler = agent(model, { tools: [], toolSource: tools });
  const path = await newSession(handler, { tools: ["s__*"] });
  for (const _ of lists) await turn(handler, path, "Go.");
  assertEquals(requests.map(names), [["s__a", "s__b"], ["s__a", "s__b"], ["s__a"], ["s__a", "s__b", "s__c"]]);
  const [first, second] = requests.map(({ tools }) => JSON.stringify(tools));
  assertEquals(second, first);
});
