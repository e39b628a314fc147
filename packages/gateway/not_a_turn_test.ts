import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { gateway } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import {
  BASH,
  chatStep,
  codexOpening,
  codexRequest,
  codexStep,
  EXEC_COMMAND,
  type Json,
  longResult,
  messageItem,
  SUMMARIZE,
} from "./agents_fixture_test.ts";
import { completion, gatewayed, OPTIONS, post, UPSTREAM } from "./fixture_test.ts";
import { responsesUpstream, type ScriptedItems } from "./responses_fixture_test.ts";

const TASK = "Find the four constants in src/ and write them to answer.txt.";
const SYSTEM = { role: "system", content: "You are a coding agent with a shell." };
const USER = { role: "user", content: TASK };
const OPENAI = "https://api.openai.com/v1";
const NAMES = Array.from({ length: 8 }, (_, at) => `file${at}.ts`);

function chatGateway(
  answer: (body: { readonly messages: readonly Json[]; readonly tools?: readonly Json[] }) => string,
) {
  const { fetch, seen, ledger: report } = gatewayed(({ body }) => completion({ content: answer(body) }, 0));
  const ask = async (messages: readonly object[], more: object = { tools: [BASH] }, headers = {}) => {
    const response = await fetch(post({ model: "m", messages, ...more }, headers));
    await response.body?.cancel();
    return {
      session: response.headers.get("x-tare-session"),
      epoch: response.headers.get("x-tare-epoch"),
      body: seen.at(-1)?.body,
    };
  };
  const ledger = async () => (await report()).planned;
  const work = async (before: readonly Json[], headers = {}) => {
    let messages = [...before];
    let last = await ask(messages, undefined, headers);
    for (const name of NAMES) {
      messages = [...messages, ...chatStep(name, longResult(name))];
      last = await ask(messages, undefined, headers);
    }
    return { messages, last };
  };
  return { fetch, seen, ask, work, ledger };
}

function codexGateway(replies: readonly ScriptedItems[]) {
  const upstream = responsesUpstream(replies);
  const { fetch, sessions } = gateway({ ...OPTIONS, fetch: upstream.fetch });
  const ask = async (request: Request) => {
    const response = await fetch(request);
    const text = await response?.text();
    return {
      session: response?.headers.get("x-tare-session"),
      epoch: response?.headers.get("x-tare-epoch"),
      text,
      request: upstream.requests.at(-1),
    };
  };
  const work = async () => {
    let input: readonly Json[] = codexOpening(TASK);
    let last = await ask(codexRequest(input));
    for (const name of NAMES) {
      input = [...input, ...codexStep(name, longResult(name))];
      last = await ask(codexRequest(input));
    }
    return { input, last };
  };
  const ledger = async () => (await sessions.ledger()).planned;
  return { ask, work, ledger };
}

const answers = (reply: ScriptedItems): ScriptedItems[] => [...NAMES.map(() => []), [], reply];
const SUMMARY =
  "The user wants four constants of src/ in answer.txt; eight files were read, none was written yet.";

Deno.test("compaction: Codex' request contains all that its client sent, and the session continues", async () => {
  const { ask, work, ledger } = codexGateway(answers([messageItem("assistant", SUMMARY, "msg_sum")]));
  const { input, last } = await work();
  assertMatch(JSON.stringify(last.request), /\[elided: exec_command result/);
  const instruction = messageItem(
    "user",
    "You are performing a CONTEXT CHECKPOINT COMPACTION.",
    "msg_compact",
  );
  const compaction = await ask(codexRequest([...input, instruction], { kind: "compaction", tools: [] }));
  assertEquals(compaction.request?.input, [...input, instruction]);
  assertEquals([compaction.request?.tools, compaction.session, compaction.epoch], [
    [],
    last.session,
    last.epoch,
  ]);
  const summary = `Another language model started to solve this problem. Its summary:\n${SUMMARY}`;
  const fresh = [...codexOpening(TASK, 1), messageItem("user", summary, "msg_handoff")];
  const next = await ask(codexRequest(fresh));
  assertEquals([next.request?.input, next.session], [fresh, last.session]);
  const grown = [...fresh, ...codexStep("file0.ts", "one line")];
  assertEquals((await ask(codexRequest(grown))).session, last.session);
  const { sessions, compactions, compactionCostUnits, costUnits } = await ledger();
  assertEquals([sessions, compactions], [1, 1]);
  assert(compactionCostUnits > 0 && compactionCostUnits < costUnits);
});

Deno.test("compaction: evicted content is omitted from a transcript that is too long", async () => {
  const limit = 80_000;
  let reportsLimit = false;
  const { fetch, seen } = gatewayed(({ text }) => {
    if (text.length <= limit) return completion({ content: SUMMARY }, 0);
    const expected = reportsLimit ? `: ${text.length} tokens > ${limit} maximum` : "";
    return Response.json({ error: { message: `prompt is too long${expected}` } }, { status: 400 });
  });
  let messages: readonly Json[] = [SYSTEM, USER];
  for (const name of NAMES) {
    messages = [...messages, ...chatStep(name, longResult(name))];
    const turn = await fetch(post({ model: "m", messages, tools: [BASH] }));
    assertEquals(turn.status, 200);
    await turn.text();
  }
  // Some clients truncate quotes.
  const QUOTED_CHARS = 12_000;
  const quote = (content: unknown) => {
    const text = String(content ?? "");
    return text.length > QUOTED_CHARS ? `${text.slice(0, QUOTED_CHARS)}… (cut)` : text;
  };
  const transcript = messages.map(({ role, content }) => `[${role}]: ${quote(content)}`).join("\n\n");
  const ask = async (quoted: string) => {
    const body = {
      model: "m",
      messages: [{ role: "system", content: "You sum up." }, { role: "user", content: quoted }],
    };
    const response = await fetch(post(body));
    return {
      status: response.status,
      warning: response.headers.get("x-tare-warning"),
      text: await response.text(),
    };
  };
  const before = seen.length;
  const answer = await ask(transcript);
  assertEquals([answer.status, seen.length - before], [200, 2]);
  assertStringIncludes(answer.warning ?? "", "evicted content that it quotes was omitted");
  assertStringIncludes(answer.text, SUMMARY);
  const sent = seen.at(-1)?.body.messages[1].content;
  assertMatch(sent, /\[tool\]: \[elided: bash result, \d+ bytes; recall with ref [0-9a-f]{16}\]… \(cut\)/);
  assertStringIncludes(sent, TASK);
  // With a known window, as many of the newest quotes remain as fit.
  reportsLimit = true;
  await ask(transcript);
  const notice = seen.at(-1)?.body.messages[1].content;
  assertMatch(notice, /\[elided: bash result/);
  assert(notice.length > sent.length && notice.length < limit, `${notice.length}, ${sent.length}`);
  assert(notice.length > limit - QUOTED_CHARS, `${notice.length}`);
  reportsLimit = false;
  // A rejected request without quotes, or still too long, remains rejected.
  const long = await ask(`${TASK} ${"word ".repeat(limit)}`);
  assertEquals([long.status, long.warning, seen.length - before], [400, null, 5]);
  const both = await ask(`${transcript} ${"word ".repeat(limit)}`);
  assertEquals([both.status, both.warning, JSON.parse(both.text).error.message, seen.length - before], [
    400,
    null,
    "prompt is too long",
    7,
  ]);
});

Deno.test("compaction: the provider's own compaction and its opaque history are recognized", async () => {
  const { ask, work, ledger } = codexGateway(
    answers([{ type: "compaction", id: "cmp_1", encrypted_content: "gAAAA-opaque" }]),
  );
  const { input, last } = await work();
  const compaction = await ask(codexRequest([...input, { type: "compaction_trigger" }]));
  assertMatch(JSON.stringify(last.request), /\[elided: exec_command result/);
  assertEquals(compaction.request?.input, [...input, { type: "compaction_trigger" }]);
  assertEquals([compaction.session, compaction.epoch], [last.session, last.epoch]);
  const opaque = { type: "compaction", encrypted_content: "gAAAA-opaque", id: "cmp_1" };
  const fresh = [...codexOpening(TASK, 1).slice(0, 1), opaque, messageItem("user", "Go on.", "msg_go")];
  const next = await ask(codexRequest(fresh));
  assertEquals([next.request?.input, next.session, (await ledger()).compactions], [fresh, last.session, 1]);
});

Deno.test("compaction: an instruction at the end of a history with tools is recognized", async () => {
  const { ask, work, ledger } = chatGateway(({ messages }) =>
    JSON.stringify(messages.at(-1)).includes("TEXT ONLY") ? `<summary>\n${SUMMARY}\n</summary>` : "Go on."
  );
  const { messages, last } = await work([SYSTEM, { role: "user", content: TASK }]);
  const more = chatStep("late.ts", longResult("late.ts"));
  const compaction = await ask([...messages, ...more, { role: "user", content: SUMMARIZE }]);
  assertMatch(JSON.stringify(last.body), /\[elided: bash result/);
  assertEquals(compaction.body.messages, [...messages, ...more, { role: "user", content: SUMMARIZE }]);
  assertEquals([compaction.session, compaction.epoch], [last.session, last.epoch]);
  const fresh = [SYSTEM, {
    role: "user",
    content: `${TASK}\n\nThis session is being continued.\n${SUMMARY}`,
  }];
  const next = await ask(fresh);
  const { sessions, compactions } = await ledger();
  assertEquals([next.session, sessions, compactions], [last.session, 1, 1]);
  assertNotEquals((await ask([...messages, { role: "user", content: "Back." }])).session, last.session);
});

Deno.test("compaction: a summary request with other instructions and no tools contains evicted content", async () => {
  const snapshot = `<state_snapshot>${SUMMARY}</state_snapshot>`;
  const { ask, work, ledger } = chatGateway(({ tools }) => tools ? "Go on." : snapshot);
  const { messages, last } = await work([SYSTEM, { role: "user", content: TASK }]);
  const compressor = {
    role: "system",
    content: "You are the component that compresses internal chat history.",
  };
  const instruction = {
    role: "user",
    content: "First reason in your scratchpad, then write <state_snapshot>.",
  };
  const summary = await ask([compressor, ...messages.slice(1), instruction], {});
  assertMatch(JSON.stringify(last.body), /\[elided: bash result/);
  assertEquals(summary.body.messages, [compressor, ...messages.slice(1), instruction]);
  assertEquals([summary.session, summary.epoch, summary.body.tools], [last.session, last.epoch, undefined]);
  // It isn't counted as a compaction until the client continues from it.
  assertEquals((await ledger()).compactions, 0);
  const next = await ask([SYSTEM, { role: "user", content: SUMMARY }, { role: "user", content: "Go on." }]);
  const { sessions, compactions } = await ledger();
  assertEquals([next.session, sessions, compactions], [last.session, 1, 1]);
});

Deno.test("compaction: a summary of a transcript is recognized by its quotes, without a session name", async () => {
  const { ask, work, ledger } = chatGateway(({ tools }) => tools ? "Go on." : SUMMARY);
  const { messages, last } = await work([SYSTEM, { role: "user", content: TASK }]);
  const transcript = [
    { role: "system", content: "You are a context summarization assistant." },
    {
      role: "user",
      content: `<conversation>\n[User]: ${TASK}\n[Assistant]: …\n</conversation>\n\nCreate a summary.`,
    },
  ];
  const summary = await ask(transcript, {});
  assertEquals([summary.body.messages, summary.session], [transcript, last.session]);
  const text = `The conversation history before this point was compacted:\n<summary>\n${SUMMARY}\n</summary>`;
  const next = await ask([SYSTEM, { role: "user", content: text }, ...messages.slice(-4)]);
  const { sessions, compactions } = await ledger();
  assertEquals([next.session, sessions, compactions], [last.session, 1, 1]);
});

Deno.test("sessions: a history whose beginning is cut off during a turn continues", async () => {
  const { ask, work, ledger } = chatGateway(({ tools }) => tools ? "Go on." : SUMMARY);
  const { messages, last } = await work([SYSTEM, { role: "user", content: TASK }]);
  const next = await ask([SYSTEM, { role: "user", content: "What came before: …" }, ...messages.slice(-4)]);
  assertEquals([next.session, (await ledger()).sessions], [last.session, 1]);
  const other = await ask([SYSTEM, { role: "user", content: "Another task." }, ...messages.slice(-4, -2)]);
  assertEquals([other.session === last.session, (await ledger()).sessions], [false, 2]);
});

Deno.test("sessions: a summary as a message of the model, with calls after it, continues the session", async () => {
  const { ask, work, ledger } = chatGateway(({ messages }) =>
    messages.at(-1)?.content === SUMMARIZE ? SUMMARY : "Go on."
  );
  const { messages, last } = await work([SYSTEM, USER]);
  await ask([...messages, { role: "user", content: SUMMARIZE }]);
  const [step, result] = chatStep("more.ts", "It is short.");
  const later = [SYSTEM, { ...step, content: SUMMARY }, result!];
  const reported = [
    await ask([SYSTEM, { role: "assistant", content: SUMMARY }]),
    await ask(later),
    await ask([...later, ...chatStep("most.ts", "It is long.")]),
  ];
  assertEquals(reported.map(({ session }) => session), Array(3).fill(last.session));
  const { sessions, compactions } = await ledger();
  assertEquals([sessions, compactions], [1, 1]);
  // The summary is known until the client has continued from it.
  const other = await ask([SYSTEM, { role: "user", content: `It said: ${SUMMARY}` }]);
  assertNotEquals(other.session, last.session);
});

Deno.test("sessions: a history that grew during its compaction continues", async () => {
  const { ask, work, ledger } = chatGateway(({ messages }) =>
    messages.at(-1)?.content === SUMMARIZE ? SUMMARY : "Go on."
  );
  const { messages, last } = await work([SYSTEM, USER]);
  await ask([...messages, { role: "user", content: SUMMARIZE }]);
  const more = [...messages, ...chatStep("more.ts", "It is short."), ...chatStep("most.ts", "It is long.")];
  const reported = [
    await ask(more.slice(0, -2)),
    await ask(more),
    await ask([
      SYSTEM,
      { role: "user", content: `${TASK} ${SUMMARY}` },
      ...chatStep("other.ts", "It is new."),
    ]),
  ];
  assertEquals(reported.map(({ session }) => session), Array(3).fill(last.session));
  const { sessions, compactions } = await ledger();
  assertEquals([sessions, compactions], [1, 1]);
});

Deno.test("compaction: an instruction after a history with another beginning is recognized after a restart", async () => {
  const { ask, work, ledger } = chatGateway(({ messages }) =>
    messages.at(-1)?.content === SUMMARIZE ? SUMMARY : "Go on."
  );
  const listed = (files: string) => ({ role: "user", content: `The folder holds ${files}. ${TASK}` });
  const { messages, last } = await work([SYSTEM, listed("nothing")]);
  const resumed = [SYSTEM, listed("answer.txt"), ...messages.slice(2)];
  const instruction = { role: "user", content: SUMMARIZE };
  const summary = await ask([...resumed, instruction]);
  assertEquals([summary.session, summary.epoch], [last.session, last.epoch]);
  assertEquals(summary.body.messages, [...resumed, instruction]);
  assertEquals((await ledger()).compactions, 1);
  const next = await ask([SYSTEM, { role: "user", content: SUMMARY }, { role: "user", content: "Go on." }]);
  assertEquals([next.session, (await ledger()).sessions], [last.session, 1]);
});

Deno.test("sessions: titles and summaries change no session that is recognized by content, key or name", async () => {
  const title = [
    { role: "system", content: "You are a title generator. You output ONLY a thread title." },
    { role: "user", content: "Generate a title for this conversation:" },
    { role: "user", content: TASK },
  ];
  for (const headers of [{}, { "x-session-id": "ses_1" }, { "x-tare-session": "mine" }]) {
    const { ask, work, ledger } = chatGateway(() => "Reading four constants");
    const { messages, last } = await work([SYSTEM, { role: "user", content: TASK }], headers);
    const titled = await ask(title, {}, headers);
    assertEquals([titled.body.messages, titled.session, titled.epoch], [title, last.session, last.epoch]);
    const again = await ask(messages, undefined, headers);
    assertEquals([again.session, again.body], [last.session, last.body]);
    assertEquals((await ledger()).sessions, 1);
  }
});

Deno.test("sessions: a title before the first turn belongs to the conversation with its key", async () => {
  const { ask, work, ledger } = chatGateway(() => "Reading four constants");
  const headers = { "x-session-id": "ses_1" };
  const titled = await ask([{ role: "system", content: "You are a title generator." }, USER], {}, headers);
  const { last } = await work([SYSTEM, USER], headers);
  assertEquals([titled.session, (await ledger()).sessions], [last.session, 1]);
  // A subagent with that key has tools and replies: it is another conversation.
  const subagent = await ask([{ role: "system", content: "You explore." }, USER], undefined, headers);
  assertNotEquals(subagent.session, last.session);
});

Deno.test("gateway() counts the tokens of the newest view and forwards the count", async () => {
  const { fetch, seen } = gatewayed(({ url }) =>
    url.endsWith("/input_tokens")
      ? Response.json({ object: "response.input_tokens", input_tokens: 7 })
      : Response.json({ id: "resp_1", output: [], usage: { input_tokens: 9, output_tokens: 1 } })
  );
  let input = codexOpening(TASK);
  const request = () => ({ model: "gpt-5", input, tools: [EXEC_COMMAND] });
  for (const name of NAMES) {
    input = [...input, ...codexStep(name, longResult(name))];
    await (await fetch(post(request(), {}, "/responses"))).text();
  }
  const view = seen.at(-1)?.body;
  const counted = await fetch(post(request(), {}, "/responses/input_tokens"));
  assertEquals(await counted.json(), { object: "response.input_tokens", input_tokens: 7 });
  assertStringIncludes(seen.at(-1)?.url ?? "", "/v1/responses/input_tokens");
  assertEquals(seen.at(-1)?.body, view);
  assertMatch(JSON.stringify(view), /\[elided: /);
  // All tokens of an unknown conversation are counted.
  input = [messageItem("user", "Something else altogether, never heard of before.", "msg_other")];
  await (await fetch(post(request(), {}, "/responses/input_tokens"))).text();
  assertEquals(seen.at(-1)?.body, request());
});

Deno.test("gateway() forwards the summary of an unknown conversation unchanged", async () => {
  const { ask, ledger } = chatGateway(() => SUMMARY);
  const messages = [SYSTEM, { role: "user", content: TASK }];
  for (const name of NAMES) messages.push(...chatStep(name, longResult(name)) as typeof messages);
  const request = [...messages, { role: "user", content: SUMMARIZE }];
  const { body, session } = await ask(request, {});
  assertEquals([body, session, (await ledger()).sessions], [{ model: "m", messages: request }, null, 0]);
});

Deno.test("compaction: turns are not mistaken for summary requests", async () => {
  const { ask, ledger } = chatGateway(() => "Hi");
  const chat = await ask([{ role: "user", content: "Hello, who are you and what can you do?" }], {});
  const more = [{ role: "assistant", content: "Hi" }, { role: "user", content: SUMMARIZE }];
  const next = await ask([{ role: "user", content: "Hello, who are you and what can you do?" }, ...more], {});
  const task = await ask([SYSTEM, { role: "user", content: `Build this. ${SUMMARIZE}` }]);
  assertEquals([next.session, (await ledger()).sessions], [chat.session, 2]);
  assertNotEquals(task.session, chat.session);
});

/** Requests before the first turn, without tools: the last allows only the shortest reply. */
const BEFORE: readonly (readonly [messages: readonly object[], more?: object])[] = [
  [[{ role: "user", content: "quota" }], { max_completion_tokens: 1 }],
  [[{ role: "system", content: "You are a title generator." }, USER], {}],
  [[SYSTEM, USER], { tools: [BASH], max_completion_tokens: 1 }],
];

Deno.test("sessions: a session begins with its first turn, whatever preceded it under the same name", async () => {
  for (const headers of [{ "x-session-id": "ses_1" }, { "x-tare-session": "mine" }]) {
    const { fetch, sessions, ledger } = gatewayed(() => completion({ content: "Yes." }, 900), {
      upstreams: { chat: { ...UPSTREAM, profile: profileNamed("openai") } },
    });
    const ask = async (messages: readonly object[], more: object = {}) => {
      const response = await fetch(post({ model: "m", messages, ...more }, headers));
      await response.text();
      return response.headers.get("x-tare-session")!;
    };
    const ids = [];
    for (const [messages, more] of BEFORE) ids.push(await ask(messages, more));
    const first = await ask([SYSTEM, USER], { tools: [BASH] });
    const next = await ask([SYSTEM, USER, ...chatStep("a.ts", "1")], { tools: [BASH] });
    assertEquals([...ids, next], Array(4).fill(first));
    const opened = (await sessions.open(first))!;
    const calls = await opened.calls();
    assertEquals(calls.map(({ purpose, turn }) => [purpose, turn]), [
      ...BEFORE.map(() => ["other", null]),
      ["turn", 1],
      ["turn", 1],
    ]);
    // Earlier requests are not reported as changed or expired.
    const [, , , { uncached = [], changed = null } = {}, { changed: later = null } = {}] = calls;
    assertEquals([uncached.map(({ cause }) => cause), changed, later], [["first_call"], null, null]);
    const alone = calls.slice(0, 4).map(({ baseline, costUnits }) => [baseline?.costUnits, costUnits]);
    assertEquals(alone, Array(4).fill([900, 900]));
    const { planned } = await ledger();
    assertEquals([planned.sessions, planned.costUnits], [1, 4_500]);
    assertEquals((await opened.details()).title, TASK);
  }
});

Deno.test("gateway() forwards requests before the first turn unchanged, and cache warming as the turn begins", async () => {
  const { ask } = chatGateway(() => "Yes.");
  const headers = { "x-session-id": "ses_1" };
  for (const [messages, more] of BEFORE.slice(0, 2)) {
    assertEquals((await ask(messages, more, headers)).body, { model: "m", messages, ...more });
  }
  const [messages, more] = BEFORE.at(-1)!;
  const { max_completion_tokens: _, ...warmed } = (await ask(messages, more, headers)).body as Json;
  const turn = await ask([SYSTEM, USER], undefined, headers);
  assertEquals(warmed, turn.body);
});

Deno.test("sessions: a chat without tools continues with titles between its turns and after a restart", async () => {
  for (const headers of [{}, { "x-session-id": "ses_1" }, { "x-tare-session": "mine" }]) {
    const store = memoryStore();
    const open = () => gatewayed(() => completion({ content: "Yes." }), { store });
    let { fetch, sessions, close } = open();
    const ask = async (messages: readonly object[]) => {
      const response = await fetch(post({ model: "m", messages }, headers));
      await response.text();
      return response.headers.get("x-tare-session")!;
    };
    const user = (content: string) => ({ role: "user", content });
    const yes = { role: "assistant", content: "Yes." };
    const title = [{ role: "system", content: "You are a title generator." }, user("Title this: parsers.")];
    const chat: object[] = [SYSTEM, user("What is a parser?")];
    const ids = [await ask(chat)];
    await ask(title);
    for (const content of ["And a lexer?", "And a printer?", "And a linter?"]) {
      await close();
      ({ fetch, sessions, close } = open());
      chat.push(yes, user(content));
      ids.push(await ask(chat));
      await ask(title);
    }
    assertEquals(new Set(ids).size, 1, JSON.stringify(headers));
    const calls = await (await sessions.open(ids[0]!))!.calls();
    assertEquals(calls.filter(({ purpose }) => purpose === "turn").length, 3);
    await close();
  }
});

Deno.test("sessions: a repeated title is not mistaken for a summary", async () => {
  const titled = "Reading four constants of src/";
  const { ask, work, ledger } = chatGateway(({ tools }) => tools ? "Go on." : titled);
  const { last } = await work([SYSTEM, USER]);
  const title = [{ role: "system", content: "You write titles." }, {
    role: "user",
    content: `Title: ${TASK}`,
  }];
  assertEquals((await ask(title, {})).session, last.session);
  const other = await ask([SYSTEM, { role: "user", content: `${titled}: do that once more.` }]);
  assertNotEquals(other.session, last.session);
  assertEquals((await ledger()).compactions, 0);
});

Deno.test("sessions: rejected requests other than turns don't stop edits", async () => {
  const { fetch, seen } = gatewayed(
    ({ body }) =>
      "prompt_cache_key" in body && body.messages.at(-1).content === SUMMARIZE
        ? Response.json({ error: { message: "Unsupported parameter" } }, { status: 400 })
        : completion({ content: "Yes." }, 0),
    { upstreams: { chat: { ...UPSTREAM, baseURL: OPENAI } } },
  );
  const ask = async (messages: readonly object[], more: object) =>
    await (await fetch(post({ model: "m", messages, ...more }))).text();
  await ask([SYSTEM, USER], { tools: [BASH] });
  for (let times = 0; times < 3; times++) {
    await ask(
      [SYSTEM, USER, { role: "assistant", content: "Yes." }, { role: "user", content: SUMMARIZE }],
      {},
    );
  }
  await ask([SYSTEM, USER, ...chatStep("a.ts", "1")], { tools: [BASH] });
  assert("prompt_cache_key" in seen.at(-1)!.body);
});
