import type { ToolDefinition } from "@tare/messages";
import { ANY_PLACEHOLDER } from "./placeholder.ts";

/** JSON Schema of what a model asks for, as exact as frameworks want it that take tools with their types. */
export type RecallParameters = {
  type: "object";
  properties: Record<
    "ref" | "lines" | "find" | "offset",
    { type: "string" | "integer"; description: string; minimum?: number }
  >;
  required: string[];
  additionalProperties: false;
};

/** The definition of the tool by which a model reads an archived original back; {@linkcode recallOriginal} answers it. */
export const RECALL_TOOL: ToolDefinition & {
  readonly function: {
    readonly description: string;
    readonly parameters: RecallParameters;
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
        ref: { type: "string", description: "16 hex digits; without it find searches all that ever left" },
        lines: { type: "string", description: "`120-180`, `120-` or `120`, from 1" },
        find: { type: "string", description: "plain text in a line, in any case" },
        offset: { type: "integer", minimum: 0, description: "start at this character" },
      },
      required: [],
      additionalProperties: false,
    },
  },
};
