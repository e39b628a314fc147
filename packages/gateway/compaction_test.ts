import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertNotMatch,
  assertStringIncludes,
} from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { gateway, type HttpGateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { createHash } from "node:crypto";
import { BASH, chatStep, type Json, longResult, SUMMARIZE } from "./agents_fixture_test.ts";
import { completion, gatewayed, OPTIONS, post, UPSTREAM } from "./fixture_test.ts";
import { type Dialect, DIALECTS, type Reply } from "./sessions/dialects_fixture_test.ts";
import fc, { cases } from "../../tests/cases.ts";

const SYSTEM = { role: "system", content: "You are a coding agent with a shell." };
const TASK = "Read all files of the folder, and say what is in them.";

const factOf = (name: string) =>
  `fact ${name} = ${createHash("sha256").update(name).digest("hex").slice(0, 12)}`;
const resultOf = (name: string) => `${longResult(name).slice(0, 6_000)}\n${factOf(name)}`;

/** A client's conversation: its history, the files that it contains, and all files that were ever evicted. */
interface Talk {
  readonly history: readonly Json[];
  readonly read: readonly string[];
  readonly evicted: readonly string[];
}

function clientsOf(dialect: Dialect, windowTokens: number, headers: Record<string, string> = {}) {
  const store = memoryStore();
  const sent: string[] = [];
  let replies: Reply[] = [];
  const fetch = async (...args: Parameters<typeof globalThis.fetch>) => {
    const text = await new Request(...args).text();
    const before = sent.at(-1) ?? "";
    let shared = 0;
    while (shared < text.length && text[shared] === before[shared]) shared++;
    sent.push(text);
    return await dialect.answer(JSON.parse(text), replies.shift()!, Math.floor(shared / 4));
  };
  const profile = profileNamed(dialect.name === "messages" ? "anthropic-5m" : "openai");
  let nowMs = 1_000_000;
  const open = () =>
    gateway({
      ...OPTIONS,
      upstreams: { [dialect.name]: { ...UPSTREAM, profile, windowTokens } },
      now: () => nowMs,
      fetch: fetch as typeof globalThis.fetch,
      store,
    });
  let made: HttpGateway = open();
  let count = 0;
  const ask = async (history: readonly Json[], ...answers: Reply[]) => {
    replies = answers;
    nowMs += 5_000;
    const body = dialect.body(history, { rules: "You are a coding agent.", tools: true });
    const response = await made.fetch(post(body, headers, dialect.path));
    await response!.text();
    assertEquals(replies.length, 0);
    return response!.headers.get("x-tare-session");
  };
  const message = (role: "user" | "assistant", text: string) => dialect.message(role, text, `msg_${++count}`);
  const unread: Talk = { history: dialect.opening(TASK), read: [], evicted: [] };
  return {
    unread,
    sent,
    async reads({ history, read, evicted }: Talk, files: number): Promise<Talk> {
      let now = history.length > 1 ? [...history, message("user", `Read ${files} more.`)] : [...history];
      const names: string[] = [];
      for (let at = 0; at < files; at++) {
        const name = `f${++count}x`;
        names.push(name);
        await ask(now, { step: name });
        now = [...now, ...dialect.step(name, resultOf(name))];
      }
      const text = `These were ${files} files, number ${++count}.`;
      await ask(now, { text, id: `msg_r${count}` });
      const all = [...read, ...names];
      const gone = all.filter((name) => !sent.at(-1)!.includes(factOf(name)));
      return {
        history: [...now, message("assistant", text)],
        read: all,
        evicted: [...new Set([...evicted, ...gone])],
      };
    },
    async compacts({ history, evicted }: Talk): Promise<Talk> {
      const summary =
        `This is summary number ${++count}: files were read, and facts were found in each of them.`;
      await ask([...history, message("user", SUMMARIZE)], { text: summary, id: `msg_s${count}` });
      return {
        history: [...dialect.opening(TASK), message("user", `Continued. ${summary}`)],
        read: [],
        evicted,
      };
    },
    async finds({ history }: Talk, text: string): Promise<string> {
      const question = message("user", `Where is ${++count}?`);
      await ask([...history, question], { recalls: text, by: "find" }, {
        text: "There.",
        id: `msg_f${count}`,
      });
      return sent.at(-1)!;
    },
    async reopens() {
      await made.close();
      made = open();
    },
    close: () => made.close(),
  };
}

for (const dialect of DIALECTS) {
  Deno.test(`compaction: a summary request contains evicted content and changes no turn: ${dialect.name}`, async () => {
    const clients = clientsOf(dialect, 200_000);
    const talk = await clients.reads(clients.unread, 45);
    const view = clients.sent.at(-1)!;
    assertMatch(view, /\[elided: \w/);
    assert(talk.read.some((name) => !view.includes(factOf(name))));
    await clients.compacts(talk);
    const request = clients.sent.at(-1)!;
    for (const name of talk.read) assertStringIncludes(request, factOf(name));
    assertNotMatch(request, /\[elided: \w/);
    const before = clients.sent.length;
    await clients.reads(talk, 1);
    const [next = ""] = clients.sent.slice(before);
    const shared = [...view].findIndex((character, at) => character !== next[at]);
    assert(next.slice(0, shared).length > 0.9 * view.length, `${shared} of ${view.length}`);
    await clients.close();
  });
}

function cachingProvider() {
  const held: string[] = [];
  let paid = 0;
  const answer = (text: string): Response => {
    const shared = Math.max(
      0,
      ...held.map((before) => {
        let at = 0;
        while (at < text.length && text[at] === before[at]) at++;
        return at;
      }),
    );
    held.push(text);
    const [promptTokens, cachedTokens] = [Math.ceil(text.length / 4), Math.floor(shared / 4)];
    paid += promptTokens - 0.9 * cachedTokens;
    const content = text.includes("TEXT ONLY")
      ? "A summary of what was done, to continue the work."
      : "Well.";
    return Response.json({
      choices: [{ message: { role: "assistant", content }, finish_reason: "stop" }],
      usage: {
        prompt_tokens: promptTokens,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: cachedTokens },
      },
    });
  };
  return { answer, paid: () => paid };
}

Deno.test("compaction: the ledger's baseline is the client's cost without Tare, and Tare costs no more", async () => {
  const [through, direct] = [cachingProvider(), cachingProvider()];
  // The JSON around texts is not part of the prompt.
  const textOf = ({ messages }: { readonly messages: readonly object[] }) =>
    (messages as readonly { readonly content?: unknown; readonly tool_calls?: unknown }[]).map((
      { content, tool_calls: calls },
    ) => `\n${content ?? ""}${calls ? JSON.stringify(calls) : ""}`).join("");
  const { fetch, ledger } = gatewayed(({ body }) => through.answer(textOf(body)), {
    upstreams: { chat: { ...UPSTREAM, profile: profileNamed("openai"), windowTokens: 200_000 } },
    // Must equal the provider's count.
    countTokens: () => Promise.resolve((text) => Math.ceil(text.length / 4)),
  });
  const ask = async (messages: readonly object[]) => {
    direct.answer(textOf({ messages }));
    await (await fetch(post({ model: "m", messages, tools: [BASH] }))).text();
  };
  let messages: object[] = [SYSTEM, { role: "user", content: TASK }];
  for (const [from, to] of [[0, 25], [25, 30]] as const) {
    for (let at = from; at < to; at++) {
      messages.push(...chatStep(`file${at}.ts`, resultOf(`file${at}.ts`)));
      await ask(messages);
    }
    if (from > 0) break;
    await ask([...messages, { role: "user", content: SUMMARIZE }]);
    messages = [SYSTEM, { role: "user", content: "A summary of what was done, to continue the work." }];
  }
  const { compactions, costUnits, baselineCostUnits, savedTokens } = (await ledger()).planned;
  assert(compactions === 1 && savedTokens > 0);
  assertAlmostEquals(costUnits, through.paid(), 0.01 * costUnits);
  assertAlmostEquals(baselineCostUnits, direct.paid(), 0.05 * direct.paid());
  assert(costUnits <= 1.05 * direct.paid(), `${costUnits} of ${direct.paid()}`);
});

const ACTS = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant("reads" as const), files: fc.integer({ min: 1, max: 5 }) }),
    fc.constantFrom({ type: "compacts" as const }, { type: "reopens" as const }, { type: "forks" as const }),
  ),
  { minLength: 3, maxLength: 7 },
);

/** Forks that compact: of a history with later evictions, and of a summary only. */
const FORKED: (typeof ACTS extends fc.Arbitrary<infer Acts> ? [Acts] : never)[] = [
  [[{ type: "reads", files: 3 }, { type: "forks" }, { type: "reads", files: 1 }, { type: "compacts" }]],
  [[
    { type: "compacts" },
    { type: "reads", files: 1 },
    { type: "forks" },
    { type: "reads", files: 2 },
    { type: "compacts" },
  ]],
];

for (const dialect of DIALECTS) {
  for (const headers of [{}, { "x-tare-session": "mine" }]) {
    const how = Object.keys(headers).length > 0 ? "by name" : "by content";
    Deno.test(`recall: all evicted content is found after any compaction, fork and restart: ${dialect.name}, ${how}`, async () => {
      await fc.assert(
        fc.asyncProperty(ACTS, async (acts) => {
          const clients = clientsOf(dialect, 10_000, headers);
          let talk = await clients.reads(clients.unread, 6);
          assert(talk.evicted.length > 0);
          const foreign: string[] = [];
          let past = [talk];
          for (const act of acts) {
            if (act.type === "reopens") await clients.reopens();
            else if (act.type === "compacts") past = [talk = await clients.compacts(talk)];
            else if (act.type === "reads") past.push(talk = await clients.reads(talk, act.files));
            else if (how === "by content" && past.length > 1) {
              const { evicted } = talk;
              past.pop();
              talk = past.at(-1)!;
              foreign.push(...evicted.filter((name) => ![...talk.read, ...talk.evicted].includes(name)));
              past = [talk = await clients.reads(talk, 1)];
            }
          }
          for (const name of [...talk.evicted.slice(0, 2), ...talk.evicted.slice(-1)]) {
            assertStringIncludes(await clients.finds(talk, `fact ${name} =`), factOf(name), name);
          }
          for (const name of foreign.slice(0, 2)) {
            assert(!(await clients.finds(talk, `fact ${name} =`)).includes(factOf(name)), name);
          }
          await clients.close();
        }),
        { numRuns: cases(3), examples: FORKED },
      );
    });
  }
}

Deno.test("compaction: a full window shows the newest evicted content, and the rest can be recalled", async () => {
  const windowTokens = 20_000;
  const { fetch, seen } = gatewayed(() => completion({ content: "Well." }, 0), {
    upstreams: { chat: { ...UPSTREAM, windowTokens } },
  });
  const messages: object[] = [SYSTEM, { role: "user", content: TASK }];
  const names = Array.from({ length: 14 }, (_, at) => `file${at}.ts`);
  const ask = async (more: readonly object[] = []) =>
    await (await fetch(post({ model: "m", messages: [...messages, ...more], tools: [BASH] }))).text();
  for (const name of names) {
    messages.push(...chatStep(name, resultOf(name)));
    await ask();
  }
  await ask([{ role: "user", content: SUMMARIZE }]);
  const { text, body } = seen.at(-1)!;
  const isVisible = names.map((name) => text.includes(factOf(name)));
  const first = isVisible.indexOf(true);
  assert(first > 0 && names.length - first >= 5, `${isVisible}`);
  assertEquals(isVisible.slice(first), Array(names.length - first).fill(true));
  assertMatch(text, /\[elided: bash result, \d+ bytes; recall with ref/);
  assert(body.tools.some((tool: typeof BASH) => (tool.function as { name: string }).name === "recall"));
});

Deno.test("compaction: a request rejected for its length is shortened", async () => {
  const windowTokens = 26_000;
  for (const reported of [true, false]) {
    const { fetch, seen } = gatewayed(({ text }) => {
      const tokens = estimateTokens(text);
      if (tokens <= windowTokens || !text.includes("TEXT ONLY")) {
        return completion({ content: "Well." }, tokens);
      }
      const message = reported
        ? `prompt is too long: ${tokens} tokens > ${windowTokens} maximum`
        : "The prompt is too long for this model.";
      return Response.json({ error: { message, code: "context_length_exceeded" } }, { status: 400 });
    });
    const messages: object[] = [SYSTEM, { role: "user", content: TASK }];
    const ask = async (more: readonly object[] = []) =>
      await fetch(post({ model: "m", messages: [...messages, ...more], tools: [BASH] }));
    for (let at = 0; at < 20; at++) {
      messages.push(...chatStep(`file${at}.ts`, resultOf(`file${at}.ts`)));
      await (await ask()).text();
    }
    const before = seen.length;
    const summary = await ask([{ role: "user", content: SUMMARIZE }]);
    assertEquals([summary.status, seen.length - before], [200, 2]);
    assertMatch(seen.at(-1)!.text, /\[elided: bash result/);
    const facts = seen.at(-1)!.text.match(/fact file\d+\.ts/g)!.length;
    const viewed = seen.at(before - 1)!.text.match(/fact file\d+\.ts/g)!.length;
    assert(reported ? facts > viewed : facts === viewed, `${facts}, ${viewed}`);
    await summary.text();
  }
});
