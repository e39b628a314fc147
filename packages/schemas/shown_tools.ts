import {
  checkGiven,
  type CountTokens,
  countToolTokens,
  hashPiece,
  type ToolDefinition,
} from "@tare/messages";
import { compactTool } from "./compact_tool.ts";

/**
 * Decides in which form each tool is shown: in full in the first request that offers it, compact from then on.
 * A tool that is added later is shown in full once as well, and so is one whose definition has changed under its old
 * name. Hand `exposed` of one request to the next one.
 *
 * Tools stand at the front of most providers' prefix, so that the first compact request is read anew as a whole.
 *
 * @throws {RangeError} if `minTokens` is negative or not a number.
 */
export function shownTools(
  tools: readonly ToolDefinition[],
  options: {
    /** The full definitions that the model has been shown in earlier requests, by their `hashPiece`. */
    readonly exposed: ReadonlySet<number>;
    /** Counts the tokens of a text. */
    readonly countTokens: CountTokens;
    /** Names of tools that are never compacted. Default: none. */
    readonly alwaysFull?: readonly string[];
    /**
     * Names of the tools that the model has called: no other is compact. Meant for the first request of a turn, where a
     * new task may need a tool whose prose lies far back. Default: any may be compact.
     */
    readonly called?: ReadonlySet<string>;
    /** Sets of tools whose full definitions take fewer tokens than this are left alone. Default: 500. */
    readonly minTokens?: number;
  },
): {
  /** The definitions to send, in the order in which they were handed in. */
  readonly tools: readonly ToolDefinition[];
  /** The full definitions that the model has been shown once this request is sent. */
  readonly exposed: ReadonlySet<number>;
  /** Tokens of all full definitions. */
  readonly tokensBefore: number;
  /** Tokens of the definitions to send. */
  readonly tokensAfter: number;
} {
  checkGiven("shownTools()", { tools, options }, {
    tools: "array",
    options: {
      exposed: { has: "function" },
      countTokens: "counter",
      "alwaysFull?": "array",
      "called?": { has: "function" },
      "minTokens?": "count",
    },
  });
  const { exposed, countTokens, alwaysFull = [], called, minTokens = 500 } = options;
  const tokensBefore = countTools(tools, countTokens);
  const small = tokensBefore < minTokens;
  const shown = tools.map((tool) => {
    const { name } = tool.function;
    const isKnown = exposed.has(hashPiece(tool)) && (called?.has(name) ?? true);
    return small || !isKnown || alwaysFull.includes(name) ? tool : compactTool(tool);
  });
  return {
    tools: shown,
    exposed: new Set([...exposed, ...tools.map(hashPiece)]),
    tokensBefore,
    tokensAfter: countTools(shown, countTokens),
  };
}

function countTools(tools: readonly ToolDefinition[], countTokens: CountTokens): number {
  return tools.reduce((tokens, tool) => tokens + countToolTokens(tool, countTokens), 0);
}
