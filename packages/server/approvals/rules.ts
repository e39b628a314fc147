import type { Judge, Judgement, PendingCall } from "@tare/loop";
import { pinOf, type ToolPin } from "@tare/loop/internal";
import { isProtected, pathAfterLinks } from "@tare/tools/internal";
import type { Effects, ResolvedCall } from "@tare/messages";
import { basename, isAbsolute, relative, resolve, SEPARATOR } from "@std/path";
import { isDeepStrictEqual } from "node:util";
import { type TUnsafe, Type } from "typebox";
import { describeSideEffect, isRunner, staysInside } from "./commands/programs.ts";
import { type CommandWord, readCommand, wordsIn } from "./commands/read_command.ts";
import { checker, closed } from "../http/schema.ts";

const TEXTS = Type.Array(Type.String({ minLength: 1, maxLength: 1_000 }), { minItems: 1, maxItems: 1_000 });

const RULE = closed({
  tool: Type.String({
    minLength: 1,
    maxLength: 1_000,
    description: "Name of the tool; `*` matches any characters.",
  }),
  paths: Type.Optional(Type.Unsafe<readonly string[]>({
    ...TEXTS,
    description: "Path patterns, relative to the workspace or absolute: the argument must match one. `*` " +
      "and `?` match characters of a name, `**` any folders. Links are followed.",
  })),
  prefixes: Type.Optional(Type.Unsafe<readonly string[]>({
    ...TEXTS,
    description: "Command prefixes, word by word: the argument must have one. A command that isn't " +
      "simple, or has an option that writes or runs something else, matches none; it needs approval if " +
      "a rule asks or denies.",
  })),
  argument: Type.Optional(Type.String({
    maxLength: 1_000,
    description: "Name of the argument that is checked. Default: `path` for paths, `command` for prefixes.",
  })),
  decision: Type.Enum(["allow", "ask", "deny"]),
}, "ApprovalRule");
/** A rule for the model's calls. The first rule of a list that matches a call decides. */
export interface ApprovalRule {
  /** Name of the tool; `*` matches any characters. */
  readonly tool: string;
  /** Path patterns, such as `src/**`: the argument must match one. */
  readonly paths?: readonly string[];
  /** Command prefixes, word by word: the argument must have one. */
  readonly prefixes?: readonly string[];
  /** Name of the argument that is checked. Default: `path` for paths, `command` for prefixes. */
  readonly argument?: string;
  readonly decision: "allow" | "ask" | "deny";
}

export const APPROVAL_RULES: TUnsafe<readonly ApprovalRule[]> = Type.Unsafe(
  Type.Array(
    // An argument without paths or prefixes would allow any value.
    Type.Unsafe<ApprovalRule>({
      ...RULE,
      anyOf: [{ required: ["paths"] }, { required: ["prefixes"] }, { properties: { argument: { not: {} } } }],
    }),
    { maxItems: 1_000 },
  ),
);

/**
 * Returns what is wrong with a list of rules, in one line; `undefined` if it is valid.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { faultOfRules } from "@tare/server/internal";
 * assertEquals(faultOfRules([{ tool: "write_file", paths: ["src/**"], decision: "allow" }]), undefined);
 * assertEquals(faultOfRules([{ tool: "shell" }]), "rules.0 must have required property 'decision'");
 * ```
 */
export function faultOfRules(value: unknown): string | undefined {
  return checkRules({ rules: value });
}

const checkRules = checker(closed({ rules: APPROVAL_RULES }), "the file");

/** Rules that allow every call. */
export const ALLOW_EVERYTHING: readonly ApprovalRule[] = [{ tool: "*", decision: "allow" }];

interface JudgeOptions {
  /** Lists of rules; the strictest decision of the lists wins. */
  readonly lists: readonly (readonly ApprovalRule[])[];
  readonly always: readonly PendingCall[];
  readonly workspace: string;
  /** Names of tools that need no approval, though they aren't read-only. Default: none. */
  readonly harmless?: readonly string[];
}

type Decision = ApprovalRule["decision"];

const STRICTEST_FIRST: readonly Decision[] = ["deny", "ask", "allow"];

const FORBIDDEN = "a rule forbids it. Find another way, or report that it can't be done.";

/**
 * Returns a judge by rules. Without a matching rule, calls that are read-only, harmless or sandboxed are allowed; all
 * others need approval.
 */
export function judgeBy({ lists, always, workspace, harmless = [] }: JudgeOptions): Judge {
  return async (call) => {
    const { tool } = call;
    const { stance, definition: { function: { name } } } = tool;
    const subject = withoutDenied(await subjectOf(call, { workspace, lists }), lists);
    const found = lists.map((rules) => verdictBy(rules, subject));
    const isHarmless = stance === "rederivable" || harmless.includes(name) || tool.isContained?.(call.args);
    const usual: Decision = isHarmless ? "allow" : "ask";
    const decided = STRICTEST_FIRST.find((one) => found.some((verdict) => verdict.decision === one)) ?? usual;
    if (decided === "deny") return { decision: decided, reason: FORBIDDEN };

    const alike = always.filter((one) => isAlike(one, call));
    const mayAlways = alike.some(({ pin }) => isDeepStrictEqual(pin, pinOf(tool)));
    // Approval of this very call or file counts; a broader one doesn't.
    const isMeant = (place: Place) =>
      alike.some(({ effects, arguments: text }) =>
        effects?.writes?.includes(place.real[0]!) || text === JSON.stringify(call.args)
      ) || found.some(({ rule, list }) =>
        list === ALLOW_EVERYTHING || (rule && namesExactly(rule, place, subject.roots))
      );
    const unnamed = subject.changes.find((place) => isProtected(place.display) && !isMeant(place));
    const isRequested = unnamed !== undefined || (decided === "ask" && !mayAlways);
    const why = !isRequested
      ? undefined
      : unnamed
      ? `${unnamed.display} may be run or followed later without approval.`
      : changeOf(call, alike) ?? found.find(({ why }) => why !== undefined)?.why;
    return {
      decision: isRequested ? "ask" : "allow",
      ...(why !== undefined && { why }),
      ...(subject.effects && {
        effects: subject.effects,
        allows: allowing(subject, { lists, found, mayAsk: isRequested || mayAlways }),
      }),
    };
  };
}

export function allowingRequested(judge: Judge): Judge {
  return async (call) => {
    const judgement = await judge(call);
    return judgement.decision === "ask" ? { ...judgement, decision: "allow" } : judgement;
  };
}

interface Place {
  readonly display: string;
  /** The path after links, and its other spellings from the root. */
  readonly real: readonly string[];
  /** The given path, from the root; empty if only the tool knows it. */
  readonly given: readonly string[];
}

interface Subject {
  readonly call: ResolvedCall;
  readonly roots: readonly string[];
  readonly effects: Effects | undefined;
  /** Places by argument; under `undefined`, those that the tool reports it would touch. */
  readonly places: ReadonlyMap<string | undefined, readonly Place[]>;
  readonly changes: readonly Place[];
  readonly commands: ReadonlyMap<string, readonly Command[]>;
}

interface Command {
  readonly words?: readonly CommandWord[];
  readonly places: readonly Place[];
}

async function subjectOf(
  call: ResolvedCall,
  { workspace, lists }: Pick<JudgeOptions, "workspace" | "lists">,
): Promise<Subject> {
  const { tool, args } = call;
  const roots = [
    ...new Set([resolve(workspace), await pathAfterLinks(resolve(workspace)).catch(() => workspace)]),
  ];
  // A tool that fails here refuses the call later; if it doesn't, nothing is allowed to it.
  const effects = await tool.effects?.(args).catch((): Effects => ({ root: roots.at(-1)! }));
  const given = pathsIn(args).slice(0, MAX_WORDS);
  const touched = [effects?.reads, effects?.writes, effects?.searches].flatMap((paths) => paths ?? []);
  const places = new Map<string | undefined, readonly Place[]>();
  if (touched.length > 0) {
    const asGiven = given.length > 1 ? await Promise.all(given.map((text) => placeOf(text, roots))) : [];
    const all = given.flatMap((text) => spellings(resolve(workspace, text), roots));
    places.set(
      undefined,
      touched.map((path) => {
        const own = asGiven.filter(({ real }) => real[0] === path).flatMap(({ given }) => given);
        return { ...placeAt(path, roots), given: own.length > 0 ? own : all };
      }),
    );
  }
  const commands = new Map<string, readonly Command[]>();
  const rules = lists.flat();
  for (const name of argumentsOf(rules.filter(({ paths }) => paths), "path")) {
    places.set(name, await Promise.all(textsOf(args[name]).map((text) => placeOf(text, roots))));
  }
  for (const name of argumentsOf(rules.filter(({ prefixes }) => prefixes), "command")) {
    commands.set(name, await Promise.all(textsOf(args[name]).map((text) => commandOf(text, roots))));
  }
  const isReading = tool.stance === "rederivable";
  const changes = isReading || typeof args.command === "string"
    ? []
    : effects
    ? (effects.writes ?? []).map((path) => placeAt(path, roots))
    // Any of its arguments may be a path.
    : await Promise.all(stringsIn(args).slice(0, MAX_WORDS).map((text) => placeOf(text, roots)));
  return { call, roots, effects, places, changes, commands };
}

/** Returns the subject without files that a rule denies, if the call reads others too. */
function withoutDenied(subject: Subject, lists: JudgeOptions["lists"]): Subject {
  const { effects, places } = subject;
  const { reads = [], writes = [], searches = [] } = effects ?? {};
  if (!effects || reads.length < 2 || writes.length > 0 || searches.length > 0) return subject;
  const allowed = (places.get(undefined) ?? []).filter((place) => {
    const one = { ...subject, places: new Map([...places, [undefined, [place]] as const]) };
    return lists.every((list) => verdictBy(list, one).decision !== "deny");
  });
  if (allowed.length === 0) return subject;
  return {
    ...subject,
    effects: { ...effects, reads: allowed.map(({ real }) => real[0]!) },
    places: new Map([...places, [undefined, allowed]]),
  };
}

function argumentsOf(rules: readonly ApprovalRule[], usual: string): ReadonlySet<string> {
  return new Set([usual, ...rules.flatMap(({ argument }) => argument ?? [])]);
}

/** Returns the texts of arguments with the name `path`, at any depth. */
function pathsIn(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, part]) => {
    const texts = name === "path" ? textsOf(part) : [];
    return texts.length > 0 ? texts : pathsIn(part);
  });
}

function stringsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

function placeAt(path: string, roots: readonly string[]): Place {
  const [inside] = roots.flatMap((root) => insideOf(root, path) ?? []);
  return { display: inside ?? path, real: spellings(path, roots), given: [] };
}

async function placeOf(text: string, roots: readonly string[]): Promise<Place> {
  const path = text.length > MAX_PATH || text.includes("\0") ? undefined : resolve(roots[0]!, text);
  if (path === undefined) return { display: "", real: [], given: [] };
  const real = await pathAfterLinks(path).catch(() => path);
  return { ...placeAt(real, roots), given: spellings(path, roots) };
}

const MAX_PATH = 4_096;

function spellings(path: string, roots: readonly string[]): readonly string[] {
  const inside = roots.map((root) => insideOf(root, path)).find((one) => one !== undefined);
  return inside === undefined ? [path] : [...new Set([path, ...roots.map((root) => resolve(root, inside))])];
}

function insideOf(root: string, path: string): string | undefined {
  const inside = relative(root, path);
  return inside === ".." || inside.startsWith(`..${SEPARATOR}`) || isAbsolute(inside) ? undefined : inside;
}

async function commandOf(text: string, roots: readonly string[]): Promise<Command> {
  const words = readCommand(text);
  const named = (words?.map((word) => word.text) ?? wordsIn(text)).flatMap((word) => {
    const value = /^[^/]*?[=:](.+)$/s.exec(word)?.[1];
    return value === undefined ? [word] : [word, value];
  });
  const places = await Promise.all(named.slice(0, MAX_WORDS).map((word) => placeOf(word, roots)));
  return { ...(words && { words }), places };
}

const MAX_WORDS = 1_000;

interface Verdict {
  readonly list: readonly ApprovalRule[];
  readonly rule?: ApprovalRule;
  readonly decision?: Decision;
  readonly why?: string;
}

function verdictBy(list: readonly ApprovalRule[], subject: Subject): Verdict {
  let why: string | undefined;
  for (const rule of list) {
    const { tool: pattern, paths, prefixes, argument, decision } = rule;
    if (!fitsName(pattern, subject.call.tool.definition.function.name)) continue;
    const isStrict = decision !== "allow";
    // To allow, all items must match; to deny or ask, one.
    const fits = <Item>(items: readonly Item[], fit: (item: Item) => boolean) =>
      items.length > 0 && (isStrict ? items.some(fit) : items.every(fit));
    if (paths) {
      const places = placesFor(subject, { argument, isStrict });
      if (!fits(places, (place) => paths.some((one) => fitsPlace(one, place, { ...subject, isStrict })))) {
        continue;
      }
    }
    if (!prefixes) return { list, rule, decision };
    const commands = commandsFor(subject, argument);
    if (isStrict) {
      if (commands.some(({ words }) => words && prefixes.some((one) => beginning(words, one, isStrict)))) {
        return { list, rule, decision };
      }
      // The program that such a command runs can't be determined from its first words.
      const isUnclear = commands.some(({ words }) => !words || isRunner(words[0]!.text));
      if (isUnclear) return { list, rule, decision: "ask" };
      continue;
    }
    const beyond = commands.map((command) => beyondOf(command, prefixes, subject.roots));
    if (commands.length > 0 && beyond.every((one) => one === NOTHING)) return { list, rule, decision };
    why ??= beyond.find((one) => one !== undefined && one !== NOTHING);
  }
  return { list, ...(why !== undefined && { why }) };
}

function placesFor(
  { places, commands, effects }: Subject,
  { argument, isStrict }: { readonly argument: string | undefined; readonly isStrict: boolean },
): readonly Place[] {
  if (argument !== undefined && (argument !== "path" || !effects)) return places.get(argument) ?? [];
  const own = places.get(undefined) ?? places.get("path") ?? [];
  // Any word of a command may be a path; this can't allow it.
  return isStrict ? [...own, ...[...commands.values()].flat().flatMap((command) => command.places)] : own;
}

function commandsFor({ commands }: Subject, argument = "command"): readonly Command[] {
  return commands.get(argument) ?? [];
}

/** The command does only what a rule allows. */
const NOTHING = Symbol("nothing");

/** Returns what a command does beyond these prefixes; `undefined` if none matches. */
function beyondOf(
  { words, places }: Command,
  prefixes: readonly string[],
  roots: readonly string[],
): string | typeof NOTHING | undefined {
  if (!words) return undefined;
  let why: string | undefined;
  for (const prefix of prefixes) {
    const allowed = beginning(words, prefix, false);
    if (allowed === undefined) continue;
    const program = words[0]!.text;
    const outside = staysInside(program)
      ? places.find(({ real }) =>
        real.every((path) => roots.every((root) => insideOf(root, path) === undefined))
      )
      : undefined;
    const protectedPlace = words.length > allowed
      ? places.find(({ display }) => isProtected(display))
      : undefined;
    const found = describeSideEffect(words, allowed) ??
      (outside && `${outside.display} is outside the workspace.`) ??
      (protectedPlace && `${protectedPlace.display} may be run or followed later without approval.`);
    if (found === undefined) return NOTHING;
    why ??= found;
  }
  return why;
}

function beginning(words: readonly CommandWord[], prefix: string, isStrict: boolean): number | undefined {
  const wanted = readCommand(prefix)?.map(({ text }) => text) ?? prefix.split(/[ \t]+/).filter(Boolean);
  if (wanted.length === 0) return undefined;
  const fits = wanted.every((word, index) => {
    const { text, isPattern } = words[index] ?? { text: undefined, isPattern: false };
    // A denial applies to the program at any path.
    const isProgram = isStrict && index === 0 && text !== undefined && basename(text) === word;
    return !isPattern && (text === word || isProgram);
  });
  return fits ? wanted.length : undefined;
}

function allowing(
  subject: Subject,
  { lists, found, mayAsk }: {
    readonly lists: readonly (readonly ApprovalRule[])[];
    readonly found: readonly Verdict[];
    /** Whether the call is approved, or will be before it runs. */
    readonly mayAsk: boolean;
  },
): NonNullable<Extract<Judgement, { decision: "allow" | "ask" }>["allows"]> {
  const { roots } = subject;
  const { reads = [], writes = [], searches = [] } = subject.effects ?? {};
  return (path, effect) => {
    if (effect === "writes") return writes.includes(path);
    if ([reads, writes, searches].some((paths) => paths.includes(path))) return true;
    const isFound = searches.some((top) => insideOf(top, path) !== undefined);
    if (effect === "reads" && !isFound) return false;
    // A rule that denies or asks for some files applies to searches too.
    const place = placeAt(path, roots);
    const one = { ...subject, places: new Map([[undefined, [place]]]), commands: new Map() };
    return lists.every((list, index) => {
      const { decision, rule } = verdictBy(list, one);
      if (decision === "deny") return false;
      return decision !== "ask" || (mayAsk && rule === found[index]!.rule);
    });
  };
}

function namesExactly(
  { paths = [], decision }: ApprovalRule,
  { real }: Place,
  roots: readonly string[],
): boolean {
  return decision === "allow" &&
    paths.some((path) => !/[*?]/.test(path) && roots.some((root) => real.includes(resolve(root, path))));
}

function textsOf(value: unknown): readonly string[] {
  const all: readonly unknown[] = Array.isArray(value) ? value : [value];
  return all.every((one) => typeof one === "string") ? all : [];
}

/** Returns whether an always allowed call covers another. */
function isAlike(one: PendingCall, { tool, args }: ResolvedCall): boolean {
  if (one.name !== tool.definition.function.name) return false;
  const { command: allowed, outside } = JSON.parse(one.arguments) as {
    readonly command?: unknown;
    readonly outside?: unknown;
  };
  // Approval inside the sandbox doesn't extend outside; the reason for leaving it doesn't matter.
  const isAsFar = outside !== undefined || args.outside === undefined;
  return typeof allowed !== "string" || (args.command === allowed && isAsFar);
}

function changeOf({ tool }: ResolvedCall, alike: readonly PendingCall[]): string | undefined {
  const last = alike.at(-1);
  if (!last) return undefined;
  const [before, now] = [last.pin, pinOf(tool)];
  const parts = PARTS.filter(([part]) => before?.[part] !== now[part]).map(([, label]) => label);
  const { name } = tool.definition.function;
  return `${name} has changed since you always allowed it: ${parts.join(", ")}.`;
}

const PARTS: readonly (readonly [keyof ToolPin, string])[] = [
  ["description", "its description"],
  ["parameters", "its parameters"],
  ["hints", "its declared hints"],
];

/** Returns whether a pattern matches a place after links; to deny, the given path matches too. */
function fitsPlace(
  pattern: string,
  { real, given }: Place,
  { roots, isStrict, effects }: Pick<Subject, "roots" | "effects"> & { readonly isStrict: boolean },
): boolean {
  const fits = (path: string) => fitsPath(pattern, path, { roots, isStrict });
  if (isStrict) return [...real, ...given].some(fits);
  // If no tool reports what it opens, it may be either.
  return real.some(fits) && (effects !== undefined || given.length === 0 || given.some(fits));
}

function fitsPath(
  pattern: string,
  absolute: string,
  { roots, isStrict }: { readonly roots: readonly string[]; readonly isStrict: boolean },
): boolean {
  const inside = roots.map((root) => insideOf(root, absolute)).find((one) => one !== undefined);
  if (!isStrict && inside === undefined && !/^(\/|\.\.)/.test(pattern)) return false;
  const from = inside ?? relative(roots[0]!, absolute);
  // Some file systems ignore case and Unicode form: a denial applies to all spellings.
  const [wanted = [], parts = []] = [pattern, pattern.startsWith("/") ? absolute : from]
    .map((text) =>
      (isStrict ? text.normalize("NFC").toLowerCase() : text).split(SEPARATOR === "/" ? "/" : /[\\/]/).filter(
        Boolean,
      )
    );
  return fitsGlob(wanted, parts, { any: "**", fits: fitsName });
}

function fitsName(pattern: string, name: string): boolean {
  return fitsGlob([...pattern], [...name], { any: "*", fits: (one, other) => one === "?" || one === other });
}

/**
 * Returns whether a pattern's parts match all parts of a text, one for one; `any` matches any number of parts. Time
 * is bounded by the product of both lengths.
 */
function fitsGlob(
  pattern: readonly string[],
  text: readonly string[],
  { any, fits }: { readonly any: string; readonly fits: (pattern: string, part: string) => boolean },
): boolean {
  let [at, place] = [0, 0];
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
