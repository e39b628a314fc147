import { assertEquals, assertLess } from "@std/assert";
import {
  claudeGateway,
  type ClaudeMessage,
  claudeRequest,
  step,
  textMessage,
} from "./claude_code_fixture_test.ts";
import { call, completion, gatewayed, post, READ } from "./fixture_test.ts";
import { functionCall, responsesUpstream } from "./responses_fixture_test.ts";

function long(of: string): string {
  return Array.from({ length: 250 }, (_, at) => `name_${of}_${at % 97}`).join(" ");
}

const STEPS = 24;

/**
 * A form in which a client reports how a call ended, and whether its result is retained longer; the first results are
 * one of each.
 */
interface Way {
  readonly text: string;
  readonly flags?: object;
  readonly stays: boolean;
}

const WAYS: Readonly<Record<"chat" | "responses" | "messages", readonly Way[]>> = {
  messages: [
    { text: `<tool_use_error>${long("w1")}`, flags: { is_error: true }, stays: true },
    { text: `Error: quoted from a log ${long("w2")}`, flags: { is_error: false }, stays: false },
    { text: `Exit code 1\n${long("w3")}`, stays: true },
    { text: `Error: nobody says ${long("w4")}`, stays: true },
    { text: long("w10"), stays: false },
  ],
  responses: [
    { text: `Half of it ${long("w5")}`, flags: { status: "incomplete" }, stays: true },
    { text: `Exit code: 0\nOutput:\n${long("w6")}`, stays: false },
    { text: JSON.stringify({ output: long("w11"), metadata: { exit_code: 2 } }), stays: true },
    { text: `Wall time: 1 s\nProcess exited with code 1\nOutput:\n${long("w7")}`, stays: true },
    { text: long("w12"), flags: { status: "completed" }, stays: false },
  ],
  chat: [
    { text: JSON.stringify({ output: long("w13"), exit_code: 2 }), stays: true },
    { text: JSON.stringify({ output: long("w14"), exit_code: 0 }), stays: false },
    { text: `${long("w8")}\n\nCommand exited with code 2`, stays: true },
    { text: `Cannot open: ${long("w9")}`, stays: true },
    { text: long("w15"), stays: false },
  ],
};

type Play = (ways: readonly Way[]) => Promise<readonly (readonly unknown[])[]>;

const PLAYS: Readonly<Record<keyof typeof WAYS, Play>> = {
  async messages(ways) {
    const { fetch, seen } = claudeGateway(() => ({ content: "Hi" }));
    const [asks, answers] = step("first", ways.map(({ text }) => text));
    const results = answers!.content.map((block, at) => ({ ...block, ...ways[at]!.flags }));
    const messages: ClaudeMessage[] = [textMessage("user", "Go."), asks!, { role: "user", content: results }];
    for (let at = 0; at < STEPS; at++) {
      await (await fetch(claudeRequest(messages))).text();
      messages.push(...step(`s${at}`, [long(`s${at}`)]));
    }
    await (await fetch(claudeRequest(messages))).text();
    const resultBlocks = seen.map(({ body }) => body.messages[2].content as { content: unknown }[]);
    // Only the protocol's own error fields are forwarded.
    assertEquals(
      resultBlocks.at(-1)!.map(({ content: _, ...block }) => block),
      results.map(({ content: _, ...block }) => block),
    );
    return resultBlocks.map((blocks) => blocks.map(({ content }) => content));
  },
  async responses(ways) {
    const upstream = responsesUpstream([]);
    const { fetch } = gatewayed(() => new Response(), { fetch: upstream.fetch });
    const output = (call_id: string, output: string, flags = {}) => ({
      type: "function_call_output",
      call_id,
      output,
      ...flags,
    });
    const results = ways.map(({ text, flags }, at) => output(`w${at}`, text, flags));
    const input: object[] = [
      { role: "user", content: "Go." },
      ...ways.map((_, at) => functionCall("shell", { way: at }, `w${at}`)),
      ...results,
    ];
    const ask = async () => {
      const tools = [{ type: "function", name: "shell", parameters: {} }];
      await (await fetch(post({ model: "m", input, tools }, {}, "/responses"))).text();
    };
    for (let at = 0; at < STEPS; at++) {
      await ask();
      input.push(functionCall("shell", {}, `s${at}`), output(`s${at}`, long(`s${at}`)));
    }
    await ask();
    const resultBlocks = upstream.requests.map(({ input }) =>
      input.filter(({ call_id, type }) => type === "function_call_output" && String(call_id).startsWith("w"))
    );
    assertEquals(
      resultBlocks.at(-1)!.map((item) => ({ ...item, output: "" })),
      results.map((item) => ({ ...item, output: "" })),
    );
    return resultBlocks.map((items) => items.map(({ output }) => output));
  },
  async chat(ways) {
    const { fetch, seen } = gatewayed(({ text }) =>
      completion({ content: "Hi" }, Math.ceil(text.length / 4))
    );
    const result = (tool_call_id: string, content: string) => ({ role: "tool", tool_call_id, content });
    const results = ways.map(({ text }, at) => result(`w${at}`, text));
    const messages: object[] = [
      { role: "user", content: "Go." },
      {
        role: "assistant",
        content: null,
        tool_calls: ways.map((_, at) => call("read", { way: at }, `w${at}`)),
      },
      ...results,
    ];
    const ask = async () => await (await fetch(post({ model: "m", messages, tools: [READ] }))).text();
    for (let at = 0; at < STEPS; at++) {
      await ask();
      messages.push(
        { role: "assistant", content: null, tool_calls: [call("read", {}, `s${at}`)] },
        result(`s${at}`, long(`s${at}`)),
      );
    }
    await ask();
    const resultBlocks = seen.map(({ body }) => body.messages.slice(2, 2 + ways.length) as typeof results);
    assertEquals(
      resultBlocks.at(-1)!.map((one) => ({ ...one, content: "" })),
      results.map((one) => ({ ...one, content: "" })),
    );
    return resultBlocks.map((results) => results.map(({ content }) => content));
  },
};

for (const [protocol, play] of Object.entries(PLAYS)) {
  Deno.test(`eviction: results of failed calls are retained longer, in the forms of ${protocol} and its clients`, async () => {
    const ways = WAYS[protocol as keyof typeof WAYS];
    const requests = await play(ways);
    const leftAt = ways.map(({ text }, at) => {
      const request = requests.findIndex((result) => String(result[at]).startsWith("[elided: "));
      const before = request < 0 ? requests : requests.slice(0, request);
      assertEquals(before.filter((result) => result[at] !== text), []);
      return request < 0 ? Infinity : request;
    });
    const [failed, others] = [true, false].map((stays) =>
      leftAt.filter((_, at) => ways[at]!.stays === stays)
    );
    assertLess(Math.max(...others!), Math.min(...failed!), `${leftAt}`);
  });
}
