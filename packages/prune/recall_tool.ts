import type { ToolDefinition } from "@tare/messages";

/** The definition of the tool by which a model reads an archived original back; {@linkcode recallOriginal} answers it. */
export const RECALL_TOOL: ToolDefinition = {
  type: "function",
  function: {
    name: "recall",
    description:
      "Reads back the original text behind a line such as `[elided: read_file result, 48213 bytes; recall with ref " +
      "0123456789abcdef]`. Long originals come in pieces, each of which says how to get the next one: ask for a range " +
      "of lines or search them rather than reading everything again.",
    parameters: {
      type: "object",
      properties: {
        ref: { type: "string", description: "The reference in the `[elided: …]` line: 16 hex digits." },
        lines: {
          type: "string",
          description: "Only these lines, counted from 1, both ends included: `120-180`, `120-` or `120`.",
        },
        pattern: {
          type: "string",
          description:
            "Only the lines that match this regular expression, with their numbers. RE2 syntax: no backreferences, " +
            "no look-around; `(?i)` in front ignores case.",
        },
        offset: {
          type: "integer",
          minimum: 0,
          description: "Go on at this character, as an earlier answer that was cut said. Default 0.",
        },
      },
      required: ["ref"],
      additionalProperties: false,
    },
  },
};
