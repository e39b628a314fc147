import fc from "./cases.ts";
import type { Content, Message } from "@tare/messages";
import { codePoints } from "./code_points.ts";

/**
 * Generates complete conversations with parallel calls, answers out of order, unique, reused and empty ids,
 * consecutive user messages, unanswered turns, parts, reasoning, unknown fields, and system messages
 * anywhere.
 */
export function conversations(): fc.Arbitrary<readonly Message[]> {
  return fc.record({
    greeting: fc.option(sentence()),
    turns: fc.array(turn(), { maxLength: 5 }),
    ids: fc.constantFrom<IdStyle>("unique", "again in each step", "empty"),
    instructions: fc.array(fc.record({ at: fc.nat(), message: instruction() }), { maxLength: 3 }),
  }).map(({ greeting, turns, ids, instructions }) => {
    const callId = idMaker(ids);
    const messages: Message[] = greeting === null ? [] : [{ role: "assistant", content: greeting }];
    for (const { users, steps, answer } of turns) {
      messages.push(...users);
      for (const step of steps) messages.push(...stepMessages(step, callId()));
      if (answer !== null) messages.push({ role: "assistant", content: answer });
    }
    for (const { at, message } of instructions) messages.splice(at % (messages.length + 1), 0, message);
    return messages;
  });
}

/**
 * Generates conversations with messages lost, duplicated or moved: calls without answers, answers without
 * calls, and user messages between both.
 */
export function messyConversations(): fc.Arbitrary<readonly Message[]> {
  const mishap = fc.record({ kind: fc.constantFrom("lose", "double", "move"), at: fc.nat(), to: fc.nat() });
  return fc.tuple(conversations(), fc.array(mishap, { maxLength: 4 })).map(([whole, mishaps]) => {
    const messages = [...whole];
    for (const { kind, at, to } of mishaps) {
      const from = at % Math.max(1, messages.length);
      const taken = kind === "double" ? messages.slice(from, from + 1) : messages.splice(from, 1);
      if (kind !== "lose") {
        // Copies, so that no object is in a conversation twice.
        messages.splice(to % (messages.length + 1), 0, ...taken.map((message) => ({ ...message })));
      }
    }
    return messages;
  });
}

type IdStyle = "unique" | "again in each step" | "empty";

interface Step {
  readonly text: string | null;
  readonly reasoning: string | null;
  readonly signature: string | null;
  readonly calls: readonly { readonly name: string; readonly args: string; readonly result: Content }[];
  readonly reversed: boolean;
}

function idMaker(style: IdStyle): () => (call: number) => string {
  let made = 0;
  return () => (call) => style === "empty" ? "" : style === "unique" ? `call_${made++}` : `call_${call}`;
}

function stepMessages(
  { text, reasoning, signature, calls, reversed }: Step,
  callId: (call: number) => string,
) {
  const withIds = calls.map((call, index) => ({ ...call, id: callId(index) }));
  const assistant: Message & { signature?: string } = {
    role: "assistant",
    content: text,
    ...(reasoning !== null && { reasoning_content: reasoning }),
    ...(signature !== null && { signature }),
    tool_calls: withIds.map(({ id, name, args }) => ({
      id,
      type: "function",
      function: { name, arguments: args },
    })),
  };
  const answers = withIds.map(({ id, result }): Message => ({
    role: "tool",
    tool_call_id: id,
    content: result,
  }));
  return [assistant, ...(reversed ? answers.reverse() : answers)];
}

function turn() {
  const step: fc.Arbitrary<Step> = fc.record({
    text: fc.option(sentence()),
    reasoning: fc.option(sentence(), { freq: 4 }),
    signature: fc.option(fc.base64String(), { freq: 4 }),
    calls: fc.array(
      fc.record({
        name: fc.constantFrom("read_file", "search_files", "shell", "ask_user"),
        args: fc.oneof(fc.constantFrom("{}", '{"path":"a.ts"}', '{"path":"b.ts"}', '{"pa'), fc.json()),
        result: content(),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    reversed: fc.boolean(),
  });
  return fc.record({
    users: fc.array(content().map((content): Message => ({ role: "user", content })), {
      minLength: 1,
      maxLength: 2,
    }),
    steps: fc.array(step, { maxLength: 3 }),
    answer: fc.option(sentence(), { freq: 5 }),
  });
}

function instruction(): fc.Arbitrary<Message> {
  return fc.record({ role: fc.constantFrom("system", "developer"), content: sentence() });
}

function content(): fc.Arbitrary<Content> {
  const text = fc.oneof(sentence(), longText());
  return fc.oneof(
    { weight: 5, arbitrary: text },
    { weight: 1, arbitrary: text.map((text): Content => [{ type: "text", text }]) },
    {
      weight: 1,
      arbitrary: text.map((text): Content => [
        { type: "text", text },
        { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } },
      ]),
    },
  );
}

function sentence(): fc.Arbitrary<string> {
  return fc.oneof(
    fc.lorem({ maxCount: 8 }),
    fc.string({ unit: "grapheme" }),
    fc.string({ unit: codePoints() }),
  );
}

/** Generates texts of up to some ten thousand characters, on both sides of limits. */
function longText(): fc.Arbitrary<string> {
  return fc.tuple(fc.lorem({ maxCount: 20 }), fc.integer({ min: 1, max: 100 }))
    .map(([text, times]) => `${text}\n`.repeat(times));
}
