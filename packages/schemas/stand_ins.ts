import {
  CALL_TOOL_NAME,
  checkGiven,
  type CountTokens,
  type ResolvedCall,
  type Tool,
  type ToolDefinition,
} from "@tare/messages";
import type { ParsedArguments } from "@tare/messages/arguments";
import { FIND_TOOLS, findTools, rankTools } from "./find_tools.ts";

/** The tool by which a model calls those whose definitions its requests don't hold. */
export const CALL_TOOL: ToolDefinition = {
  type: "function",
  function: {
    name: CALL_TOOL_NAME,
    description:
      "Calls a tool that you know by name and one line alone. Unless you have seen its full definition, " +
      "look at that with find_tools first.",
    parameters: {
      type: "object",
      properties: {
        name: { type: "string", description: "The tool's name." },
        arguments: { type: "object", description: "Its arguments, as its own definition has them." },
      },
      required: ["name"],
      additionalProperties: false,
    },
  },
};

/** What the tools that stand for others are made of. */
export interface StandInOptions {
  /** Counts the tokens of a text. */
  readonly countTokens: CountTokens;
  /** Makes the function that validates a tool's arguments: `argumentsParser` of `@tare/messages/arguments`. */
  readonly parser: (tool: ToolDefinition) => (argumentsText: string) => ParsedArguments;
  /** Tools that the model is given in full, and may call this way too. Default: none. */
  readonly listed?: readonly Tool[];
}

/**
 * `find_tools` and `call_tool` for these tools: a request that holds them needs no other definition. A call's arguments
 * are validated against the full definition of the tool that is meant; the model is told what is wrong with them, and
 * that definition with it.
 */
export function standIns(
  tools: readonly Tool[],
  options: StandInOptions,
): { readonly find: Tool; readonly call: Tool } {
  checkGiven("standIns()", { tools, options }, {
    tools: "array",
    options: { countTokens: "function", parser: "function" },
  });
  const { countTokens, parser, listed = [] } = options;
  const definitions = tools.map(({ definition }) => definition);
  const named = new Map([...listed, ...tools].map((tool) => [tool.definition.function.name, tool]));
  const resolve = (args: Readonly<Record<string, unknown>>): ResolvedCall | { readonly problem: string } => {
    const name = String(args.name);
    const tool = named.get(name);
    if (!tool) return { problem: unknownTool(name, definitions) };
    try {
      const parsed = parser(tool.definition)(JSON.stringify(args.arguments ?? {}));
      return parsed.ok ? tool.resolve?.(parsed.value) ?? { tool, args: parsed.value } : parsed;
    } catch (error) {
      // A definition that is no JSON Schema: whoever made the tool is to blame, and others still work.
      return { problem: (error as Error).message };
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
        }),
    },
    call: {
      definition: CALL_TOOL,
      resolve,
      // For loops that don't ask what a call is for.
      run(args, context) {
        const meant = resolve(args);
        return "problem" in meant
          ? { content: meant.problem, error: true }
          : meant.tool.run(meant.args, context);
      },
    },
  };
}

/** Most characters of a name that is repeated. */
const MAX_NAME = 200;

function unknownTool(name: string, tools: readonly ToolDefinition[]): string {
  const shown = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
  const close = rankTools(tools, shown).slice(0, 3).map(({ tool }) => tool.function.name);
  return `Cannot call ${JSON.stringify(shown)}: there is no such tool. ` +
    (close.length > 0 ? `Did you mean ${close.join(", ")}?` : "Look for it with find_tools.");
}
