import { checkGiven, type CountTokens, type ToolDefinition } from "@tare/messages";
import { toolLine } from "./catalogue.ts";

/** The tool by which a model sees definitions that its requests don't hold. */
export const FIND_TOOLS: ToolDefinition = {
  type: "function",
  function: {
    name: "find_tools",
    description:
      "Shows the full definitions of tools that you know by name and one line alone, and finds more by what " +
      "they do. Ask once for all that you will need.",
    parameters: {
      type: "object",
      properties: {
        query: {
          type: "string",
          description: "Names of tools, which are all shown, or words for what is to be done.",
        },
        limit: {
          type: "integer",
          minimum: 1,
          maximum: 10,
          description: "Most tools that words find; 3 if absent.",
        },
      },
      required: ["query"],
      additionalProperties: false,
    },
  },
};

/** How tools are looked for. */
export interface FindToolsOptions {
  /** Counts the tokens of a text. */
  readonly countTokens: CountTokens;
  /** Most tools that are shown in full though the query doesn't name them. Default: 3. */
  readonly limit?: number;
  /** Most tokens of the definitions shown, but for the first. Default: 6,000. */
  readonly maxTokens?: number;
}

/** Tools that are named beside those that are shown in full. */
const ALSO = 5;

/** Least share of the best match's score that is worth showing in full. */
const WORTHY = 1 / 3;

/**
 * The tools that fit a query best, in full: a text for the prompt's end, so that nothing in front of it changes. Tools
 * whose names the query holds are all shown; the others are ranked by its words, rare ones counting more than common
 * ones, and those in names more than those in descriptions.
 */
export function findTools(
  tools: readonly ToolDefinition[],
  query: string,
  options: FindToolsOptions,
): string {
  checkGiven("findTools()", { tools, query, options }, {
    tools: "array",
    query: "string",
    options: { countTokens: "function" },
  });
  const { countTokens, limit = 3, maxTokens = 6_000 } = options;
  const ranked = rankTools(tools, query);
  const best = ranked.find(({ isNamed }) => !isNamed)?.score ?? 0;
  const named = ranked.filter(({ isNamed }) => isNamed);
  const more = ranked.filter(({ isNamed, score }) => !isNamed && score >= WORTHY * best);
  const fitting = named.length > 0 ? named : more.slice(0, limit);
  if (fitting.length === 0) {
    return `None of the ${tools.length} tools fits ${JSON.stringify(query)}. Ask by other words, or by name.`;
  }
  const shown: string[] = [];
  let tokens = 0;
  for (const { tool } of fitting) {
    const text = JSON.stringify(tool.function);
    tokens += countTokens(text);
    if (shown.length > 0 && tokens > maxTokens) break;
    shown.push(text);
  }
  const also = ranked.slice(shown.length, shown.length + ALSO).map(({ tool }) => toolLine(tool, 50));
  return [
    `${shown.length} of ${tools.length} tools. Call one by call_tool, with its name and arguments that fit its parameters:`,
    ...shown,
    ...(also.length > 0 && named.length === 0 ? ["Perhaps also:", ...also] : []),
    ...(shown.length < named.length
      ? [
        `Not shown for want of room: ${
          named.slice(shown.length).map(({ tool }) => tool.function.name).join(", ")
        }`,
      ]
      : []),
  ].join("\n");
}

/** A tool that fits a query, and how well. */
interface Ranked {
  readonly tool: ToolDefinition;
  readonly score: number;
  readonly isNamed: boolean;
}

/** What a word counts for in a tool's name, in its description, and in the names of its arguments. */
const WEIGHTS = { name: 4, description: 1, argument: 1 };

/** The tools that fit a query, the best first. Of equals the one that comes first. */
export function rankTools(tools: readonly ToolDefinition[], query: string): readonly Ranked[] {
  const asked = new Set(wordsOf(query));
  const given = new Set(query.split(/[\s,;"'`]+/));
  const weighed = tools.map((tool) => ({ tool, weights: weightsOf(tool) }));
  const rarity = new Map<string, number>();
  for (const word of asked) {
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

/** What each word of a tool counts for. */
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

/** The words of a text, those of a name too, without the endings that say one or many. */
function wordsOf(text: string): string[] {
  const words = text.replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2").toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.map((word) => word.length > 3 ? word.replace(/(?<!s)s$/, "") : word);
}
