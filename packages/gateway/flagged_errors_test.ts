import { assertEquals } from "@std/assert";
import { claudeGateway, claudeRequest, type Said, says, step } from "./claude_code_fixture_test.ts";
import { call, completion, gatewayed, post, READ } from "./fixture_test.ts";
import { functionCall, responsesUpstream } from "./responses_fixture_test.ts";

const LONG = Array.from({ length: 5_000 }, (_, at) => `${at % 97}`).join(" ");
const STEPS = 24;

/** Ways in which a client states how a call ended, and whether that keeps its result; the first result is one of each. */
interface Way {
  readonly text: string;
  readonly flags?: object;
  readonly stays: boolean;
}

/** What a way says, with the long text that it is about. */
const WAYS: Readonly<Record<"chat" | "responses" | "messages", readonly Way[]>> = {
  messages: [
    { text: `<tool_use_error>${LONG}`, flags: { is_error: true }, stays: true },
    { text: `Error: quoted from a log ${LONG}`, flags: { is_error: false }, stays: false },
    { text: `Exit code 1\n${LONG}`, stays: true },
    { text: `Error: nobody says ${LONG}`, stays: true },
    { text: LONG, stays: false },
  ],
  responses: [
    { text: `Half of it ${LONG}`, flags: { status: "incomplete" }, stays: true },
    { text: `Exit code: 0\nOutput:\n${LONG}`, stays: false },
    { text: JSON.stringify({ output: LONG, metadata: { exit_code: 2 } }), stays: true },
    { text: `Wall time: 1 s\nProcess exited with code 1\nOutput:\n${LONG}`, stays: true },
    { text: LONG, flags: { status: "completed" }, stays: false },
  ],
  chat: [
    { text: JSON.stringify({ output: LONG, exit_code: 2 }), stays: true },
    { text: JSON.stringify({ output: LONG, exit_code: 0 }), stays: false },
    { text: `${LONG}\n\nCommand exited with code 2`, stays: true },
    { text: `Cannot open: ${LONG}`, stays: true },
    { text: LONG, stays: false },
  ],
};

/** What the last request shows of the results of these ways, once many more have come. */
type Play = (ways: readonly Way[]) => Promise<readonly unknown[]>;

const PLAYS: Readonly<Record<keyof typeof WAYS, Play>> = {
  async messages(ways) {
    const { fetch, seen } = claudeGateway(() => ({ content: "Hi" }));
    const [asks, answers] = step("first", ways.map(({ text }) => text));
    const results = answers!.content.map((block, at) => ({ ...block, ...ways[at]!.flags }));
    const said: Said[] = [says("user", "Go."), asks!, { role: "user", content: results }];
    for (let at = 0; at < STEPS; at++) {
      await (await fetch(claudeRequest(said))).text();
      said.push(...step(`s${at}`, [`${at} ${LONG}`]));
    }
    await (await fetch(claudeRequest(said))).text();
    const shown = seen.at(-1)!.body.messages[2].content as { content: unknown; is_error?: boolean }[];
    // What the protocol says of a result goes up as it came, and nothing else does.
    assertEquals(
      shown.map(({ content: _, ...block }) => block),
      results.map(({ content: _, ...block }) => block),
    );
    return shown.map(({ content }) => content);
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
      input.push(functionCall("shell", {}, `s${at}`), output(`s${at}`, `${at} ${LONG}`));
    }
    await ask();
    const shown = upstream.asked.at(-1)!.input.filter(({ call_id, type }) =>
      type === "function_call_output" && String(call_id).startsWith("w")
    );
    assertEquals(
      shown.map((item) => ({ ...item, output: "" })),
      results.map((item) => ({ ...item, output: "" })),
    );
    return shown.map(({ output }) => output);
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
        result(`s${at}`, `${at} ${LONG}`),
      );
    }
    await ask();
    const shown = seen.at(-1)!.body.messages.slice(2, 2 + ways.length) as typeof results;
    assertEquals(
      shown.map((one) => ({ ...one, content: "" })),
      results.map((one) => ({ ...one, content: "" })),
    );
    return shown.map(({ content }) => content);
  },
};

for (const [protocol, play] of Object.entries(PLAYS)) {
  Deno.test(`gateway keeps the results of calls that failed, as ${protocol} and its clients state it, and no others`, async () => {
    const ways = WAYS[protocol as keyof typeof WAYS];
    const shown = await play(ways);
    assertEquals(
      shown.map((text, at) => text === ways[at]!.text ? "whole" : String(text).slice(0, 9)),
      ways.map(({ stays }) => stays ? "whole" : "[elided: "),
    );
  });
}
