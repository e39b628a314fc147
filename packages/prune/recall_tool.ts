import type { CountTokens, Message, ToolDefinition } from "@tare/messages";
import { ANY_PLACEHOLDER } from "./placeholder.ts";

/**
 * Definition of the recall tool, answered by {@linkcode recallOriginal}.
 */
export const RECALL_TOOL: ToolDefinition & {
  readonly function: {
    readonly description: string;
    readonly parameters: {
      type: "object";
      properties: Record<
        "ref" | "lines" | "find" | "offset",
        { type: "string" | "integer"; description: string; minimum?: number }
      >;
      required: string[];
      additionalProperties: false;
    };
  };
} = {
  type: "function",
  function: {
    name: "recall",
    description:
      `Returns content evicted from this conversation: a line \`${ANY_PLACEHOLDER}\` contains its ref. ` +
      "For long texts pass lines or find; each part states how to get the next.",
    parameters: {
      type: "object",
      properties: {
        ref: { type: "string", description: "16 hex digits; without it, find searches everything evicted" },
        lines: { type: "string", description: "`120-180`, `120-` or `120`, from 1" },
        find: { type: "string", description: "plain text in a line, in any case" },
        offset: { type: "integer", minimum: 0, description: "start at this character" },
      },
      required: [],
      additionalProperties: false,
    },
  },
};

/** Arguments of a recall. */
export interface RecallRequest {
  /** Archive reference of the original. Default: `find` searches everything evicted. */
  readonly ref?: string;
  /** Range of lines, from 1, inclusive: `120-180`, `120-` or `120`. Default: all. */
  readonly lines?: string;
  /** Text that lines must contain, ignoring case; at most 200 characters. Default: all lines. */
  readonly find?: string;
  /** First character (UTF-16 code unit) of the original. Default: 0. */
  readonly offset?: number;
}

/** Options of {@linkcode recallOriginal}. */
export interface RecallOptions {
  /** Token counter. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens;
  /**
   * Maximum length of an answer, in tokens; at least 200. Default: 7,000, below the limit of
   * `truncateResults` (8,000), so that an answer isn't truncated again.
   */
  readonly limitTokens?: number;
  /** Returns the visible messages; without a reference, the originals of their placeholders are searched. */
  readonly visible?: (() => readonly Message[]) | undefined;
  /** Whether the model accepts images. Default: originals with images can't be recalled. */
  readonly supportsImages?: boolean;
}

/** Answer to a recall. */
export interface RecallResult {
  readonly content: string;
  /** True if the request failed; `content` states how to correct it. */
  readonly error: boolean;
  /** Images of the original, as data URLs. Absent: none. */
  readonly images?: readonly string[];
}
