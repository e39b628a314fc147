import type { ToolDefinition } from "@tare/messages";
import { type SimulatedReply, toolCall } from "@tare/simulator";
import { SYLLABLES } from "../words.ts";

/** Tool for every client: its description, and a function from arguments to result. */
export interface SessionTool {
  readonly name: string;
  readonly description: string;
  /** Names of its arguments; all are required strings. */
  readonly args: readonly string[];
  readonly run: (args: Readonly<Record<string, string>>) => string;
}

export const SYSTEM: string = "You review a code base with tools and answer in one sentence. ".repeat(8)
  .trim();
export const QUESTION: string = "Why do nightly builds fail since the cache was changed?";

export const ANSWER: string =
  "They fail because src/cache_3.ts drops entries that src/build_3.ts still reads.";

/** Returns lines of generated source with about this many tokens, always the same for a seed. */
export function sourceText(seed: string, tokens: number): string {
  let state = 0;
  for (let i = 0; i < seed.length; i++) state = (Math.imul(state, 31) + seed.charCodeAt(i)) | 0;
  const next = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >>> 8) % below;
  };
  const word = () => Array.from({ length: 3 }, () => SYLLABLES[next(SYLLABLES.length)]).join("");
  const lines: string[] = [];
  // A line is 20 to 24 tokens of o200k_base.
  for (let line = 1; line * 21 < tokens; line++) {
    lines.push(`${line}:  const ${word()} = ${word()}(${next(1000)});`);
  }
  return lines.join("\n");
}

function sizeOf(text: string): number {
  let sum = 0;
  for (let i = 0; i < text.length; i++) sum = (sum * 7 + text.charCodeAt(i)) % 5000;
  return 1000 + sum;
}

function result(name: string) {
  return (args: Readonly<Record<string, string>>) => {
    const question = `${name} ${Object.values(args).join(" ")}`;
    return sourceText(question, sizeOf(question));
  };
}

export const TOOLS: readonly SessionTool[] = [
  {
    name: "read_file",
    description: "Reads a file of the project and returns its text with line numbers.",
    args: ["path"],
    run: result("read_file"),
  },
  {
    name: "search",
    description: "Searches all files of the project for a regular expression.",
    args: ["pattern", "folder"],
    run: result("search"),
  },
  {
    name: "shell",
    description: "Runs a shell command and returns what it prints.",
    args: ["command"],
    run: result("shell"),
  },
];

export function parametersOf({ args }: Pick<SessionTool, "args">): {
  type: "object";
  properties: Record<string, { type: "string" }>;
  required: string[];
  additionalProperties: false;
} {
  return {
    type: "object",
    properties: Object.fromEntries(args.map((arg) => [arg, { type: "string" as const }])),
    required: [...args],
    additionalProperties: false,
  };
}

export const DEFINITIONS: readonly ToolDefinition[] = TOOLS.map((tool) => ({
  type: "function",
  function: { name: tool.name, description: tool.description, parameters: parametersOf(tool) },
}));

export function runTool(name: string, args: string): string {
  const tool = TOOLS.find((tool) => tool.name === name);
  if (!tool) throw new Error(`the model was not offered ${name}`);
  return tool.run(JSON.parse(args));
}

/** Rounds of the session; every third one has two parallel calls: 40 calls in all. */
const ROUNDS = 30;

/**
 * Replies of the whole session: 40 calls in 30 rounds, and the answer. Results have together about 130,000
 * tokens.
 */
export const SCRIPT: readonly SimulatedReply[] = [
  ...Array.from({ length: ROUNDS }, (_, round): SimulatedReply => {
    const id = (at: number) => ({ id: `call_${round}_${at}` });
    const calls = round % 3 === 0
      ? [
        toolCall("read_file", { path: `src/cache_${round}.ts` }, id(0)),
        toolCall("read_file", { path: `src/build_${round}.ts` }, id(1)),
      ]
      : round % 3 === 1
      ? [toolCall("search", { pattern: `evict_${round}`, folder: "src" }, id(0))]
      : [toolCall("shell", { command: `deno test src/cache_${round - 2}.ts` }, id(0))];
    return { content: round % 4 === 0 ? `Step ${round}: looking further.` : null, tool_calls: calls };
  }),
  { content: ANSWER },
];

export const CALLS: readonly string[] = SCRIPT.flatMap(({ tool_calls = [] }) =>
  tool_calls.map((call) => `${call.function.name} ${call.function.arguments}`)
);
