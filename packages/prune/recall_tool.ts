import type { CountTokens, Message, ToolDefinition } from "@tare/messages";
import { ANY_PLACEHOLDER } from "./placeholder.ts";

/** The definition of the tool by which a model reads an archived original back; {@linkcode recallOriginal} answers it. */
export const RECALL_TOOL: ToolDefinition & {
  readonly function: {
    readonly description: string;
    /** JSON Schema of the arguments, as exact as frameworks want it that take tools with their types. */
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
    description: `Reads back what left this conversation: a line \`${ANY_PLACEHOLDER}\` says its ref. ` +
      "Of long texts ask for lines, or find some; each piece says how to get the next.",
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

/** What a recall asks for. */
export interface RecallRequest {
  /** Archive reference of the original. Default: `find` searches everything that left. */
  readonly ref?: string;
  /** Range of lines, counted from 1, both ends included: `120-180`, `120-` or `120`. Default: all. */
  readonly lines?: string;
  /** Only lines that contain this text, in any case; at most 200 characters of one line. Default: all. */
  readonly find?: string;
  /** First character (UTF-16 code unit) of the original. Default 0. */
  readonly offset?: number;
}

/** Options of {@linkcode recallOriginal}. */
export interface RecallOptions {
  /** Default `estimateTokens`. */
  readonly countTokens?: CountTokens;
  /**
   * Longest answer, in tokens; at least 200. Default 7,000: below the limit of `truncateResults` (8,000), so that an
   * answer isn't cut a second time.
   */
  readonly limitTokens?: number;
  /** Returns the messages that the model sees: what their placeholders stand for is searched if no reference is given. */
  readonly shown?: (() => readonly Message[]) | undefined;
  /** Whether images can be shown. Default: an original that has some can't be recalled. */
  readonly seesPictures?: boolean;
}

/** The answer to a recall. */
export interface RecallResult {
  /** Text of the tool result. */
  readonly content: string;
  /** True if the request could not be answered; `content` says what would be right. */
  readonly error: boolean;
  /** Images of the original, each as a data URL. Absent: it has none. */
  readonly pictures?: readonly string[];
}
