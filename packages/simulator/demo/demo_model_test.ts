import { assertEquals } from "@std/assert";
import type { AssistantMessage, FunctionToolCall, Message, ToolDefinition } from "@tare/messages";
import { demoModel, type SimulatedReply, simulator } from "@tare/simulator";

const INTRODUCTION = "I am an offline demo model: I only follow fixed rules and understand nothing.";
const QUESTION = "Where is run_test.ts mentioned?";

/** A small repository: number of lines by path. Each line contains its file's path. */
const REPOSITORY: Readonly<Record<string, number>> = {
  "README.md": 30,
  "deno.json": 1,
  "packages/loop/run.ts": 120,
  "packages/loop/run_test.ts": 80,
  "packages/loop/README.md": 900,
  "packages/messages/count.ts": 60,
  "packages/tools/list.ts": 50,
  "packages/tools/read.ts": 149,
};

function fileText(path: string): string {
  if (path === "deno.json") {
    return '{ "workspace": ["./packages/loop", "./packages/messages", "./packages/tools"] }';
  }
  return Array.from({ length: REPOSITORY[path] ?? 0 }, (_, at) => `// ${path} ${at + 1}`).join("\n");
}

function defined(name: string, ...argumentNames: readonly string[]): ToolDefinition {
  const properties = Object.fromEntries(argumentNames.map((argument) => [argument, { type: "string" }]));
  return { type: "function", function: { name, parameters: { type: "object", properties } } };
}

const TOOLS = [
  defined("list_files", "path"),
  defined("read_file", "path", "start_line", "end_line"),
  defined("search_files", "pattern", "path", "glob", "output", "ignore_case", "max_results"),
];
const RECALL_TOOL = defined("recall", "ref");

type Arguments = Readonly<Record<string, string | number>>;

function runTool(name: string, { path = ".", ...args }: Arguments): string {
  const paths = Object.keys(REPOSITORY).filter((file) =>
    path === "." || file === path || file.startsWith(`${path}/`)
  );
  if (name === "list_files") {
    const skip = path === "." ? 0 : `${path}/`.length;
    const visible = new Set(paths.map((file) => file.slice(0, `${file}/`.indexOf("/", skip) + 1)));
    return [`entries in ${path}: ${visible.size}`, ...visible].join("\n");
  }
  if (name === "read_file") {
    const lines = fileText(String(path)).split("\n");
    const from = Number(args.start_line ?? 1);
    const visible = lines.slice(from - 1, Number(args.end_line ?? lines.length));
    return [`lines ${from}-${from + visible.length - 1} of ${lines.length}`, ...visible].join("\n");
  }
  const pattern = new RegExp(String(args.pattern), "i");
  const found = paths.map((file) => ({
    file,
    lines: fileText(file).split("\n").map((text, at) => ({ text, number: at + 1 })).filter(({ text }) =>
      pattern.test(text)
    ),
  })).filter(({ lines }) => lines.length > 0);
  const rows = args.output === "count"
    ? found.map(({ file, lines }) => `${file}:${lines.length}`)
    : found.flatMap(({ file, lines }) => lines.map(({ text, number }) => `${file}:${number}: ${text}`));
  return [
    `matching lines: ${found.flatMap(({ lines }) => lines).length}; files with matches: ${found.length}`,
    ...rows,
  ]
    .join("\n");
}

interface PlayOptions {
  readonly tools?: readonly ToolDefinition[];
  readonly before?: readonly Message[];
  readonly view?: (messages: readonly Message[]) => readonly Message[];
}

/** Runs a turn; returns the calls of each step as short texts, and the answer. */
async function play(question: string, options: PlayOptions = {}) {
  const { tools = TOOLS, before = [], view = (messages) => messages } = options;
  const model = demoModel();
  const messages: Message[] = [...before, { role: "user", content: question }];
  const originals = new Map<string, string>();
  const steps: string[][] = [];
  while (steps.length < 20) {
    const reply = await model({ model: "demo", messages: view(messages), tools });
    const calls = withIds(reply, steps.length);
    if (calls.length === 0) return { steps, answer: reply.content ?? "", messages };
    steps.push(calls.map(({ function: { name, arguments: text } }) => describe(name, JSON.parse(text))));
    messages.push(
      { role: "assistant", content: reply.content ?? null, tool_calls: calls } satisfies AssistantMessage,
    );
    for (const { id, function: { name, arguments: text } } of calls) {
      const args = JSON.parse(text);
      const content = name === "recall" ? originals.get(args.ref) ?? "Cannot recall" : runTool(name, args);
      originals.set(refOf(content), content);
      messages.push({ role: "tool", tool_call_id: id, content });
    }
  }
  throw new Error("The turn doesn't end");
}

function withIds(reply: SimulatedReply, step: number): FunctionToolCall[] {
  return (reply.tool_calls ?? []).map((call, at) => ({ ...call, id: `${step}_${at}_${call.function.name}` }));
}

function describe(name: string, { path, output, pattern, ref }: Arguments): string {
  return [name, output, pattern, path, ref].filter((part) => part !== undefined).join(" ");
}

function refOf(content: string): string {
  return content.length.toString(16).padStart(16, "0");
}

function elideAllBut(newest: number, way: string) {
  return (messages: readonly Message[]): readonly Message[] => {
    const results = messages.filter((message) => message.role === "tool");
    const elided = new Set<Message>(
      results.slice(0, -newest).filter(({ tool_call_id }) => !tool_call_id.endsWith("recall")),
    );
    return messages.map((message) =>
      message.role === "tool" && elided.has(message)
        ? { ...message, content: `[elided: x result, 9999 bytes; ${way} ${refOf(String(message.content))}]` }
        : message
    );
  };
}

const STEPS = [
  ["list_files"],
  ["search_files count run_test", "search_files count mentioned"],
  ["search_files run_test|mentioned packages/loop/run_test.ts"],
  ["read_file packages/loop/run_test.ts"],
];

const ANSWER = `${INTRODUCTION} The following is computed from tool results of this turn.

"run_test" occurs in 80 lines of 1 file.
"mentioned" doesn't occur in the searched files.

packages/loop/run_test.ts, the first 3 of 80 lines:
- line 1: "// packages/loop/run_test.ts 1"
- line 2: "// packages/loop/run_test.ts 2"
- line 3: "// packages/loop/run_test.ts 3"

I read lines 1 to 21 of 80 of packages/loop/run_test.ts, which begin: "// packages/loop/run_test.ts 1"

The workspace has 1 folder and 2 files at the top level.`;

Deno.test("demoModel() searches for the words of a question and reads the matches", async () => {
  const { steps, answer } = await play(QUESTION);
  assertEquals(steps, STEPS);
  assertEquals(answer, ANSWER);
});

Deno.test("demoModel() starts each turn from its own question", async () => {
  const first = await play("Where is list.ts?");
  const before: Message[] = [...first.messages, { role: "assistant", content: first.answer }];
  const second = await play(QUESTION, { before });
  assertEquals([second.steps, second.answer], [STEPS, ANSWER]);
});

const [, COUNTED, FOUND, READ] = ANSWER.split("\n\n");
const NO_LISTING = "I have no listing of the workspace.";

Deno.test("demoModel() reports nothing about evicted results", async () => {
  const { steps, answer } = await play(QUESTION, { view: elideAllBut(2, "ref") });
  assertEquals(steps, STEPS);
  assertEquals(answer.split("\n\n").slice(1), [FOUND, READ, NO_LISTING]);
});

Deno.test("demoModel() recalls evicted results that its answer needs", async () => {
  const tools = [...TOOLS, RECALL_TOOL];
  const { steps, answer } = await play(QUESTION, { tools, view: elideAllBut(2, "recall with ref") });
  assertEquals(steps.map((step) => step.map((call) => call.split(" ")[0])), [
    ["list_files"],
    ["search_files", "search_files"],
    ["search_files"],
    ...[["recall"], ["recall"], ["recall"]], // each evicts the oldest visible search
    ["read_file"],
  ]);
  assertEquals(answer.split("\n\n").slice(1), [COUNTED, FOUND, READ, NO_LISTING]);
});

Deno.test("demoModel() works with fewer, other and no tools and reports that", async () => {
  const only = (...names: readonly string[]) => TOOLS.filter((tool) => names.includes(tool.function.name));
  const listing = await play(QUESTION, { tools: only("list_files", "read_file") });
  assertEquals(listing.steps, [["list_files"], ["read_file README.md", "read_file deno.json"]]);
  assertEquals(
    listing.answer.split("\n\n").at(-1),
    "The workspace has 1 folder and 2 files at the top level.",
  );
  const searching = await play("Where is run_test.ts?", { tools: only("search_files") });
  assertEquals(searching.steps.flat().map((call) => call.split(" ")[0]), ["search_files", "search_files"]);
  assertEquals(searching.answer.split("\n\n").at(-1), "I have no listing of the workspace.");
  const refusal =
    "I called no tool: none of the supported tools (list_files, read_file, search_files) is offered.";
  assertEquals((await play(QUESTION, { tools: [] })).answer, `${INTRODUCTION} ${refusal} Offered: none.`);
  const others = [defined("shell", "command"), defined("ask")];
  assertEquals(
    (await play(QUESTION, { tools: others })).answer,
    `${INTRODUCTION} ${refusal} Offered: shell, ask.`,
  );
  assertEquals((await play(" ")).answer, `${INTRODUCTION} The request has no question.`);
});

Deno.test("demoModel() accepts tools without parameter schemas", async () => {
  const bare = TOOLS.map(({ function: { name } }): ToolDefinition => ({
    type: "function",
    function: { name },
  }));
  const { steps, answer } = await play(QUESTION, { tools: bare });
  assertEquals([steps, answer], [STEPS, ANSWER.replace("1 to 21 of", "1 to 80 of")]);
});

Deno.test("demoModel() returns the same reply for the same request, also through a provider", async () => {
  const { messages } = await play(QUESTION);
  const provider = simulator({
    model: { demo: demoModel() },
    tokenizer: { encode: (text) => [text.length] },
  });
  const body = JSON.stringify({ model: "demo", messages, tools: TOOLS });
  const ask = async () => {
    const request = new Request("http://provider/v1/chat/completions", { method: "POST", body });
    return (await (await provider.fetch(request)).json()).choices[0].message.content;
  };
  assertEquals([await ask(), await ask()], [ANSWER, ANSWER]);
});
