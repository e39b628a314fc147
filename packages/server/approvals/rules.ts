import type { AskedCall, Judge } from "@tare/loop";
import type { ResolvedCall } from "@tare/messages";
import { relative, resolve, sep } from "node:path";
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

/** What calls are judged by. */
interface JudgeOptions {
  /** Lists of rules; where two have a rule that fits, the stricter wins. */
  readonly lists: readonly (readonly ApprovalRule[])[];
  /** Calls to which somebody said yes for ever. They are a yes to nothing that is denied. */
  readonly always: readonly AskedCall[];
  /** The folder from which paths count. */
  readonly workspace: string;
  /** Names of tools that need not be asked for, though they don't only read. Default: none. */
  readonly harmless?: readonly string[];
}

type Decision = ApprovalRule["decision"];

const STRICTEST_FIRST: readonly Decision[] = ["deny", "ask", "allow"];

/** Why a call doesn't run that a rule denies, for the model. */
const FORBIDDEN = "a rule forbids it. Find another way, or say that it can't be done.";

/** Makes a judge by rules. Where none fits, what only reads or is harmless may run; all else has to be asked for. */
export function judgeBy({ lists, always, workspace, harmless = [] }: JudgeOptions): Judge {
  return (call) => {
    const found = lists.map((rules) => decisionBy(rules, call, workspace));
    const { stance, definition } = call.tool;
    const isHarmless = stance === "rederivable" || harmless.includes(definition.function.name);
    const usual: Decision = isHarmless ? "allow" : "ask";
    const decision = STRICTEST_FIRST.find((one) => found.includes(one)) ?? usual;
    if (decision === "deny") return { decision, reason: FORBIDDEN };
    return { decision: decision === "ask" && always.some((one) => isAlike(one, call)) ? "allow" : decision };
  };
}

/** The same judge where everything may run that would have to be asked for. */
export function allowingAsked(judge: Judge): Judge {
  return (call) => {
    const judgement = judge(call);
    return judgement.decision === "ask" ? { decision: "allow" } : judgement;
  };
}

/** What the first rule that fits says. */
function decisionBy(
  rules: readonly ApprovalRule[],
  { tool, args }: ResolvedCall,
  workspace: string,
): Decision | undefined {
  for (const { tool: pattern, paths, prefixes, argument, decision } of rules) {
    if (!fitsName(pattern, tool.definition.function.name)) continue;
    const isStrict = decision !== "allow";
    const given = (usual: string) => textsOf(args[argument ?? usual]);
    // Of several texts, a yes must hold for each, and a no for one.
    const fits = (texts: readonly string[], fit: (text: string) => boolean) =>
      texts.length > 0 && (isStrict ? texts.some(fit) : texts.every(fit));
    const fitsOne = (path: string) => paths?.some((one) => fitsPath(one, path, { workspace, isStrict }));
    if (paths && !fits(given("path"), (path) => fitsOne(path) ?? false)) continue;
    if (!prefixes) return decision;
    const commands = given("command");
    if (fits(commands, (command) => prefixes.some((prefix) => beginsWith(command, prefix)))) return decision;
    // What such a command begins, nobody can tell by its first words.
    if (isStrict && commands.some(holdsOperator)) return "ask";
  }
  return undefined;
}

function textsOf(value: unknown): readonly string[] {
  const all: readonly unknown[] = Array.isArray(value) ? value : [value];
  return all.every((one) => typeof one === "string") ? all : [];
}

/** All that lets `sh` do more than one plain command, and NUL. Quotes don't count: who reads them right is `sh` alone. */
const OPERATOR = /[;&|<>`()\n\r\0]/;

function holdsOperator(command: string): boolean {
  return OPERATOR.test(command);
}

/** Whether a command is one plain command that begins with these words. */
function beginsWith(command: string, prefix: string): boolean {
  if (holdsOperator(command)) return false;
  const words = command.split(/[ \t]+/).filter(Boolean);
  const first = prefix.split(/[ \t]+/).filter(Boolean);
  return first.length > 0 && first.every((word, index) => word === words[index]);
}

/**
 * Whether a yes to one call for ever is one to another: of the same tool, and the same command if it runs one. What more
 * arguments do to a command nobody was asked.
 */
function isAlike(one: AskedCall, { tool, args }: ResolvedCall): boolean {
  if (one.name !== tool.definition.function.name) return false;
  const { command: allowed } = JSON.parse(one.arguments) as { readonly command?: unknown };
  return typeof allowed !== "string" || args.command === allowed;
}

function fitsPath(
  pattern: string,
  path: string,
  { workspace, isStrict }: { readonly workspace: string; readonly isStrict: boolean },
): boolean {
  const absolute = resolve(workspace, path);
  const inside = relative(workspace, absolute);
  const isOutside = inside === ".." || inside.startsWith(`..${sep}`);
  if (!isStrict && isOutside && !/^(\/|\.\.)/.test(pattern)) return false;
  // Some file systems take either case: a no holds for both.
  const [wanted = [], parts = []] = [pattern, pattern.startsWith("/") ? absolute : inside]
    .map((text) => (isStrict ? text.toLowerCase() : text).split(sep === "/" ? "/" : /[\\/]/).filter(Boolean));
  return fitsGlob(wanted, parts, { any: "**", fits: fitsName });
}

function fitsName(pattern: string, name: string): boolean {
  return fitsGlob([...pattern], [...name], { any: "*", fits: (one, other) => one === "?" || one === other });
}

/**
 * Whether a pattern's parts fit all parts of a text, one for one; `any` stands for any number of parts. Takes no more
 * than the product of both lengths, whatever the pattern.
 */
function fitsGlob(
  pattern: readonly string[],
  text: readonly string[],
  { any, fits }: { readonly any: string; readonly fits: (pattern: string, part: string) => boolean },
): boolean {
  let [at, place] = [0, 0];
  /** Where the last `any` stands, and how far it reaches so far. */
  let last: { readonly at: number; place: number } | undefined;
  while (place < text.length) {
    const wanted = pattern[at];
    if (wanted === any) last = { at: at++, place };
    else if (wanted !== undefined && fits(wanted, text[place]!)) [at, place] = [at + 1, place + 1];
    else if (last) [at, place] = [last.at + 1, ++last.place];
    else return false;
  }
  return pattern.slice(at).every((part) => part === any);
}
