import type { ModelSettings, ToolDefinition } from "@tare/messages";
import { Type } from "typebox";
import { nullable } from "../http/schema.ts";
import { includesTool } from "../turns/session_tools.ts";
import { unsupported, unusable } from "./errors.ts";

interface ModelFields {
  readonly clientTools: readonly ToolDefinition[];
  readonly settings: ModelSettings;
}

export const TOOL_NAME = Type.String({ pattern: "^[a-zA-Z0-9_-]{1,64}$" });

export const TOOL_FIELDS = {
  description: nullable(Type.String()),
  parameters: nullable(Type.Object({})),
  strict: nullable(Type.Boolean()),
};

/** Schema of `tool_choice`, which {@linkcode readToolFields} checks further. */
export const TOOL_CHOICE = Type.Unsafe<string | Readonly<Record<string, unknown>> | null>({
  type: ["string", "object", "null"],
});

/** Settings with the same name in both protocols. */
export const SAMPLING = {
  temperature: nullable(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
};

/** A tool of a request; `spec` is the definition of a function. */
export interface ClientToolFields {
  readonly type: string;
  readonly spec?: {
    readonly name: string;
    readonly description?: string | null;
    readonly parameters?: Readonly<Record<string, unknown>> | null;
    readonly strict?: boolean | null;
  } | undefined;
}

/** The fields that {@linkcode readToolFields} reads; a setting of `null` counts as absent. */
export interface ToolFields {
  readonly tools: readonly ClientToolFields[];
  /** `auto`, `none`, `required` or a function's name; others are refused. */
  readonly toolChoice: string | { readonly name: string } | undefined;
  readonly settings: { readonly [Name in keyof ModelSettings]: ModelSettings[Name] | null | undefined };
}

/**
 * Reads the client's tools and settings.
 * @param ownNames Names of the agent's own tools.
 * @throws {ApiError} 400 that names the unsupported parameter.
 */
export function readToolFields(
  { tools, toolChoice, settings }: ToolFields,
  ownNames: readonly string[],
): ModelFields {
  const clientTools = tools.map((tool, index) => readTool(tool, { place: `tools[${index}]`, ownNames }));
  const names = clientTools.map((tool) => tool.function.name);
  const twice = names.findIndex((name, index) => names.indexOf(name) < index);
  if (twice >= 0) throw unusable(`tools[${twice}]`, `two tools are named ${JSON.stringify(names[twice])}`);
  const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value != null));
  switch (toolChoice) {
    case undefined:
    case "auto":
      return { clientTools, settings: given };
    case "none":
      return { clientTools: [], settings: given };
    case "required":
      if (names.length === 0) throw unusable("tool_choice", "there are no tools to call");
      return { clientTools, settings: { ...given, tool_choice: toolChoice } };
  }
  const name = typeof toolChoice === "string" ? undefined : toolChoice.name;
  if (name === undefined) {
    throw unsupported("tool_choice", "it must be auto, none, required or one function of tools");
  }
  if (!names.includes(name)) throw unusable("tool_choice", `tools has no function ${JSON.stringify(name)}`);
  return { clientTools, settings: { ...given, tool_choice: { type: "function", function: { name } } } };
}

function readTool(
  { type, spec }: ClientToolFields,
  { place, ownNames }: { readonly place: string; readonly ownNames: readonly string[] },
): ToolDefinition {
  if (type !== "function") {
    throw unsupported(place, `it is of type ${type}, and the agent calls only functions of its clients`);
  }
  if (!spec) throw unusable(place, "its function is missing");
  const { name, description, parameters, strict } = spec;
  if (includesTool(ownNames, name)) {
    throw unusable(place, `the agent has its own tool ${name}; rename yours`);
  }
  return {
    type,
    function: {
      name,
      ...(description != null && { description }),
      ...(parameters && { parameters }),
      ...(strict != null && { strict }),
    },
  };
}
