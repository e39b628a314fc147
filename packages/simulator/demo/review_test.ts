import { assertEquals } from "@std/assert";
import type { AssistantMessage, Message, ToolDefinition } from "@tare/messages";
import { demoModel, toolCall } from "@tare/simulator";

function defined(name: string, ...names: readonly string[]): ToolDefinition {
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  return { type: "function", function: { name, parameters: { type: "object", properties } } };
}

const TOOLS = [
  defined("read_file", "path", "end_line"),
  defined("search_files", "pattern", "path", "glob", "output", "max_results"),
  defined("recall", "ref", "find", "lines"),
];
const WITHOUT_RECALL = TOOLS.slice(0, 2);
const INTRODUCTION =
  "I am an offline demo model: I only follow fixed rules and understand nothing. The following is computed from ";

type Call = readonly [name: string, args: Readonly<Record<string, unknown>>];

function step(text: string, [name, args]: Call, result: string): Message[] {
  const id = `${name}-${JSON.stringify(args)}`;
  const call = { ...toolCall(name, args), id };
  return [
    { role: "assistant", content: text, tool_calls: [call] } satisfies AssistantMessage,
    { role: "tool", tool_call_id: id, content: result },
  ];
}

const user = (content: string): Message => ({ role: "user", content });

async function next(messages: readonly Message[], tools: readonly ToolDefinition[] = TOOLS) {
  const { content, tool_calls = [] } = await demoModel()({ model: "demo", messages, tools });
  return {
    content: content,
    calls: tool_calls.map(({ function: { name, arguments: args } }): Call => [name, JSON.parse(args)]),
  };
}

const LISTING = "matching lines: 30; files with matches: 3\na.ts:9\nsub/b.ts:20\nnotes.md:1";
const B = 'lines 1-20 of 20\nimport {\n  type X,\n} from "x";\nexport const b = 1;';

Deno.test("demoModel() reviews a folder, longest files first, with a note for each before the next", async () => {
  const messages = [user("Please review src/app/ file by file.")];
  const counting = (await next(messages)).calls[0]!;
  assertEquals([counting[0], counting[1].path], ["search_files", "src/app"]);
  messages.push(...step("I list the source files.", counting, LISTING));
  const first = await next(messages);
  assertEquals(first, {
    content: "I start with the longest file.",
    calls: [["read_file", { path: "src/app/sub/b.ts", end_line: 300 }]],
  });
  messages.push(...step(first.content!, first.calls[0]!, B));
  const second = await next(messages);
  const note = "- src/app/sub/b.ts: 20 lines; first declares: export const b = 1;";
  assertEquals(second, { content: note, calls: [["read_file", { path: "src/app/a.ts", end_line: 300 }]] });
  messages[4] = {
    ...messages[4]!,
    content: "[elided: read_file result, 9 bytes; recall with ref 0123456789abcdef]",
  } as Message;
  messages.push(...step(note, second.calls[0]!, "lines 1-9 of 9\n// nothing"));
  assertEquals(await next(messages), {
    content: `${INTRODUCTION}tool results of this turn.\n\nI reviewed 2 files of src/app:\n${note}\n` +
      "- src/app/a.ts: 9 lines; first declares: nothing",
    calls: [],
  });
  messages[3] = { ...messages[3]!, content: "" } as Message;
  messages[5] = { ...messages[5]!, content: "" } as Message;
  assertEquals(
    (await next(messages)).content?.includes("- src/app/sub/b.ts: its content is no longer visible"),
    true,
  );
});

Deno.test("demoModel() recalls the file list if it is evicted during a review", async () => {
  const messages = [user("Review src/app.")];
  messages.push(...step("I list the source files.", (await next(messages)).calls[0]!, LISTING));
  messages.push(...step("I start with the longest file.", (await next(messages)).calls[0]!, B));
  messages[2] = {
    ...messages[2]!,
    content: "[elided: search_files result, 99 bytes; recall with ref 00000000000000aa]",
  } as Message;
  const { calls } = await next(messages);
  assertEquals(calls, [["recall", { ref: "00000000000000aa" }]]);
  messages.push(...step("I recall results that are no longer fully visible.", calls[0]!, LISTING));
  assertEquals((await next(messages)).calls, [["read_file", { path: "src/app/a.ts", end_line: 300 }]]);
});

const NOTE = "I reviewed 1 file of src:\n- src/b.ts: 20 lines; first declares: export const b = 1;";
const QUESTION = user("Look back: which word did I ask you to keep, and what does `src/b.ts` declare first?");
const WHOLE: readonly Message[] = [
  user("Remember the word plum. Review src."),
  ...step("I start with the longest file.", ["read_file", { path: "src/b.ts" }], B),
  { role: "assistant", content: NOTE },
  QUESTION,
];
const ANSWER =
  `${INTRODUCTION}what is visible in this conversation or can be recalled.\n\nThe word is plum.\n` +
  "src/b.ts declares first: export const b = 1;\nThe reviews noted 1 file with 20 lines.";

Deno.test("demoModel() looking back answers from the visible prompt", async () => {
  assertEquals(await next(WHOLE), { content: ANSWER, calls: [] });
});

Deno.test("demoModel() looking back recalls an evicted result, or reports that it isn't visible", async () => {
  const messages = [...WHOLE];
  messages[2] = {
    ...messages[2]!,
    content: "[elided: read_file result, 99 bytes; recall with ref 00000000000000aa]",
  } as Message;
  const { calls } = await next(messages);
  assertEquals(calls, [["recall", { ref: "00000000000000aa" }]]);
  assertEquals(await next([...messages, ...step("I recall.", calls[0]!, B)]), { content: ANSWER, calls: [] });
  assertEquals(
    (await next(messages, WITHOUT_RECALL)).content?.split("\n")[3],
    "The first declaration of src/b.ts is no longer visible.",
  );
});

Deno.test("demoModel() looking back finds details in evicted steps", async () => {
  const left = user("[elided: 4 messages; recall with ref 00000000000000bb]");
  const messages = [WHOLE[0]!, left, WHOLE[3]!, QUESTION];
  const search = await next(messages);
  assertEquals(search.calls, [["recall", { ref: "00000000000000bb", find: "path: src/b.ts" }]]);
  messages.push(
    ...step(search.content!, search.calls[0]!, "3:path: src/b.tsx\n--\n6-calls read_file\n7:path: src/b.ts"),
  );
  const reading = await next(messages);
  assertEquals(reading.calls, [["recall", { ref: "00000000000000bb", lines: "7-127" }]]);
  messages.push(...step(reading.content!, reading.calls[0]!, `path: src/b.ts\n\ntool:\n${B}`));
  assertEquals(await next(messages), { content: ANSWER, calls: [] });
});

Deno.test("demoModel() looking back finds everything in evicted turns, or reports what is missing", async () => {
  const ref = "00000000000000cc";
  const messages = [user(`[elided: 9 messages, 999 bytes; recall with ref ${ref}]`), QUESTION];
  assertEquals(
    (await next(messages, WITHOUT_RECALL)).content,
    `${INTRODUCTION}what is visible in this conversation or can be recalled.\n\n` +
      "The word to remember is no longer visible.\nThe first declaration of src/b.ts is no longer visible.\n" +
      "The reviews noted 0 files with 0 lines.",
  );
  const { content, calls } = await next(messages);
  assertEquals(calls.map(([, args]) => args.find), [
    "remember the word",
    "; first declares: ",
    "path: src/b.ts",
  ]);
  const found = ["2:Remember the word plum. Review src.", `30:${NOTE.split("\n")[1]}`, "7:path: src/b.ts"];
  for (const [at, text] of found.entries()) messages.push(...step(content!, calls[at]!, text));
  const reading = await next(messages);
  messages.push(...step(reading.content!, reading.calls[0]!, `path: src/b.ts\n\ntool:\n${B}`));
  assertEquals(await next(messages), { content: ANSWER, calls: [] });
});
