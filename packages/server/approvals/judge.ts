import type { AskedCall, Judge } from "@tare/loop";
import type { ResolvedCall } from "@tare/messages";
import { relative, resolve, sep } from "node:path";
import { DELEGATE_TOOL } from "../helpers/delegate_tool.ts";
import type { ApprovalRule } from "./rules.ts";

/** What calls are judged by. */
export interface JudgeOptions {
  /** Lists of rules; where two have a rule that fits, the stricter wins. */
  readonly lists: readonly (readonly ApprovalRule[])[];
  /** Calls to which somebody said yes for ever. They are a yes to nothing that is denied. */
  readonly always: readonly AskedCall[];
  /** The folder from which paths count. */
  readonly workspace: string;
}

type Decision = ApprovalRule["decision"];

const STRICTEST_FIRST: readonly Decision[] = ["deny", "ask", "allow"];

/** Why a call doesn't run that a rule denies, for the model. */
export const FORBIDDEN = "a rule forbids it. Find another way, or say that it can't be done.";

/** Makes a judge by rules. Where none fits, what only reads may run, and helpers may work; all else has to be asked for. */
export function judgeBy({ lists, always, workspace }: JudgeOptions): Judge {
  return (call) => {
    const found = lists.map((rules) => decisionBy(rules, call, workspace));
    const { stance, definition } = call.tool;
    // What a helper does is judged call by call.
    const isHarmless = stance === "rederivable" || definition.function.name === DELEGATE_TOOL.function.name;
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

/** Whether a yes to one call for ever is one to another: the same tool, and of commands the same, or it with more behind. */
function isAlike(one: AskedCall, { tool, args }: ResolvedCall): boolean {
  if (one.name !== tool.definition.function.name) return false;
  const { command: allowed } = JSON.parse(one.arguments) as { readonly command?: unknown };
  if (typeof allowed !== "string") return true;
  const { command } = args;
  return command === allowed || typeof command === "string" && beginsWith(command, allowed);
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
