import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import type { JsonRecord } from "@tare/wire";
import { chatStep, type Json, longResult } from "./agents_fixture_test.ts";
import { call, completion, gatewayed, post, READ } from "./fixture_test.ts";
import { type Asked, conversation, MANNERS, type Played, whole } from "./kept/conversations_fixture_test.ts";
import { DIALECTS } from "./kept/dialects_fixture_test.ts";

/** What a client does to all that it sends back, in one request. */
interface Spelling {
  /** Ids of calls lose their underscores, or become others. */
  readonly ids: "kept" | "shortened" | "rewritten";
  /** Optional fields that hold nothing are there, or not. */
  readonly empty: boolean;
  /** Texts are parts, or not. */
  readonly parts: boolean;
  readonly space: "" | " " | "\n\n";
  /** What the model thought has been dropped. */
  readonly thoughtless: boolean;
}

const KEPT: Spelling = { ids: "kept", empty: false, parts: false, space: "", thoughtless: false };

const spelling: fc.Arbitrary<Spelling> = fc.record({
  ids: fc.constantFrom("kept", "shortened", "rewritten"),
  empty: fc.boolean(),
  parts: fc.boolean(),
  space: fc.constantFrom("", " ", "\n\n"),
  thoughtless: fc.boolean(),
});

const LISTS: Readonly<Record<string, string>> = {
  chat: "messages",
  responses: "input",
  messages: "messages",
};

function listOf(dialect: string, body: JsonRecord): readonly Json[] {
  return body[LISTS[dialect]!] as readonly Json[];
}

/** A request whose client spells all so. */
function respelled(dialect: string, asked: Asked, { ids, ...spelling }: Spelling): Asked {
  const items = listOf(dialect, asked.body);
  const known = new Map<string, string>();
  const idOf = (id: unknown) => {
    const text = String(id);
    if (!known.has(text)) known.set(text, ids === "shortened" ? text.replaceAll("_", "") : `c${known.size}`);
    return ids === "kept" ? text : known.get(text)!;
  };
  const list = items.flatMap((item) => RESPELL[dialect]!(item, { ...spelling, idOf }));
  return { ...asked, body: { ...asked.body, [LISTS[dialect]!]: list } };
}

type Respell = (
  item: Json,
  spelling: Omit<Spelling, "ids"> & { readonly idOf: (id: unknown) => string },
) => readonly Json[];

const list = (value: unknown) => Array.isArray(value) ? value as readonly Json[] : [];

/** A content with its text spelled so, as it is or as a part of this type. */
function texts(content: unknown, { parts, space }: Pick<Spelling, "parts" | "space">, type: string): unknown {
  if (typeof content === "string") {
    const text = content === "" ? "" : content + space;
    return parts && content !== "" ? [{ type, text }] : text;
  }
  const spelled = list(content).map((part) =>
    typeof part.text === "string" ? { ...part, text: space + part.text } : part
  );
  const [only] = spelled;
  return spelled.length === 1 && parts && only && only.text && !("cache_control" in only)
    ? only.text
    : content && spelled;
}

const RESPELL: Readonly<Record<string, Respell>> = {
  chat(item, spelling) {
    const { idOf, empty } = spelling;
    const { tool_calls: calls } = item;
    return [{
      ...item,
      content: texts(item.content, spelling, "text"),
      ...(calls !== undefined && { tool_calls: list(calls).map((call) => ({ ...call, id: idOf(call.id) })) }),
      ...(item.role === "tool" && { tool_call_id: idOf(item.tool_call_id) }),
      ...(empty && item.role === "assistant" && {
        ...{ refusal: null, annotations: [], reasoning_content: "", audio: null },
        ...(calls === undefined ? { tool_calls: [] } : { content: null }),
      }),
    }];
  },
  responses(item, spelling) {
    const { idOf, empty, thoughtless } = spelling;
    const { type, content, output, ...rest } = item;
    if (type === "reasoning") {
      return thoughtless ? [] : [empty ? { ...item, content: [], status: null } : item];
    }
    const { id: _, ...without } = rest;
    const said = texts(content, spelling, item.role === "assistant" ? "output_text" : "input_text");
    return [{
      ...(empty ? { ...without, status: "completed", phase: null } : rest),
      ...(type === "message" && empty && Array.isArray(said)
        ? { type, content: said.map((part) => ({ ...part, annotations: [] })) }
        : { type, ...(content !== undefined && { content: said }) }),
      ...(output !== undefined && { output: texts(output, spelling, "input_text") }),
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
        ...(empty && { is_error: false }),
      }];
    });
    const content = blocks.length === 1 && blocks[0]?.type === "text"
      ? texts(blocks, spelling, "text")
      : blocks;
    return [{ ...item, content }];
  },
};

/** What the provider is shown of an item: where a request marks its cache it isn't. */
function shown(dialect: string, item: Json): string {
  if (dialect !== "messages") return JSON.stringify(item);
  const { content, ...rest } = item;
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : list(content);
  const bare = (block: Json): Json => {
    const { cache_control: _, content, ...rest } = block;
    const inner = typeof content === "string" ? [{ type: "text", text: content }] : content;
    return { ...rest, ...(inner !== undefined && { content: inner }) };
  };
  return JSON.stringify({ ...rest, content: blocks.map(bare) });
}

/** Which requests didn't go on from the provider's newest prompt of their session, though nothing of it was rewritten. */
function broken(dialect: string, { sent, told }: Played): number[] {
  const promptAt = (call: number) =>
    listOf(dialect, JSON.parse(sent[call]!)).map((item) => shown(dialect, item));
  return told.flatMap(({ session, epoch }, at) => {
    const before = told[at - 1];
    if (before?.session !== session || before.epoch !== epoch) return [];
    const now = promptAt(before.calls);
    return promptAt(before.calls - 1).every((item, place) => item === now[place]) ? [] : [at];
  });
}

/** How often the model has been shown what it recalled, by prompt. */
const recalled = ({ sent }: Played) => sent.map((text) => [...text.matchAll(/"name":"recall"/g)].length);

/** Sessions, by the order in which they began. */
function sessions({ told }: Played): number[] {
  const ids = [...new Set(told.map(({ session }) => session))];
  return told.map(({ session }) => ids.indexOf(session));
}

for (const dialect of DIALECTS) {
  const asked = conversation(dialect, MANNERS[0]!).slice(0, 30);
  Deno.test(`whatever a client does to the spelling, session, bytes and recalled facts stay: ${dialect.name}`, async () => {
    const expected = await whole(asked, dialect);
    assert(recalled(expected).some((count) => count > 1));
    assertEquals(broken(dialect.name, expected), []);
    const spellings = fc.array(fc.oneof(fc.constant(KEPT), spelling), {
      minLength: asked.length,
      maxLength: asked.length,
    });
    let recalls = 0;
    await fc.assert(
      fc.asyncProperty(spellings, async (spellings) => {
        const requests = asked.map((one, at) => respelled(dialect.name, one, spellings[at]!));
        const actual = await whole(requests, dialect);
        assertEquals(sessions(actual), sessions(expected));
        assertEquals(broken(dialect.name, actual), []);
        recalls += Math.max(...recalled(actual)) - 1;
      }),
      { numRuns: 5, endOnFailure: true },
    );
    assert(recalls > 0);
  });
}

Deno.test("openclaw, which takes the underscores out of ids, keeps what its model recalled", async () => {
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
  const told = [];
  for (const messages of [[task], first, second]) {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    await response.text();
    told.push(response.headers.get("x-tare-session"));
  }
  const sent = seen.map(({ body }) => body.messages);
  const recall = sent[1].slice(1);
  assertEquals(recall.map(({ role }: Json) => role), ["assistant", "tool"]);
  const { tool_calls: calls } = reads("a", "calla5500", "calla5501");
  const shownFirst = [
    task,
    ...recall,
    { role: "assistant", content: null, tool_calls: calls },
    ...first.slice(2),
  ];
  assertEquals(sent.slice(2), [shownFirst, [...shownFirst, ...second.slice(-2)]]);
  assertEquals(new Set(told).size, 1);
});

Deno.test("Copilot, which says in one process that nothing was refused and in the next takes notes instead, keeps its session", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Yes." }));
  const results = Array.from({ length: 24 }, (_, at) => chatStep(`f${at}.ts`, longResult(`f${at}.ts`)))
    .flat();
  const told: (string | null)[] = [];
  const ask = async (messages: readonly Json[]) => {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    await response.text();
    told.push(response.headers.get("x-tare-session"));
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
  assertEquals(new Set(told).size, 1);
  const [before, after] = seen.slice(-2).map(({ body }) => body.messages);
  assertStringIncludes(JSON.stringify(before), "[elided: ");
  assertEquals(after, [...before, ...more]);
});
