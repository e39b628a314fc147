import fc from "../cases.ts";
import type { Message } from "@tare/messages";
import { conversations } from "../conversations.ts";
import { DEFINITIONS } from "./long_session.ts";

/** Request with a body that may be invalid JSON or UTF-8, and its route. */
export interface GeneratedRequest {
  readonly path: "/v1/chat/completions" | "/v1/responses" | "/v1/messages";
  readonly body: Uint8Array<ArrayBuffer>;
}

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/**
 * Generates a session's growing requests, each fuzzed: fields lost, duplicated, shuffled, mistyped, giant or
 * unknown; reused ids; corrupted JSON.
 */
export function maltreatedSessions(
  paths: readonly GeneratedRequest["path"][],
): fc.Arbitrary<readonly GeneratedRequest[]> {
  return fc.record({
    messages: conversations(),
    path: fc.constantFrom(...paths),
    breakpoints: fc.constantFrom<Breakpoints>("none", "end", "system and end", "early", "all"),
    stream: fc.constantFrom<readonly Json[]>([true], [true, { include_usage: true }], [false], []),
    hasTools: fc.boolean(),
    extra: fc.dictionary(fc.constantFrom("temperature", "user", "seed", "ünknown", "__proto__"), json(), {
      maxKeys: 2,
    }),
    cuts: fc.array(fc.nat(), { minLength: 4, maxLength: 4 }),
    maltreatments: fc.array(fc.array(maltreatment(), { maxLength: 3 }), { minLength: 4, maxLength: 4 }),
    spoils: fc.array(fc.option(spoil(), { freq: 5 }), { minLength: 4, maxLength: 4 }),
  }).map(({ messages, path, stream: [stream, streamOptions], hasTools, extra, cuts, breakpoints, ...rest }) =>
    cuts.map((cut) => cut % (messages.length + 1)).sort((a, b) => a - b).map((length, at) => {
      const list = messages.slice(0, length);
      const body = {
        model: "gpt-5",
        ...(path === "/v1/responses"
          ? responsesBody(list, hasTools)
          : path === "/v1/messages"
          ? messagesBody(list, { hasTools, breakpoints })
          : chatBody(list, hasTools)),
        ...(stream !== undefined && { stream }),
        ...(streamOptions !== undefined && { stream_options: streamOptions }),
        ...extra,
      };
      let value = JSON.parse(JSON.stringify(body)) as Json;
      for (const maltreat of rest.maltreatments[at] ?? []) value = maltreat(value);
      const bytes = new TextEncoder().encode(JSON.stringify(value));
      return { path, body: rest.spoils[at]?.(bytes) ?? bytes };
    })
  );
}

/** Tools with descriptions that are long enough to be compacted. */
const TOOLS = DEFINITIONS.map(({ type, function: { description = "", ...definition } }) => ({
  type,
  function: { ...definition, description: `${description} It is told at length. `.repeat(8) },
}));

export function chatBody(messages: readonly Message[], hasTools: boolean) {
  return { messages, ...(hasTools && { tools: TOOLS }) };
}

export function responsesBody(messages: readonly Message[], hasTools: boolean) {
  return {
    input: messages.flatMap(toItems),
    ...(hasTools && {
      tools: TOOLS.map(({ type, function: definition }) => ({ type, ...definition, strict: true })),
    }),
  };
}

type Breakpoints = "none" | "end" | "system and end" | "early" | "all";

const MARK = { cache_control: { type: "ephemeral" } };

export function messagesBody(
  messages: readonly Message[],
  { hasTools, breakpoints }: { readonly hasTools: boolean; readonly breakpoints: Breakpoints },
) {
  const first = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const heads = messages.slice(0, Math.max(0, first));
  const mark = (list: readonly object[], ends: boolean) =>
    list.map((block, at) =>
      breakpoints === "all" || (ends && at === list.length - 1) ? { ...block, ...MARK } : block
    );
  const history: { readonly role: string; readonly content: object[] }[] = [];
  for (const message of messages.slice(heads.length)) {
    const role = message.role === "assistant" ? "assistant" : message.role === "system" ? "system" : "user";
    const last = history.at(-1);
    // Consecutive results share a message, with adjacent texts.
    if (role === "user" && last?.role === "user") last.content.push(...toBlocks(message));
    else history.push({ role, content: toBlocks(message) });
  }
  // Breakpoints on old results that may be evicted.
  let early = breakpoints === "early" ? 3 : 0;
  return {
    max_tokens: 100,
    ...(heads.length > 0 && { system: mark(heads.flatMap(toBlocks), breakpoints === "system and end") }),
    messages: history.map(({ role, content }, at) => {
      const [only] = content;
      const isLast = at === history.length - 1;
      if (!isLast && breakpoints !== "all" && content.length === 1 && only && "text" in only) {
        return { role, content: only.text };
      }
      const isEarly = content.some((block) => "tool_use_id" in block) && early-- > 0;
      return { role, content: mark(content, isEarly || (isLast && breakpoints !== "none")) };
    }),
    ...(hasTools && {
      tools: TOOLS.map(({ function: { name, description, parameters } }) => ({
        name,
        description,
        input_schema: parameters,
      })),
    }),
  };
}

function toBlocks(message: Message): object[] {
  const { content } = message;
  const texts = typeof content === "string"
    ? [{ type: "text", text: content }]
    : (content ?? []).map((part) =>
      part.type === "text"
        ? { ...part }
        : { type: "image", source: { type: "url", url: "https://a.example" } }
    );
  if (message.role === "tool") {
    const whole = typeof content === "string" ? content : texts;
    return [{ type: "tool_result", tool_use_id: message.tool_call_id, content: whole }];
  }
  if (message.role !== "assistant") return texts;
  const { reasoning_content: thinking, tool_calls: calls = [] } = message;
  return [
    ...(thinking ? [{ type: "thinking", thinking, signature: "sig" }] : []),
    ...texts,
    ...calls.map((call) => ({
      type: "tool_use",
      id: call.id,
      name: call.type === "function" ? call.function.name : call.custom.name,
      input: { of: call.type === "function" ? call.function.arguments : call.custom.input },
    })),
  ];
}

function toItems(message: Message): object[] {
  if (message.role === "tool") {
    const output = Array.isArray(message.content) ? toParts(message.content) : message.content;
    return [{ type: "function_call_output", call_id: message.tool_call_id, output }];
  }
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  const content = Array.isArray(message.content) ? toParts(message.content) : message.content;
  return [
    ...(content ? [{ type: "message", role: message.role, content }] : []),
    ...calls.map((call) =>
      call.type === "function"
        ? { type: "function_call", call_id: call.id, ...call.function }
        : { type: "custom_tool_call", call_id: call.id, ...call.custom }
    ),
  ];
}

function toParts(parts: readonly { readonly type: string }[]): object[] {
  return parts.map((part) =>
    part.type === "text" ? { ...part, type: "input_text" } : { type: "input_image" }
  );
}

function json(): fc.Arbitrary<Json> {
  return fc.oneof(
    fc.constantFrom<Json>(
      null,
      true,
      0,
      -1,
      1e21,
      0.1,
      "",
      "x",
      [],
      {},
      [[]],
      { type: "text" },
      "\ud800",
      "\u0000",
    ),
    fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>,
  );
}

function giant(text: Json, length: number): string {
  const piece = `${typeof text === "string" ? text : JSON.stringify(text)} giant `;
  return piece.repeat(Math.ceil(length / piece.length));
}

type Maltreatment = (value: Json) => Json;

interface Place {
  readonly value: Json;
  readonly replace: (value: Json) => void;
  readonly remove: () => void;
  readonly parent: Json[] | { [name: string]: Json };
}

function places(value: Json): Place[] {
  const found: Place[] = [];
  const visit = (parent: Json) => {
    if (typeof parent !== "object" || parent === null) return;
    if (Array.isArray(parent)) {
      for (const [at, child] of parent.entries()) {
        found.push({
          value: child,
          parent,
          replace: (value) => void (parent[at] = value),
          remove: () => void parent.splice(at, 1),
        });
        visit(child);
      }
      return;
    }
    for (const [name, child] of Object.entries(parent)) {
      const replace = (value: Json) =>
        void Object.defineProperty(parent, name, {
          value,
          enumerable: true,
          configurable: true,
          writable: true,
        });
      found.push({ value: child, parent, replace, remove: () => void delete parent[name] });
      visit(child);
    }
  };
  visit(value);
  return found;
}

function maltreatment(): fc.Arbitrary<Maltreatment> {
  const somewhere = (change: (place: Place) => void) =>
    fc.nat().map((at): Maltreatment => (value) => {
      const all = places(value);
      const place = all[at % Math.max(1, all.length)];
      if (place) change(place);
      return value;
    });
  return fc.oneof(
    json().chain((other) => somewhere(({ replace }) => replace(other))),
    somewhere(({ remove }) => remove()),
    somewhere(({ parent, value }) => {
      if (Array.isArray(parent)) parent.push(structuredClone(value));
    }),
    somewhere(({ parent }) => {
      if (Array.isArray(parent)) parent.reverse();
    }),
    fc.constantFrom("", "call_0", "same").chain((id) =>
      somewhere(({ parent }) => {
        for (const name of Array.isArray(parent) ? [] : ["id", "call_id", "tool_call_id", "tool_use_id"]) {
          if (!Array.isArray(parent) && name in parent) parent[name] = id;
        }
      })
    ),
    fc.tuple(fc.constantFrom("content", "output", "arguments", "x_unknown"), json()).chain(([name, other]) =>
      somewhere(({ parent }) => {
        if (!Array.isArray(parent)) parent[name] = other;
      })
    ),
    fc.constantFrom(5_000, 60_000).chain((length) =>
      somewhere(({ value, replace }) => {
        if (typeof value === "string") replace(giant(value, length));
      })
    ),
    // All results at once, so that the older ones must be evicted.
    fc.constantFrom(3_000, 12_000).map((length): Maltreatment => (value) => {
      for (const { parent, value: text, replace } of places(value)) {
        const isResult = !Array.isArray(parent) &&
          (parent.role === "tool" || parent.type === "function_call_output" || parent.type === "tool_result");
        if (isResult && (text === parent.content || text === parent.output)) replace(giant(text, length));
      }
      return value;
    }),
    json().map((other): Maltreatment => () => other),
  );
}

function spoil(): fc.Arbitrary<(body: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>> {
  return fc.tuple(fc.nat(), fc.constantFrom("cut", "insert", "lose", "number", "blanks", "twice")).map(
    ([at, how]) => (body) => {
      const place = at % (body.length + 1);
      if (how === "cut") return body.slice(0, place);
      if (how === "insert") return joined(body.slice(0, place), "}", body.slice(place));
      if (how === "lose") return joined(body.slice(0, place), "", body.slice(place + 1));
      if (how === "blanks" || body.at(0) !== 0x7b) return joined("\r\n\t ", body, "\n");
      // A number outside JavaScript's range, and a duplicate name.
      const first = how === "number"
        ? '{"seed":12345678901234567890.10,'
        : '{"user":"first","user":"\\u0073econd",';
      return joined(first, body.at(1) === 0x7d ? '"x":1' : "", body.slice(1));
    },
  );
}

function joined(...pieces: readonly (string | Uint8Array<ArrayBuffer>)[]): Uint8Array<ArrayBuffer> {
  const bytes = pieces.map((piece) => typeof piece === "string" ? new TextEncoder().encode(piece) : piece);
  return new Uint8Array(bytes.flatMap((piece) => [...piece]));
}
