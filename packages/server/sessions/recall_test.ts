import { assert, assertStringIncludes } from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import { memoryStore } from "@tare/session/sqlite";
import { type AssistantMessage, contentText, type Model, type ModelRequest, type Tool } from "@tare/messages";
import { agent, call, echo, newSession, turn, UNREPORTED } from "../fixture_test.ts";

const factOf = (name: string) => `fact ${name} = ${name.length}${name}`;

const READ: Tool = {
  ...echo,
  run: ({ text }) =>
    [...Array.from({ length: 300 }, (_, line) => `line ${line} of ${text}`), factOf(String(text))].join("\n"),
};

function calling(name: string, args: object): Partial<AssistantMessage> {
  const id = `${name}_${JSON.stringify(args)}`;
  return {
    content: null,
    tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
  };
}

const ACTS = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant("reads" as const), files: fc.integer({ min: 1, max: 5 }) }),
    fc.constantFrom({ type: "forks" as const }, { type: "reopens" as const }),
  ),
  { minLength: 2, maxLength: 6 },
);

Deno.test("recall returns content evicted from a session's prompt, after any summary, fork and restart", async () => {
  await fc.assert(
    fc.asyncProperty(ACTS, fc.boolean(), async (acts, summarizes) => {
      const requests: ModelRequest[] = [];
      let replies: Partial<AssistantMessage>[] = [];
      const model: Model = async function* (request) {
        const isTurn = request.tools.length > 0;
        if (!isTurn && !summarizes) throw new Error("no summary can be had");
        if (isTurn) requests.push(request);
        const reply = isTurn ? replies.shift() : { content: "Files were read." };
        const message: AssistantMessage = { role: "assistant", content: "Well.", ...reply };
        if (message.content) yield { type: "text_delta", text: String(message.content) };
        yield {
          type: "completed",
          message,
          finishReason: message.tool_calls ? "tool_calls" : "stop",
          usage: UNREPORTED,
        };
      };
      const store = memoryStore();
      const open = () => agent(model, { store, tools: [READ], windowTokens: 10_000 });
      let handler = open();
      let path = await newSession(handler);
      const read: string[] = [];
      const reads = async (files: number) => {
        const names = Array.from({ length: files }, (_, at) => `file${read.length + at}x`);
        read.push(...names);
        replies = names.map((text) => calling("echo", { text }));
        await turn(handler, path, `Read ${files} files.`);
      };
      await reads(6);
      for (const act of acts) {
        if (act.type === "reads") await reads(act.files);
        else if (act.type === "reopens") handler = open();
        else {
          const { body } = await call(handler, "POST", `${path}/fork`, {});
          path = `/tare/v1/sessions/${(body as { readonly session: { readonly id: string } }).session.id}`;
        }
      }
      await turn(handler, path, "Which are left?");
      const seen = requests.at(-1)!.messages.map(({ content }) => contentText(content)).join("\n");
      const evicted = read.filter((name) => !seen.includes(factOf(name)));
      assert(evicted.length > 0);
      for (const name of [evicted[0]!, evicted.at(-1)!]) {
        replies = [calling("recall", { find: `fact ${name} =` })];
        await turn(handler, path, `Where is ${name.slice(0, -1)}?`);
        assertStringIncludes(contentText(requests.at(-1)!.messages.at(-1)!.content), factOf(name));
      }
    }),
    { numRuns: cases(5) },
  );
});
