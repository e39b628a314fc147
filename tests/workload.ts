import { contentText, type Message, type ToolDefinition } from "@tare/messages";
import { readRecording, type Recording } from "@tare/simulator/economy";
import { seeded } from "./seeded.ts";
import { pick, word } from "./words.ts";

/** Turns of each session, their tool rounds, and whether the user pauses. */
const SHAPES = [
  { turns: 2, rounds: 4, pauseMs: 20_000 },
  { turns: 3, rounds: 12, pauseMs: 60_000 },
  { turns: 1, rounds: 60, pauseMs: 0 },
  { turns: 8, rounds: 12, pauseMs: 400_000 },
  { turns: 16, rounds: 10, pauseMs: 120_000 },
  { turns: 30, rounds: 6, pauseMs: 240_000 },
];

const TOOLS: readonly ToolDefinition[] = [
  tool("read_file", "Reads a file of the project and returns its text with line numbers.", ["path"]),
  tool("search", "Searches all files of the project for a regular expression.", ["pattern", "folder"]),
  tool("edit_file", "Replaces a text that occurs once in a file by another text.", ["path", "old", "new"]),
  tool("shell", "Runs a shell command. Batch independent read-only inspections into one command.", [
    "command",
  ]),
];

function tool(name: string, description: string, args: readonly string[]): ToolDefinition {
  const properties = Object.fromEntries(
    args.map((arg) => [arg, { type: "string", description: `The ${arg} to use in ${name}. Required.` }]),
  );
  return {
    type: "function",
    function: { name, description, parameters: { type: "object", properties, required: args } },
  };
}

/**
 * Generates sessions of a coding agent on an imaginary project, always the same, as a substitute for
 * recordings. They refer back to earlier reads mostly within a turn.
 */
export function generateWorkload(): Recording[] {
  return SHAPES.map((shape, at) =>
    generateSession(`generated-${at + 1}`, { ...shape, random: seeded(at + 1) })
  );
}

/** Returns a session whose first result is repeated until it is too long to enter a prompt whole. */
export function withHugeResult(recording: Recording): Recording {
  const { messages } = recording;
  const first = messages.findIndex(({ role }) => role === "tool");
  return {
    ...recording,
    messages: messages.map((message, at) =>
      at === first && message.role === "tool"
        ? { ...message, content: `${contentText(message.content)}\n`.repeat(40) }
        : message
    ),
  };
}

interface Project {
  readonly random: () => number;
  readonly files: readonly {
    readonly path: string;
    readonly symbols: readonly string[];
    readonly text: string;
  }[];
}

function generateSession(
  id: string,
  { turns, rounds, pauseMs, random }: (typeof SHAPES)[number] & { readonly random: () => number },
): Recording {
  const project = generateProject(random);
  const messages: (Message & { readonly ts: number })[] = [
    { role: "system", content: "You are a careful coding agent. ".repeat(30), ts: 0 },
  ];
  let ts = 0;
  let calls = 0;
  for (let turn = 0; turn < turns; turn++) {
    ts += turn === 0 ? 0 : pauseMs * (0.5 + random());
    const at = Math.floor(random() * project.files.length);
    // Within a turn the agent stays among a few files, mostly the first one.
    const near = Array.from({ length: 6 }, (_, next) => project.files[(at + next) % project.files.length]!);
    const topic = near[0]!;
    messages.push({
      role: "user",
      content: `Please change ${pick(topic.symbols, random)} in ${topic.path}.`,
      ts,
    });
    for (let round = 0; round < rounds; round++) {
      ts += 4000 + 10_000 * random();
      const step = generateStep({ ...project, near }, round);
      const call = { id: `call-${++calls}`, type: "function" as const, function: step.call };
      messages.push({ role: "assistant", content: step.thought, tool_calls: [call], ts });
      ts += 500;
      messages.push({ role: "tool", tool_call_id: call.id, content: step.result, ts });
    }
    ts += 5000;
    messages.push({ role: "assistant", content: `I changed ${topic.path}; its tests pass.`, ts });
  }
  return readRecording(JSON.stringify({ id, tools: TOOLS, messages }));
}

function generateProject(random: () => number): Project {
  const files = Array.from({ length: 24 }, () => {
    const name = word(random);
    const symbols = Array.from({ length: 30 }, () => word(random) + capitalised(word(random)));
    const text = source(symbols, 40 + Math.floor(random() * 260), random);
    return { path: `src/${word(random)}/${name}.ts`, symbols, text };
  });
  return { random, files };
}

function generateStep({ random, files, near }: Project & { readonly near: Project["files"] }, round: number) {
  const file = near[Math.floor(near.length * random() ** 2)] ?? pick(near, random);
  const symbol = pick(file.symbols, random);
  const kind = round % 4;
  if (kind === 0) {
    return step("read_file", { path: file.path }, file.text);
  }
  if (kind === 1) {
    return step("search", { pattern: symbol, folder: "src" }, listing(near, 10 + random() * 60, random));
  }
  if (kind === 2) {
    const line = `  const ${symbol} = ${pick(file.symbols, random)}();`;
    return step(
      "edit_file",
      { path: file.path, old: line, new: `${line} // changed` },
      `Changed ${file.path}.`,
    );
  }
  const log = listing(files, 5 + random() * 120, random);
  return step("shell", { command: `deno test ${file.path}` }, log);
}

function step(name: string, args: Readonly<Record<string, string>>, result: string) {
  return { thought: `Next: ${name}.`, call: { name, arguments: JSON.stringify(args) }, result };
}

function source(symbols: readonly string[], lines: number, random: () => number): string {
  return Array.from(
    { length: lines },
    (_, at) =>
      `${at + 1}:  const ${pick(symbols, random)} = ${pick(symbols, random)}(${
        Math.floor(random() * 1000)
      });`,
  ).join("\n");
}

function listing(files: Project["files"], lines: number, random: () => number): string {
  return Array.from({ length: Math.ceil(lines) }, () => {
    const file = pick(files, random);
    return `${file.path}:${Math.floor(random() * 300)}: ${pick(file.symbols, random)}`;
  }).join("\n");
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
