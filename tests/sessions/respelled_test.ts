import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import fc, { cases } from "../cases.ts";
import { memoryStore } from "@tare/session/sqlite";
import type { JsonRecord } from "@tare/wire";
import { chatStep, type Json, longResult } from "../../packages/gateway/agents_fixture_test.ts";
import { call, completion, gatewayed, post, READ } from "../../packages/gateway/fixture_test.ts";
import {
  conversation,
  MANNERS,
  type Played,
  played,
  type SentRequest,
  whole,
} from "../../packages/gateway/sessions/conversations_fixture_test.ts";
import { type Dialect, DIALECTS } from "../../packages/gateway/sessions/dialects_fixture_test.ts";

/** Changes by a client to content that it sends back, in one request. */
interface Spelling {
  /** Ids of calls lose their underscores, or are replaced. */
  readonly ids: "kept" | "shortened" | "rewritten";
  /** Empty optional fields and the client's own notes are added. */
  readonly empty: boolean;
  /** Texts are parts, or vice versa. */
  readonly parts: boolean;
  readonly space: "" | " " | "\n\n";
  readonly thoughtless: boolean;
  readonly wide: boolean;
}

const RETAINED: Spelling = {
  ids: "kept",
  empty: false,
  parts: false,
  space: "",
  thoughtless: false,
  wide: false,
};

/** Changes that the provider's model doesn't see: they don't invalidate its cache. */
const unseen: fc.Arbitrary<Spelling> = fc.record({
  ids: fc.constantFrom("kept", "shortened", "rewritten"),
  empty: fc.boolean(),
  parts: fc.boolean(),
  space: fc.constant(""),
  thoughtless: fc.constant(false),
  wide: fc.constant(false),
});

const any: fc.Arbitrary<Spelling> = fc.record({
  ids: fc.constantFrom("kept", "shortened", "rewritten"),
  empty: fc.boolean(),
  parts: fc.boolean(),
  space: fc.constantFrom("", " ", "\n\n"),
  thoughtless: fc.boolean(),
  wide: fc.boolean(),
});

type Respell = (
  item: Json,
  spelling: Omit<Spelling, "ids"> & { readonly idOf: (id: unknown) => string },
) => readonly Json[];

const list = (value: unknown) => Array.isArray(value) ? value as readonly Json[] : [];

const listOf = (body: JsonRecord) => list(body.messages ?? body.input);

function texts(content: unknown, { parts, space }: Pick<Spelling, "parts" | "space">, type: string): unknown {
  if (typeof content === "string") {
    const text = content === "" ? "" : space + content + space;
    return parts && content !== "" ? [{ type, text }] : text;
  }
  const spelled = list(content).map((part) =>
    typeof part.text === "string" ? { ...part, text: space + part.text } : part
  );
  const [only] = spelled;
  return spelled.length === 1 && parts && only?.text && !("cache_control" in only)
    ? only.text
    : content && spelled;
}

const widened = (args: unknown, wide: boolean) =>
  wide ? JSON.stringify(JSON.parse(String(args)), null, 2) : args;

const RESPELL: Readonly<Record<string, Respell>> = {
  chat(item, spelling) {
    const { idOf, empty, wide } = spelling;
    const { tool_calls: calls } = item;
    const respelled = (one: Json) => ({
      ...one,
      id: idOf(one.id),
      function: { ...one.function as Json, arguments: widened((one.function as Json).arguments, wide) },
    });
    return [{
      ...item,
      content: texts(item.content, spelling, "text"),
      ...(calls !== undefined && { tool_calls: list(calls).map(respelled) }),
      ...(item.role === "tool" && { tool_call_id: idOf(item.tool_call_id) }),
      ...(empty && item.role === "tool" && { __noted: { kind: "tool" } }),
      ...(empty && item.role === "assistant" && {
        ...{ refusal: null, annotations: [], reasoning_content: "", audio: null },
        ...(calls === undefined ? { tool_calls: [] } : { content: null }),
      }),
    }];
  },
  responses(item, spelling) {
    const { idOf, empty, thoughtless, wide } = spelling;
    const { type, content, output, ...rest } = item;
    if (type === "reasoning") {
      return thoughtless ? [] : [empty ? { ...item, content: [], status: null } : item];
    }
    const { id: _, ...without } = rest;
    const contents = texts(content, spelling, item.role === "assistant" ? "output_text" : "input_text");
    return [{
      ...(empty ? { ...without, status: "completed", phase: null } : rest),
      ...(type === "message" && empty && Array.isArray(contents)
        ? { type, content: contents.map((part) => ({ ...part, annotations: [] })) }
        : { type, ...(content !== undefined && { content: contents }) }),
      ...(output !== undefined && { output: texts(output, spelling, "input_text") }),
      ...("arguments" in item && { arguments: widened(item.arguments, wide) }),
      ...("call_id" in item && { call_id: idOf(item.call_id) }),
    }];
  },
  messages(item, spelling) {
    const { idOf, empty, thoughtless, space } = spelling;
    if (typeof item.content === "string") {
      return [{ ...item, content: texts(item.content, spelling, "text") }];
    }
    const blocks = list(item.content).flatMap((block): readonly Json[] => {
      if (block.type === "thinking") return thoughtless ? [] : [block];
      if (block.type === "tool_use") return [{ ...block, id: idOf(block.id) }];
      if (block.type === "text") {
        return [{ ...block, text: block.text + space, ...(empty && { citations: null }) }];
      }
      return [{
        ...block,
        tool_use_id: idOf(block.tool_use_id),
        content: texts(block.content, spelling, "text"),
      }];
    });
    const content = blocks.length === 1 && blocks[0]?.type === "text"
      ? texts(blocks, spelling, "text")
      : blocks;
    return [{ ...item, content }];
  },
};

interface Respelled {
  readonly before: Json;
  readonly now: readonly Json[];
}

function respelled(
  { name }: Dialect,
  request: SentRequest,
  { spelling: { ids, ...spelling }, seen }: {
    readonly spelling: Spelling;
    readonly seen: ReadonlySet<string>;
  },
): { readonly request: SentRequest; readonly items: readonly Respelled[] } {
  const known = new Map<string, string>();
  const idOf = (id: unknown) => {
    const text = String(id);
    if (!known.has(text)) known.set(text, ids === "shortened" ? text.replaceAll("_", "") : `c${known.size}`);
    return ids === "kept" ? text : known.get(text)!;
  };
  const items = listOf(request.body).map((before): Respelled => {
    const how = seen.has(bare(before)) ? spelling : RETAINED;
    return { before, now: RESPELL[name]!(before, { ...how, idOf }) };
  });
  const field = "input" in request.body ? "input" : "messages";
  return {
    request: { ...request, body: { ...request.body, [field]: items.flatMap(({ now }) => now) } },
    items,
  };
}

function bare(item: Json): string {
  return JSON.stringify(item, (name, value) => {
    if (name === "cache_control") return undefined;
    return name === "content" && typeof value === "string" && item.tool_call_id === undefined
      ? [{ type: "text", text: value }]
      : value;
  });
}

const breakpoints = (body: JsonRecord) =>
  listOf(body).flatMap((item, at) => JSON.stringify(item).includes('"cache_control":{') ? [at] : []);

const RESULT_ID: Readonly<Record<string, string>> = { chat: "tool_call_id", responses: "call_id" };

function undone(dialect: Dialect, sent: readonly Json[], items: readonly Respelled[]): string[] {
  const exact = new Map(items.flatMap(({ before, now }) => now.map((one) => [bare(one), bare(before)])));
  const dropped = new Set(items.flatMap(({ before, now }) => now.length === 0 ? [bare(before)] : []));
  const ids = new Map<string, string>();
  for (const { before, now: [now] } of items) {
    const own = idsOf(before);
    if (now) idsOf(now).forEach((id, at) => ids.set(id, own[at]!));
  }
  const results = new Map(items.flatMap(({ before }) => resultsOf(dialect, before)));
  return sent.flatMap((item) => {
    const text = bare(item);
    const own = exact.get(text) ?? withIds(dialect, JSON.parse(text), { ids, results });
    return dropped.has(own) ? [] : [own];
  });
}

function idsOf({ tool_calls: calls, tool_call_id, call_id, content }: Json): string[] {
  const blocks = list(content).flatMap(({ type, id, tool_use_id }) => type === "tool_use" ? id : tool_use_id);
  return [...list(calls).map(({ id }) => id), tool_call_id, call_id, ...blocks]
    .filter((id) => typeof id === "string");
}

function resultsOf({ name }: Dialect, item: Json): (readonly [string, Json])[] {
  if (name === "messages") {
    return list(item.content).flatMap((block) =>
      block.type === "tool_result" ? [[String(block.tool_use_id), block]] : []
    );
  }
  const isResult = item.role === "tool" || String(item.type).endsWith("_output");
  return isResult ? [[String(item[RESULT_ID[name]!]), item]] : [];
}

function withIds(
  { name }: Dialect,
  item: Json,
  { ids, results }: {
    readonly ids: ReadonlyMap<string, string>;
    readonly results: ReadonlyMap<string, Json>;
  },
): string {
  const idOf = (id: unknown) => ids.get(String(id)) ?? String(id);
  const asBefore = (result: Json, id: unknown, field: string) => {
    const before = results.get(idOf(id));
    return before ? { ...before, [field]: result[field] } : result;
  };
  if (name === "messages" && Array.isArray(item.content)) {
    const content = list(item.content).map((block) => {
      if (block.type === "tool_use") return { ...block, id: idOf(block.id) };
      return block.type === "tool_result" ? asBefore(block, block.tool_use_id, "content") : block;
    });
    return bare({ ...item, content });
  }
  if (item.role === "tool") return bare(asBefore(item, item.tool_call_id, "content"));
  if (item.type === "function_call_output") return bare(asBefore(item, item.call_id, "output"));
  const calls = list(item.tool_calls).map((call) => ({ ...call, id: idOf(call.id) }));
  return bare({ ...item, ...(calls.length > 0 && { tool_calls: calls }) });
}

const recalled = ({ sent }: Played) => sent.map((text) => [...text.matchAll(/"name":"recall"/g)].length);

function sessionsOf({ places }: Played): number[] {
  const ids = [...new Set(places.map(({ session }) => session))];
  return places.map(({ session }) => ids.indexOf(session));
}

function callsOf<T>({ places }: Played, calls: readonly T[]): (readonly T[])[] {
  return places.map((place, at) => calls.slice(places[at - 1]?.calls ?? 0, place.calls));
}

function requestsOf(dialect: Dialect, calls: readonly SentRequest[], spellings: readonly Spelling[]) {
  const seen = new Set<string>();
  return calls.map((one, at) => {
    const made = respelled(dialect, one, { spelling: spellings[at]!, seen });
    for (const item of listOf(one.body)) seen.add(bare(item));
    return made;
  });
}

interface Way {
  readonly how: Spelling;
  readonly isRestarted: boolean;
}

function ways(length: number, how: fc.Arbitrary<Spelling>, restarts: boolean): fc.Arbitrary<Way[]> {
  const isRestarted = restarts ? fc.boolean() : fc.constant(false);
  const way = fc.record({ how: fc.oneof(fc.constant(RETAINED), how), isRestarted });
  return fc.array(way, { minLength: length, maxLength: length });
}

async function playedIn(
  ways: readonly Way[],
  calls: readonly SentRequest[],
  dialect: Dialect,
): Promise<Played> {
  const store = memoryStore();
  return await played(calls, dialect, {
    store: () => store,
    gatewayAt: (at) => ({ isRestarted: ways[at]!.isRestarted }),
  });
}

function promptsOf(
  dialect: Dialect,
  run: Played,
  requests: readonly { readonly items: readonly Respelled[] }[],
): (readonly (readonly string[])[])[] {
  return callsOf(run, run.sent).map((calls, at) =>
    calls.map((text) => undone(dialect, listOf(JSON.parse(text)), requests[at]!.items))
  );
}

function restOf(text: string): unknown {
  const { messages: _, input: __, ...rest }: JsonRecord = JSON.parse(text);
  return [rest, breakpoints(JSON.parse(text))];
}

for (const dialect of DIALECTS) {
  const calls = conversation(dialect, MANNERS[0]!).slice(0, 34);
  for (const restarts of [false, true]) {
    const of = `${dialect.name}, ${restarts ? "with restarts" : "without a restart"}`;
    Deno.test(`respelling: changes that the model doesn't see change nothing else: ${of}`, async () => {
      const expected = await whole(calls, dialect);
      const counted = callsOf(expected, expected.sent);
      assert(recalled(expected).some((count) => count > 1));
      await fc.assert(
        fc.asyncProperty(ways(calls.length, unseen, restarts), async (ways) => {
          const requests = requestsOf(dialect, calls, ways.map(({ how }) => how));
          const asSpelled = requests.map(({ request }, at) => ({ ...request, countsAs: counted[at]! }));
          const actual = await playedIn(ways, asSpelled, dialect);
          assertEquals([actual.reported, actual.got], [[], expected.got]);
          assertEquals(sessionsOf(actual), sessionsOf(expected));
          assertEquals(
            promptsOf(dialect, actual, requests),
            promptsOf(dialect, expected, requests.map(asItWas)),
          );
          assertEquals(actual.sent.map(restOf), expected.sent.map(restOf));
        }),
        { numRuns: cases(1), endOnFailure: true },
      );
    });
  }
}

function broken(run: Played, prompts: ReturnType<typeof promptsOf>): number[] {
  return run.places.flatMap(({ session, epoch }, at) => {
    const before = run.places[at - 1];
    if (at === 0 || before?.session !== session || before.epoch !== epoch) return [];
    const [last = [], now = []] = [prompts[at - 1]!.at(-1), prompts[at]![0]].map((prompt) =>
      prompt?.filter((item) => !item.startsWith('{"type":"reasoning"'))
    );
    return last.every((item, place) => item === now[place]) ? [] : [at];
  });
}

for (const dialect of DIALECTS) {
  // In this conversation only the client breaks prefixes.
  const calls = conversation(dialect, MANNERS[0]!).slice(0, 23);
  for (const restarts of [false, true]) {
    const of = `${dialect.name}, ${restarts ? "with restarts" : "without a restart"}`;
    Deno.test(`respelling: sessions, evictions and recalls survive any change of spelling: ${of}`, async () => {
      let most = 0;
      await fc.assert(
        fc.asyncProperty(ways(calls.length, any, restarts), async (ways) => {
          const requests = requestsOf(dialect, calls, ways.map(({ how }) => how));
          const actual = await playedIn(ways, requests.map(({ request }) => request), dialect);
          assertEquals([actual.reported, new Set(sessionsOf(actual)).size], [[], 1]);
          const prompts = promptsOf(dialect, actual, requests);
          assertEquals(broken(actual, prompts), []);
          most = Math.max(most, ...recalled(actual));
        }),
        { numRuns: cases(2), endOnFailure: true },
      );
      assert(most > 1);
    });
  }
}

const CHANGES: Readonly<Record<string, (item: Json) => Json | undefined>> = {
  text: (item) => replaced(item, /"(text|content|output)":"(?=\w)/, (found) => `${found}Other `),
  "white space within": (item) => replaced(item, /(?<="(?:text|content|output)":"[^" ]+) (?=\w)/, () => "  "),
  arguments: (item) => replaced(item, /(?<=(?:"path":"|cat ))(?=\w)/, () => "other_"),
  name: (item) => replaced(item, /(?<="name":")(?=\w+","(?:arguments|input)")/, () => "other_"),
};

function replaced(item: Json, what: RegExp, by: (found: string) => string): Json | undefined {
  const text = JSON.stringify(item);
  const now = text.replace(what, by);
  return now === text ? undefined : JSON.parse(now);
}

for (const dialect of DIALECTS) {
  const calls = conversation(dialect, MANNERS[0]!).slice(0, 12);
  for (const [what, change] of Object.entries(CHANGES)) {
    Deno.test(`respelling: a change of ${what} begins another conversation, in any spelling: ${dialect.name}`, async () => {
      let changed = 0;
      const about = fc.record({ at: fc.nat(20), how: any, isRestarted: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(about, async ({ at, how, isRestarted }) => {
          const newest = calls.at(-1)!;
          const items = listOf(newest.body);
          // After the opening: with another opening it may be a history without its beginning.
          const sent = listOf(calls.at(-2)!.body).length;
          const first = items.findIndex(({ role, type }) => role === "assistant" || type === "reasoning");
          const places = [...items.keys()].slice(first, sent).filter((place) => change(items[place]!));
          const place = places[at % places.length]!;
          const other = items.map((item, it) => it === place ? change(item)! : item);
          const field = "input" in newest.body ? "input" : "messages";
          const [last] = requestsOf(dialect, [{ ...newest, body: { ...newest.body, [field]: other } }], [
            how,
          ]);
          const all = [...calls.slice(0, -1), last!.request];
          const ways = all.map((_, it) => ({
            how: RETAINED,
            isRestarted: isRestarted && it === all.length - 1,
          }));
          const run = await playedIn(ways, all, dialect);
          assertNotEquals(run.places.at(-1)!.session, run.places.at(-2)!.session);
          changed++;
        }),
        { numRuns: cases(2), endOnFailure: true },
      );
      assert(changed > 0);
    });
  }
}

function asItWas(
  { items }: { readonly items: readonly Respelled[] },
): { readonly items: readonly Respelled[] } {
  return { items: items.map(({ before, now }) => ({ before, now: now.length === 0 ? [] : [before] })) };
}

Deno.test("respelling: openclaw, which removes underscores from ids, retains recalls", async () => {
  const replies = [
    { tool_calls: [call("recall", { ref: "none" }, "call_r_0")] },
    {
      tool_calls: [call("read", { path: "a" }, "call_a_550_0"), call("read", { path: "a" }, "call_a_550_1")],
    },
    { tool_calls: [call("read", { path: "b" }, "call_b_551_0")] },
    { content: "Done." },
  ];
  const { fetch, seen } = gatewayed((_, at) => completion(replies[at]!));
  const task = { role: "user", content: "Go." };
  const reads = (path: string, ...ids: string[]) => ({
    role: "assistant",
    content: "",
    tool_calls: ids.map((id) => call("read", { path }, id)),
  });
  const result = (tool_call_id: string, content: string) => ({ role: "tool", tool_call_id, content });
  const first = [
    task,
    reads("a", "calla5500", "calla5501"),
    result("calla5500", "A."),
    result("calla5501", "a."),
  ];
  const second = [...first, reads("b", "callb5510"), result("callb5510", "B.")];
  const reported = [];
  for (const messages of [[task], first, second]) {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    await response.text();
    reported.push(response.headers.get("x-tare-session"));
  }
  const sent = seen.map(({ body }) => body.messages);
  const recall = sent[1].slice(1);
  assertEquals(recall.map(({ role }: Json) => role), ["assistant", "tool"]);
  const { tool_calls: calls } = reads("a", "calla5500", "calla5501");
  const visibleFirst = [
    task,
    ...recall,
    { role: "assistant", tool_calls: calls },
    ...first.slice(2),
  ];
  assertEquals(
    sent.slice(2).map((messages) =>
      messages.map(({ content, ...rest }: Json) => content ? { ...rest, content } : rest)
    ),
    [visibleFirst, [...visibleFirst, ...second.slice(-2)]].map((messages) =>
      messages.map(({ content, ...rest }: Json) => content ? { ...rest, content } : rest)
    ),
  );
  assertEquals(new Set(reported).size, 1);
});

const tokensOf = (text: string) => Math.ceil(text.length / 4);

Deno.test("respelling: Copilot's optional fields, which differ between processes, continue its session", async () => {
  const { fetch, seen } = gatewayed(({ text }) => completion({ content: "Yes." }, tokensOf(text)));
  const results = Array.from({ length: 24 }, (_, at) => chatStep(`f${at}.ts`, longResult(`f${at}.ts`)))
    .flat();
  const reported: (string | null)[] = [];
  const ask = async (messages: readonly Json[]) => {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    await response.text();
    reported.push(response.headers.get("x-tare-session"));
  };
  const live = [{ role: "user", content: "Go." }, ...results].map((message) =>
    message.role === "assistant" ? { ...message, refusal: null } : message
  );
  for (let length = 1; length <= live.length; length += 2) await ask(live.slice(0, length));
  const resumed = live.map(({ refusal: _, ...message }: Json) =>
    message.role === "tool" ? { ...message, __copilotMessageSource: { kind: "tool", name: "read" } } : message
  );
  const more = [{ role: "assistant", content: "Yes." }, { role: "user", content: "And now?" }];
  await ask([...resumed, ...more]);
  assertEquals(new Set(reported).size, 1);
  const [before, after] = seen.slice(-2).map(({ body }) => body.messages as Json[]);
  assertStringIncludes(JSON.stringify(before), "[elided: ");
  // Placeholders remain, with the client's current fields.
  const elided = (messages: readonly Json[]) =>
    messages.map(({ content }) => String(content).startsWith("[elided: ") ? content : undefined);
  assertEquals(elided(after!).slice(0, before!.length), elided(before!));
  const whole = after!.map((message, at) => ({ ...message, content: [...resumed, ...more][at]?.content }));
  assertEquals(whole, [...resumed, ...more]);
});

async function amidTurn() {
  let isLast = false;
  const { fetch, seen } = gatewayed(({ body, text }) =>
    completion(
      isLast
        ? { content: "Done." }
        : { tool_calls: [call("bash", { command: "cat next" }, `next_${(body.messages as Json[]).length}`)] },
      tokensOf(text),
    )
  );
  const ask = async (messages: readonly Json[]) => {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    await response.text();
    return { id: response.headers.get("x-tare-session"), sent: seen.at(-1)!.body.messages as Json[] };
  };
  const steps = Array.from({ length: 24 }, (_, at) => chatStep(`f${at}.ts`, longResult(`f${at}.ts`))).flat();
  const history: readonly Json[] = [{ role: "user", content: "Go." }, ...steps];
  for (let length = 1; length < history.length; length += 2) await ask(history.slice(0, length));
  const newest = await ask(history);
  assertStringIncludes(JSON.stringify(newest.sent), "[elided: ");
  const ending = async (messages: readonly Json[]) => {
    isLast = true;
    return await ask(messages);
  };
  return { history, newest, ask, ending };
}

const GO_ON = { role: "user", content: "Go on." };

Deno.test("respelling: Copilot, which omits the last steps of an interrupted turn, continues its session", async () => {
  const { history, newest, ask } = await amidTurn();
  const resumed = await ask([...history.slice(0, -4), GO_ON]);
  assertEquals(resumed, { id: newest.id, sent: [...newest.sent.slice(0, -4), GO_ON] });
  const next = [...history.slice(0, -4), GO_ON, ...chatStep("more.ts", "It is short.")];
  assertEquals((await ask(next)).id, newest.id);
});

Deno.test("respelling: Copilot, which replaces the last result, continues its session", async () => {
  const { history, newest, ask } = await amidTurn();
  const unknown = { ...history.at(-3)!, content: "It was interrupted before a result was recorded." };
  const resumed = await ask([...history.slice(0, -3), unknown, GO_ON]);
  assertEquals(resumed, { id: newest.id, sent: [...newest.sent.slice(0, -3), unknown, GO_ON] });
});

Deno.test("respelling: Qwen Code, which clears old results, continues its session", async () => {
  const { history, newest, ask } = await amidTurn();
  const cleared = history.map((message, at) =>
    message.role === "tool" && at < 30
      ? { ...message, content: "[Old tool result content cleared]" }
      : message
  );
  const step = chatStep("more.ts", "It is short.");
  const went = await ask([...cleared, ...step]);
  assertEquals([went.id, went.sent.slice(0, 31)], [newest.id, cleared.slice(0, 31)]);
  assertEquals((await ask([...cleared, ...step, ...chatStep("yet.ts", "It is short, too.")])).id, newest.id);
  const last = history.length - 1;
  const other = history.map((message, at) =>
    at < last ? message : { ...message, content: "Something else." }
  );
  const another = await ask([...other, ...step]);
  assertEquals(another.id === newest.id, false);
});

Deno.test("sessions: a request from within a finished turn, or with another text, begins a fork", async () => {
  const { history, newest, ask } = await amidTurn();
  const done = [...history, { role: "assistant", content: "Done." }];
  const more = [...done, { role: "user", content: "And now?" }, ...chatStep("more.ts", "It is short.")];
  assertEquals((await ask(more)).id, newest.id);
  const other = await ask([...done, { role: "user", content: "And then?" }]);
  const over = await amidTurn();
  assertEquals((await over.ending(history)).id, over.newest.id);
  const branch = await over.ask([...history.slice(0, -4), GO_ON]);
  assertEquals([newest.id, over.newest.id].some((id) => [other.id, branch.id].includes(id)), false);
});

Deno.test("respelling: a client's changed white space breaks its prefix, which is recorded", async () => {
  const { fetch, sessions } = gatewayed(() => completion({ content: "Yes." }));
  const results = Array.from({ length: 4 }, (_, at) => chatStep(`f${at}.ts`, longResult(`f${at}.ts`))).flat();
  const messages: Json[] = [{ role: "user", content: "Go." }, ...results];
  const ask = async (messages: readonly Json[]) => {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    await response.text();
    return response.headers.get("x-tare-session")!;
  };
  const id = await ask(messages);
  const spaced = messages.map((message, at) =>
    at === 2 ? { ...message, content: `${message.content}\n` } : message
  );
  assertEquals(
    await ask([...spaced, { role: "assistant", content: "Yes." }, { role: "user", content: "And?" }]),
    id,
  );
  const calls = await (await sessions.open(id))!.calls();
  assertEquals(calls.map(({ changed }) => changed && [changed.where, changed.place]), [null, ["message", 2]]);
});
