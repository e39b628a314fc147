import {
  type CountTokens,
  estimateTokens,
  type Message,
  type ResolvedCall,
  type Tool,
  type ToolDefinition,
} from "@tare/messages";
import {
  CALL_TOOL_NAME,
  checkGiven,
  countMessageTokens,
  countToolTokens,
  describeCall,
  hashPiece,
  sliceText,
} from "@tare/messages/internal";

/** Tool that calls another one. */
export const CALL_TOOL: ToolDefinition = {
  type: "function",
  function: {
    name: CALL_TOOL_NAME,
    description:
      "Calls a tool that you know only by name and one line. Read its full definition with find_tools first.",
    parameters: {
      type: "object",
      properties: {
        name: { type: "string", description: "The tool's name." },
        arguments: { type: "object", description: "Arguments, as in its definition." },
      },
      required: ["name"],
      additionalProperties: false,
    },
  },
};

/** Options of {@linkcode standIns}. */
export interface StandInsOptions {
  /** Token counter. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Returns the function that validates a tool's arguments: `argumentsParser` of `@tare/loop/arguments`. */
  readonly parser: (tool: ToolDefinition) => (argumentsText: string) =>
    | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
    | { readonly ok: false; readonly problem: string };
  /** Tools with full definitions in the request, which may be called this way too. Default: none. */
  readonly listed?: readonly Tool[];
}

/** The tools `find_tools` and `call_tool`. */
export interface ToolPair {
  readonly find: Tool;
  readonly call: Tool;
}

/**
 * Returns `find_tools` and `call_tool` for these tools, so that requests need no other definitions. Arguments
 * are validated against the full definition, which the error for an invalid call contains.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import type { Tool } from "@tare/messages";
 * import { standIns } from "@tare/schemas";
 *
 * const clock: Tool = { definition: { type: "function", function: { name: "clock" } }, run: () => "noon" };
 * const { call } = standIns([clock], { parser: () => (text) => ({ ok: true, value: JSON.parse(text) }) });
 * const context = { signal: new AbortController().signal, progress: () => {} };
 * assertEquals(await call.run({ name: "clock", arguments: {} }, context), "noon");
 * ```
 */
export function standIns(tools: readonly Tool[], options: StandInsOptions): ToolPair {
  checkGiven("standIns()", { tools, options }, {
    tools: "array",
    options: { "countTokens?": "counter", parser: "function", "listed?": "array" },
  });
  const { countTokens = estimateTokens, parser, listed = [] } = options;
  const definitions = tools.map(({ definition }) => definition);
  const named = new Map([...listed, ...tools].map((tool) => [tool.definition.function.name, tool]));
  const resolve = (args: Readonly<Record<string, unknown>>): ResolvedCall | { readonly problem: string } => {
    const { name } = args;
    if (typeof name !== "string" || name === "") {
      return {
        problem: 'Cannot call a tool: give its name, such as {"name": "read_file", "arguments": {…}}.',
      };
    }
    const tool = named.get(name);
    if (!tool) return { problem: unknownTool(name, definitions) };
    try {
      const parsed = parser(tool.definition)(JSON.stringify(args.arguments ?? {}));
      return parsed.ok ? tool.resolve?.(parsed.value) ?? { tool, args: parsed.value } : parsed;
    } catch (error) {
      // An invalid definition must not affect other tools.
      return { problem: error instanceof Error ? error.message : String(error) };
    }
  };
  return {
    find: {
      definition: FIND_TOOLS,
      stance: "rederivable",
      run: ({ query, limit }) =>
        findTools(definitions, String(query), {
          countTokens,
          ...(typeof limit === "number" && { limit }),
        }) ?? `None of the ${tools.length} tools fits ${JSON.stringify(query)}. Use other words, or a name.`,
    },
    call: {
      definition: CALL_TOOL,
      resolve,
      run(args, context) {
        const meant = resolve(args);
        return "problem" in meant
          ? { content: meant.problem, error: true }
          : meant.tool.run(meant.args, context);
      },
    },
  };
}

/**
 * Returns the tokens that deferral removes from a prompt with these messages: those of the full definitions without
 * the pair, lookups with their results, and lists. `isDetour` if the prompt only follows a lookup.
 */
export function measureDeferral(
  messages: readonly Message[],
  { fullTokens, pair = [FIND_TOOLS, CALL_TOOL], countTokens }: {
    readonly fullTokens: number;
    readonly pair?: readonly ToolDefinition[];
    readonly countTokens: CountTokens;
  },
): { readonly tokens: number; readonly isDetour: boolean } {
  let tokens = pair.reduce((left, tool) => left - countToolTokens(tool, countTokens), fullTokens);
  let lookups = new Set<string>();
  let isDetour = false;
  for (const message of messages) {
    const isResult = message.role === "tool";
    if (message.role === "assistant") {
      const calls = message.tool_calls ?? [];
      const finds = calls.filter((call) => describeCall(call).name === FIND_TOOLS.function.name);
      lookups = new Set(finds.map(({ id }) => id));
      isDetour = finds.length > 0 && finds.length === calls.length;
      if (isDetour) tokens -= countMessageTokens(message, countTokens);
    } else if (isResult ? lookups.has(message.tool_call_id) : Catalogue.announces(message)) {
      tokens -= countMessageTokens(message, countTokens);
    }
    if (!isResult && message.role !== "assistant") isDetour = false;
  }
  return { tokens, isDetour };
}

const MAX_NAME = 200;

function unknownTool(name: string, tools: readonly ToolDefinition[]): string {
  const printable = name.length > MAX_NAME ? `${sliceText(name, 0, MAX_NAME)}…` : name;
  const close = rankTools(tools, printable).slice(0, 3).map(({ tool }) => tool.function.name);
  return `Cannot call ${JSON.stringify(printable)}: there is no such tool. ` +
    (close.length > 0 ? `Did you mean ${close.join(", ")}?` : "Look for it with find_tools.");
}

/** Tool that returns definitions. */
export const FIND_TOOLS: ToolDefinition = {
  type: "function",
  function: {
    name: "find_tools",
    description:
      "Returns the full definitions of tools, by name or by what they do. Request all that you need at once.",
    parameters: {
      type: "object",
      properties: {
        query: {
          type: "string",
          description: "Tool names, or words for the task.",
        },
        limit: {
          type: "integer",
          minimum: 1,
          maximum: 10,
          description: "Maximum number of tools found by words. Default: 3.",
        },
      },
      required: ["query"],
      additionalProperties: false,
    },
  },
};

const MAX_SHOWN_TOKENS = 6_000;

const ALSO = 5;

const WORTHY = 1 / 3;

/**
 * Returns the full definitions of the tools that match a query best, at the end of the prompt. Tools that the
 * query names are all returned; the others are ranked by its words: rare words weigh more than common ones,
 * names more than descriptions. Returns `undefined` if none matches.
 */
export function findTools(
  tools: readonly ToolDefinition[],
  query: string,
  { countTokens, limit = 3 }: { readonly countTokens: CountTokens; readonly limit?: number },
): string | undefined {
  const ranked = rankTools(tools, query);
  const best = ranked.find(({ isNamed }) => !isNamed)?.score ?? 0;
  const named = ranked.filter(({ isNamed }) => isNamed);
  const more = ranked.filter(({ isNamed, score }) => !isNamed && score >= WORTHY * best);
  const fitting = named.length > 0 ? named : more.slice(0, limit);
  if (fitting.length === 0) return undefined;
  const definitions: string[] = [];
  let tokens = 0;
  for (const { tool } of fitting) {
    const text = JSON.stringify(tool.function);
    tokens += countTokens(text);
    if (definitions.length > 0 && tokens > MAX_SHOWN_TOKENS) break;
    definitions.push(text);
  }
  const also = ranked.slice(definitions.length, definitions.length + ALSO).map(({ tool }) =>
    toolLine(tool, 50)
  );
  return [
    `${definitions.length} of ${tools.length} tools. Call one by call_tool, with its name and arguments that fit its parameters:`,
    ...definitions,
    ...(also.length > 0 && named.length === 0 ? ["Perhaps also:", ...also] : []),
    ...(definitions.length < named.length
      ? [
        `Omitted for length: ${
          named.slice(definitions.length).map(({ tool }) => tool.function.name).join(", ")
        }`,
      ]
      : []),
  ].join("\n");
}

interface Ranked {
  readonly tool: ToolDefinition;
  readonly score: number;
  readonly isNamed: boolean;
}

const WEIGHTS = { name: 4, description: 1, argument: 1 };

function rankTools(tools: readonly ToolDefinition[], query: string): readonly Ranked[] {
  const requested = new Set(wordsOf(query));
  const given = new Set(query.split(/[\s,;"'`]+/));
  const weighed = tools.map((tool) => ({ tool, weights: weightsOf(tool) }));
  const rarity = new Map<string, number>();
  for (const word of requested) {
    const having = weighed.filter(({ weights }) => weights.has(word)).length;
    if (having > 0) rarity.set(word, Math.log(1 + tools.length / having));
  }
  return weighed.map(({ tool, weights }): Ranked => ({
    tool,
    isNamed: given.has(tool.function.name),
    score: [...rarity].reduce((sum, [word, rare]) => sum + rare * (weights.get(word) ?? 0), 0),
  }))
    .filter(({ score, isNamed }) => isNamed || score > 0)
    .sort((a, b) => Number(b.isNamed) - Number(a.isNamed) || b.score - a.score);
}

const known = new WeakMap<ToolDefinition, ReadonlyMap<string, number>>();

function weightsOf(tool: ToolDefinition): ReadonlyMap<string, number> {
  let weights = known.get(tool);
  if (!weights) known.set(tool, weights = weigh(tool));
  return weights;
}

function weigh({ function: { name, description = "", parameters } }: ToolDefinition): Map<string, number> {
  const weights = new Map<string, number>();
  const add = (text: string, weight: number) => {
    for (const word of new Set(wordsOf(text))) weights.set(word, (weights.get(word) ?? 0) + weight);
  };
  add(name, WEIGHTS.name);
  add(description, WEIGHTS.description);
  add(Object.keys(parameters?.properties ?? {}).join(" "), WEIGHTS.argument);
  return weights;
}

function wordsOf(text: string): string[] {
  const words = text.replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2").toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.map((word) => word.length > 3 ? word.replace(/(?<!s)s$/, "") : word);
}

const MAX_TOKENS = 2_400;

/** Maximum number of characters after a tool's name, by available space. */
const LINE_CHARS = [100, 50, 0];

const BESIDES = "In addition to your tools, there are";
const CHANGED = "The tools of find_tools and call_tool have changed.";

/**
 * List of tools without definitions in the request: names with one line each. Deterministic. The longer the
 * list, the shorter the lines; names are complete as long as they fit in 2,400 tokens.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { Catalogue } from "@tare/schemas";
 *
 * const tool = (name: string) => ({ type: "function", function: { name } }) as const;
 * const before = new Catalogue([tool("read")]);
 * assertEquals(new Catalogue([tool("read")]).changes(before.announced), undefined);
 * assertEquals(new Catalogue([]).changes(before.announced)?.split("\n").at(-1), "Removed: read");
 * ```
 */
export class Catalogue {
  /** State of these tools for {@linkcode Catalogue.changes}. Plain data. */
  readonly announced: Readonly<Record<string, number>>;
  readonly #tools: readonly ToolDefinition[];
  readonly #countTokens: CountTokens;

  constructor(
    tools: readonly ToolDefinition[],
    options: { readonly countTokens?: CountTokens | undefined } = {},
  ) {
    checkGiven("Catalogue()", { tools, options }, {
      tools: "array",
      options: { "countTokens?": "counter" },
    });
    this.#tools = tools;
    this.#countTokens = options.countTokens ?? estimateTokens;
    this.announced = Object.fromEntries(tools.map((tool) => [tool.function.name, hashPiece(tool)]));
  }

  /** Returns whether a message contains {@linkcode Catalogue.text} or {@linkcode Catalogue.changes}. */
  static announces({ role, content }: Message): boolean {
    const isAnnounced = typeof content === "string" &&
      (content.startsWith(BESIDES) || content.startsWith(CHANGED));
    return role === "system" && isAnnounced;
  }

  /** Returns the list for the beginning of the prompt; empty without tools. */
  text(): string {
    if (this.#tools.length === 0) return "";
    return [
      `${BESIDES} ${this.#tools.length} more, listed by name and purpose. ` +
      "find_tools returns their definitions; call_tool calls them.",
      ...listed(this.#tools, this.#countTokens),
    ].join("\n");
  }

  /** Returns the changes since `announced`, for the end of the prompt; `undefined` if there are none. */
  changes(announced: Catalogue["announced"]): string | undefined {
    const wasAnnounced = ({ function: { name } }: ToolDefinition) => Object.hasOwn(announced, name);
    const added = this.#tools.filter((tool) => !wasAnnounced(tool));
    const changed = this.#tools.filter((tool) =>
      wasAnnounced(tool) && announced[tool.function.name] !== this.announced[tool.function.name]
    );
    const gone = Object.keys(announced).filter((name) => !Object.hasOwn(this.announced, name));
    if (added.length + changed.length + gone.length === 0) return undefined;
    return [
      CHANGED,
      ...(added.length > 0 ? ["New:", ...listed(added, this.#countTokens)] : []),
      ...(changed.length > 0
        ? ["Changed definitions, see find_tools:", ...listed(changed, this.#countTokens)]
        : []),
      ...(gone.length > 0 ? [`Removed: ${gone.join(", ")}`] : []),
    ].join("\n");
  }
}

function listed(tools: readonly ToolDefinition[], countTokens: CountTokens): string[] {
  for (const chars of LINE_CHARS) {
    const lines = chars > 0 ? tools.map((tool) => toolLine(tool, chars)) : [names(tools)];
    if (countTokens(lines.join("\n")) <= MAX_TOKENS) return lines;
  }
  const share = MAX_TOKENS / countTokens(names(tools));
  const listedCount = Math.max(1, Math.floor(share * tools.length));
  return [
    `${names(tools.slice(0, listedCount))}, and ${
      tools.length - listedCount
    } more: search for them with find_tools`,
  ];
}

function names(tools: readonly ToolDefinition[]): string {
  return tools.map((tool) => tool.function.name).join(", ");
}

/** Returns a tool's name and the first sentence of its description, in one line of limited length. */
function toolLine({ function: { name, description = "" } }: ToolDefinition, maxChars: number): string {
  const plain = description.replaceAll(/[\s\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim();
  const sentence = /^.*?[.!?](?= |$)/u.exec(plain)?.[0] ?? plain;
  const text = sentence.length <= maxChars ? sentence : `${sliceText(sentence, 0, maxChars - 1).trimEnd()}…`;
  return text === "" ? name : `${name}: ${text}`;
}
