import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import type { AssistantMessage, Message, Model, ModelRequest, Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import type { HttpAgent } from "@tare/server";
import {
  agent,
  call,
  echo,
  error,
  newSession,
  refused,
  request,
  scriptedModel,
  silentModel,
  steppedModel,
  type TestOptions,
  turn,
  UNREPORTED,
} from "../fixture_test.ts";

type Session = { readonly id: string; readonly title: string; readonly messages: Message[] };

const brief = (messages: readonly Message[]) => messages.map(({ role, content }) => `${role[0]}: ${content}`);

function asking(text: string): Partial<AssistantMessage> {
  return {
    content: null,
    tool_calls: [{ id: text, type: "function", function: { name: "echo", arguments: `{"text":"${text}"}` } }],
  };
}

function noted(replies: readonly Partial<AssistantMessage>[] | Model, options: TestOptions = {}) {
  const requests: ModelRequest[] = [];
  const model = typeof replies === "function" ? replies : scriptedModel(replies, UNREPORTED);
  return { requests, handler: agent((request) => (requests.push(request), model(request)), options) };
}

const bodyOf = async (handler: HttpAgent, path: string) =>
  (await call(handler, "GET", path)).body as Session & Record<string, unknown>;

async function fork(handler: HttpAgent, path: string, body: object = {}) {
  const { status, body: answer } = await call(handler, "POST", `${path}/fork`, body);
  const { session, input } = answer as { session: Session & Record<string, unknown>; input?: string };
  return { status, path: `/tare/v1/sessions/${session.id}`, session, input };
}

Deno.test("POST /title: a session keeps the user's title, before its first turn, after it and during one", async () => {
  const stepped = steppedModel();
  const { model } = stepped;
  const store = memoryStore();
  const handler = agent(model, { store });
  const path = await newSession(handler);
  const rename = async (title: string) =>
    ((await call(handler, "POST", `${path}/title`, { title })).body as Session).title;
  assertEquals(await rename("  The\nnotes "), "The notes");
  const running = turn(handler, path, "Which files are there?");
  await stepped.requested();
  assertEquals(await rename("Files"), "Files");
  await stepped.reply("none");
  await running;
  assertEquals((await bodyOf(handler, path)).title, "Files");
  const { body } = await call(handler, "GET", "/tare/v1/sessions?search=fil");
  assertEquals((body as { sessions: Session[] }).sessions.map(({ title }) => title), ["Files"]);
  assertEquals((await bodyOf(agent(model, { store }), path)).title, "Files");
  for (const title of ["", " \n", "x".repeat(121)]) {
    assertEquals((await refused(handler, "POST", `${path}/title`, { title })).status, 400);
  }
  const missing = await refused(handler, "POST", "/tare/v1/sessions/none/title", { title: "x" });
  assertEquals(missing, error(404, "not_found", "Cannot find session none: there is no such session."));
});

Deno.test("sessions: a title is the creator's, and searches find it", async () => {
  const { handler } = noted([{ content: "a" }]);
  const path = await newSession(handler, { metadata: { title: "Nightly run" } });
  await turn(handler, path, "Which files are there?");
  assertEquals((await bodyOf(handler, path)).title, "Nightly run");
});

Deno.test("POST /title: a session whose turn runs on another server is renamed there", async () => {
  const memory = sharedMemory();
  const stepped = steppedModel();
  const { model } = stepped;
  const [a, b] = [agent(model, { store: memory.open().store }), agent(model, { store: memory.open().store })];
  const path = await newSession(a);
  const running = turn(a, path, "q");
  await stepped.requested();
  assertEquals(((await call(b, "POST", `${path}/title`, { title: "Named" })).body as Session).title, "Named");
  await stepped.reply("one");
  await running;
  assertEquals([(await bodyOf(a, path)).title, (await bodyOf(b, path)).title], ["Named", "Named"]);
});

Deno.test("POST /fork: a fork continues from before a message, with the same bytes, and the original is unchanged", async () => {
  const { handler, requests } = noted([
    { content: "one" },
    asking("x"),
    { content: "two" },
    { content: "other" },
    { content: "whole" },
  ], {
    place: { describe: () => Promise.resolve("In /here."), changes: () => Promise.resolve(undefined) },
  });
  const path = await newSession(handler, { metadata: { of: "user" } });
  await turn(handler, path, "first");
  await turn(handler, path, "second");
  const before = await bodyOf(handler, path);
  assertEquals(
    brief(before.messages),
    [
      "s: undefined",
      "u: first",
      "a: one",
      "u: second",
      "a: null",
      "t: x",
      "a: two",
    ].map((text) => text === "s: undefined" ? "s: Be brief.\n\nIn /here." : text),
  );
  const other = await fork(handler, path, { before: 3 });
  assertEquals([other.status, other.input], [201, "second"]);
  const { title, metadata, forkedFrom, turns, ledger } = other.session;
  const from = { session: before.id, messages: 3 };
  assertEquals([title, metadata, forkedFrom, turns], ["first", { of: "user" }, from, 0]);
  assertEquals((ledger as { calls: number }).calls, 0);
  await turn(handler, other.path, "second, please");
  assertEquals(
    JSON.stringify(requests.at(-1)!.messages.slice(0, 3)),
    JSON.stringify(before.messages.slice(0, 3)),
  );
  assertEquals(brief(requests.at(-1)!.messages.slice(3)), ["u: second, please"]);
  assertEquals(requests.at(-1)!.tools, requests[0]!.tools);
  assertEquals(await bodyOf(handler, path), before);
  const whole = await fork(handler, path);
  assertEquals([whole.input, whole.session.forkedFrom], [undefined, { session: before.id, messages: 7 }]);
  assertEquals(brief((await bodyOf(handler, whole.path)).messages), brief(before.messages));
  const { body } = await call(handler, "GET", "/tare/v1/sessions");
  assertEquals((body as { sessions: Session[] }).sessions.map(({ id }) => id), [
    whole.session.id,
    other.session.id,
    before.id,
  ]);
  await call(handler, "DELETE", path);
  assertEquals(brief((await bodyOf(handler, other.path)).messages.slice(-2)), [
    "u: second, please",
    "a: other",
  ]);
});

Deno.test(
  "POST /fork: content evicted before the fork stays evicted, can be recalled, and outlives the original session",
  async () => {
    const big: Tool = {
      ...echo,
      stance: "rederivable",
      run: ({ text }) => Array.from({ length: 2_000 }, (_, line) => `line ${line} of ${text}`).join("\n"),
    };
    const replies = [...["a", "b", "c"].map(asking), { content: "read" }, { content: "well" }, {
      content: "on",
    }];
    const { handler, requests } = noted(replies, { tools: [big], profile: profileNamed("none") });
    const path = await newSession(handler);
    await turn(handler, path, "read");
    await turn(handler, path, "and now?");
    const seen = requests.at(-1)!.messages;
    const placeholder = seen.find(({ role, content }) =>
      role === "tool" && !String(content).startsWith("line 0")
    );
    const [ref = ""] = /[0-9a-f]{16}/.exec(String(placeholder?.content)) ?? [];
    const other = await fork(handler, path, { before: seen.length - 1 });
    await call(handler, "DELETE", path);
    await turn(handler, other.path, "and then?");
    assertEquals(JSON.stringify(requests.at(-1)!.messages.slice(0, -1)), JSON.stringify(seen.slice(0, -1)));
    const original = await handler.fetch(request("GET", `${other.path}/archive/${ref}`));
    assertEquals([original.status, (await original.text()).split("\n").length], [200, 2_000]);
  },
);

Deno.test(
  "POST /fork: a session is forked before the running turn's message, which continues, and not within the turn",
  async () => {
    const stepped = steppedModel();
    const handler = agent(stepped.model);
    const path = await newSession(handler);
    const running = turn(handler, path, "first");
    await stepped.requested();
    await call(handler, "POST", `${path}/turns`, { input: "more", steer: true });
    await stepped.call("echo");
    await stepped.requested();
    const roles = (await bodyOf(handler, path)).messages.map(({ role }) => role);
    assertEquals(roles, ["system", "user", "assistant", "tool", "user"]);
    const other = await fork(handler, path, { before: 1 });
    assertEquals([other.input, brief((await bodyOf(handler, other.path)).messages)], ["first", [
      "s: Be brief.",
    ]]);
    assertEquals(
      await refused(handler, "POST", `${path}/fork`, { before: 4 }),
      error(
        409,
        "turn_running",
        `Cannot fork session ${path.split("/").at(-1)} before message 4: it belongs to the running turn. ` +
          "Wait for its turn_end, or cancel it.",
      ),
    );
    assertEquals(
      await refused(handler, "POST", `${path}/fork`, { before: 2 }),
      error(
        400,
        "invalid_request",
        `Cannot fork session ${
          path.split("/").at(-1)
        } before message 2: it isn't the user's, and user messages are at 1, 4.`,
      ),
    );
    await stepped.reply("done");
    await running;
    assertEquals((await fork(handler, path, { before: 4 })).input, "more");
  },
);

Deno.test("POST /fork: a session with pending approvals is only forked from before them", async () => {
  const { handler } = noted([asking("x"), { content: "done" }], {
    approvals: {},
    after: () => () => {},
  });
  const path = await newSession(handler);
  await turn(handler, path, "first");
  const whole = await refused(handler, "POST", `${path}/fork`, {});
  assertEquals([whole.status, (whole.body as { error: { code: string } }).error.code], [
    409,
    "approval_open",
  ]);
  assertEquals((await fork(handler, path, { before: 1 })).input, "first");
});

Deno.test("POST /fork: one fork is made for an Idempotency-Key, and counts for the limit of sessions", async () => {
  const handler = agent(silentModel().model, { maxSessions: 2 });
  const path = await newSession(handler);
  const send = async (key: string) => {
    const headers = { "content-type": "application/json", "idempotency-key": key };
    const incoming = new Request(`http://localhost${path}/fork`, { method: "POST", headers, body: "{}" });
    const response = await handler.fetch(incoming);
    return [response.status, (await response.json()).session?.id];
  };
  const first = await send("k");
  assertEquals([first[0], await send("k")], [201, first]);
  assertEquals(await send("other"), [507, undefined]);
});
