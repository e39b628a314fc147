import { type TUnsafe, Type } from "typebox";
import { checker, closed } from "../http/schema.ts";

const TEXTS = Type.Array(Type.String({ minLength: 1, maxLength: 1_000 }), { minItems: 1, maxItems: 1_000 });

const RULE = closed({
  tool: Type.String({
    minLength: 1,
    maxLength: 1_000,
    description: "Name of the tool that would run; `*` stands for any characters.",
  }),
  paths: Type.Optional(Type.Unsafe<readonly string[]>({
    ...TEXTS,
    description:
      "Patterns, of which the argument must fit one: from the workspace, or absolute; `*` and `?` stand for characters of " +
      "a name, `**` for any folders. Links are not followed.",
  })),
  prefixes: Type.Optional(Type.Unsafe<readonly string[]>({
    ...TEXTS,
    description:
      "Beginnings of commands, word by word, of which the argument must have one. A command that holds an operator of the " +
      "shell, quoted or not, has none; where a rule asks or denies, it is asked for.",
  })),
  argument: Type.Optional(Type.String({
    maxLength: 1_000,
    description: "Name of the argument that is looked at. Default: `path` for paths, `command` for prefixes.",
  })),
  decision: Type.Enum(["allow", "ask", "deny"]),
}, "ApprovalRule");
/** One rule of what the model's calls may do. Of a list, the first that fits a call decides. */
export interface ApprovalRule {
  /** Name of the tool that would run; `*` stands for any characters. */
  readonly tool: string;
  /** Patterns, of which the argument must fit one, such as `src/**`: from the workspace, or absolute. */
  readonly paths?: readonly string[];
  /** Beginnings of commands, word by word, of which the argument must have one. */
  readonly prefixes?: readonly string[];
  /** Name of the argument that is looked at. Default: `path` for paths, `command` for prefixes. */
  readonly argument?: string;
  readonly decision: "allow" | "ask" | "deny";
}

/** A list of rules. */
export const APPROVAL_RULES: TUnsafe<readonly ApprovalRule[]> = Type.Unsafe(
  Type.Array(
    // An argument that nothing is looked for in would allow whatever it holds.
    Type.Unsafe<ApprovalRule>({
      ...RULE,
      anyOf: [{ required: ["paths"] }, { required: ["prefixes"] }, { properties: { argument: { not: {} } } }],
    }),
    { maxItems: 1_000 },
  ),
);

/** What is wrong with a list of rules, in one line; nothing if it is right. */
export function faultOfRules(value: unknown): string | undefined {
  return (checkRules ??= checker(closed({ rules: APPROVAL_RULES }), "the file"))({ rules: value });
}

let checkRules: ReturnType<typeof checker> | undefined;

/** Rules by which everything may run: for those who know what their tools do, and say so. */
export const ALLOW_EVERYTHING: readonly ApprovalRule[] = [{ tool: "*", decision: "allow" }];
