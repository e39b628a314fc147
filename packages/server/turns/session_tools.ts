import type { CountTokens, Message, Tool } from "@tare/messages";
import { countMessageTokens, countToolTokens, describeCall, sameData } from "@tare/messages/internal";
import { argumentsParser } from "@tare/loop/arguments";
import { type Profile, type PromptCall, worthDeferring } from "@tare/planner";
import { Catalogue, standIns } from "@tare/schemas";

/** Tools that come and go while the server runs, such as those of MCP servers. */
export interface ToolSource {
  /** Names of the servers that they come from. The name of each tool begins with its server's and `__`. */
  readonly names: readonly string[];
  /** The tools of these servers, as far as they are known without waiting. */
  known(names: readonly string[]): readonly Tool[];
  /** The tools of these servers as they are now, and what people should know of those that aren't there. Never rejects. */
  take(names: readonly string[], signal?: AbortSignal): Promise<{
    readonly tools: readonly Tool[];
    /** What isn't there though the session may use it, a sentence for each. */
    readonly warnings: readonly string[];
  }>;
}

/** The tools of a turn. */
export type TakenTools = Awaited<ReturnType<ToolSource["take"]>>;

/** What a session may be given by name, to have all tools of a server. */
export function allToolsOf(server: string): string {
  return `${server}__*`;
}

/** Whether what a session was given is this tool, or all tools of its server. */
export function includesTool(given: readonly string[], name: string): boolean {
  const server = name.split("__", 1)[0]!;
  return given.includes(name) || (server !== name && given.includes(allToolsOf(server)));
}

interface SessionToolsOptions {
  /** What the session was given: names of tools, or all tools of a server. */
  readonly given: readonly string[];
  readonly own: readonly Tool[];
  /** Where others come from. Default: nowhere. */
  readonly source?: ToolSource | undefined;
  /** Names of the only ones that may run; the others stay in the list, and refuse. Default: all. */
  readonly mayUse?: readonly string[] | undefined;
}

/** The tools as they are listed; of those that may not be used nothing runs, so that the prompt is the same. */
export function withoutUse(tools: readonly Tool[], mayUse: readonly string[]): readonly Tool[] {
  return tools.map((tool) => mayUse.includes(tool.definition.function.name) ? tool : refusing(tool));
}

function refusing({ resolve: _resolve, ...tool }: Tool): Tool {
  const { name } = tool.definition.function;
  const content =
    `Cannot run ${name}: a helper may not use it. Do without, or say in your answer what is missing.`;
  return { ...tool, run: () => ({ content, error: true }) };
}

/** The tools of one session: fixed during a turn, looked up anew for the next. */
export class SessionTools {
  readonly #options: SessionToolsOptions;
  /** The servers that it uses: no other is waited for. */
  readonly #servers: readonly string[];
  #taken: readonly Tool[] | undefined;

  constructor(options: SessionToolsOptions) {
    const { given, source } = this.#options = options;
    this.#servers = source?.names.filter((name) => given.some((one) => one.startsWith(`${name}__`))) ?? [];
  }

  /** Those of the last turn; before the first one those that are known. */
  get current(): readonly Tool[] {
    return this.#taken ?? this.#chosen(this.#options.source?.known(this.#servers) ?? []);
  }

  /** Those of the turn that starts now. */
  async take(signal?: AbortSignal): Promise<TakenTools> {
    const { tools, warnings } = this.#servers.length === 0
      ? { tools: [], warnings: [] }
      : await this.#options.source!.take(this.#servers, signal);
    this.#taken = this.#chosen(tools);
    return { tools: this.#taken, warnings };
  }

  #chosen(tools: readonly Tool[]): readonly Tool[] {
    const { given, own, mayUse } = this.#options;
    const nameOf = ({ definition }: Tool) => definition.function.name;
    const chosen = [
      ...own.filter((tool) => given.includes(nameOf(tool))),
      ...tools.filter((tool) => includesTool(given, nameOf(tool))),
    ];
    return mayUse ? withoutUse(chosen, mayUse) : chosen;
  }
}

/** What a session remembers of its tools from turn to turn. Plain data. */
export interface OfferState {
  /** Whether the model knows those that may be deferred by name and one line alone. */
  readonly isDeferred: boolean;
  /** Those that may be deferred, as the model was told of them. */
  readonly told: Catalogue["told"];
}

/** How a session's tools are offered to the model in a turn. */
export interface ToolOffer {
  /** Those whose definitions its requests hold. */
  readonly listed: readonly Tool[];
  /** Those that may be called too. */
  readonly unlisted: readonly Tool[];
  /** What the model is to be told before the turn. */
  readonly notice?: Message;
  /** What is to be stored with the turn's start; nothing as long as there was nothing to decide. */
  readonly state: OfferState | undefined;
  /** What that keeps out of a request with these messages, or adds to it; nothing if no tool is deferred. */
  readonly deferred: (messages: readonly Message[]) => PromptCall["deferred"];
}

/** What tools are offered by. */
export interface OfferOptions {
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly countTokens: CountTokens;
  /** Names of tools that are never deferred. Default: none. */
  readonly alwaysFull?: readonly string[] | undefined;
  /** Whether any may be deferred. Default: yes. */
  readonly mayDefer?: boolean | undefined;
  /** Whether the model can be told of them now: nothing may come between calls and their results. */
  readonly mayTell: boolean;
}

/**
 * Offers tools in full, or those that may be deferred by name and one line: whatever costs less, as far as that can be
 * told when the session begins. Nothing changes that later while the prompt goes on from what the cache holds: what is
 * new of deferred tools is told at its end. Where tools in full aren't the same any more, the cache holds nothing
 * of the prompt, and it is decided anew.
 *
 * @param before What the session remembered. Default: it begins.
 */
export function offerTools(
  tools: readonly Tool[],
  before: OfferState | undefined,
  options: OfferOptions,
): ToolOffer {
  const { countTokens, alwaysFull = [], mayTell } = options;
  const isDeferrable = ({ mayDefer = false, definition }: Tool) =>
    mayDefer && !alwaysFull.includes(definition.function.name);
  const deferrable = tools.filter(isDeferrable);
  if (before === undefined && deferrable.length === 0) {
    return { listed: tools, unlisted: [], state: undefined, deferred: () => undefined };
  }
  const catalogue = new Catalogue(deferrable.map(({ definition }) => definition), { countTokens });
  const { told } = catalogue;
  if (!before?.isDeferred) {
    const isSame = before !== undefined && sameData(before.told, told);
    if (isSame || !mayTell || !paysToDefer(tools, deferrable, { ...options, catalogue })) {
      const isDecided = !isSame && mayTell && (before !== undefined || deferrable.length > 0);
      const state = isDecided ? { isDeferred: false, told } : before;
      return { listed: tools, unlisted: [], state, deferred: () => undefined };
    }
  }
  const text = !mayTell ? undefined : before?.isDeferred ? catalogue.changes(before.told) : catalogue.text();
  const full = tools.filter((tool) => !isDeferrable(tool));
  const { find, call } = standIns(deferrable, { countTokens, parser: parserOf, listed: full });
  return {
    listed: [...full, find, call],
    unlisted: deferrable,
    ...(text !== undefined && { notice: { role: "system", content: text } }),
    state: before?.isDeferred && text === undefined ? before : { isDeferred: true, told },
    deferred: (messages) => measure(messages, fullTokens(deferrable, countTokens), countTokens),
  };
}

const { find: { definition: FIND_TOOLS }, call: { definition: CALL_TOOL } } = standIns([], {
  parser: argumentsParser,
});
const STAND_INS = [FIND_TOOLS, CALL_TOOL];

/** Names of the tools that stand for others. */
export const STAND_IN_NAMES: readonly string[] = STAND_INS.map((tool) => tool.function.name);

/** Most tools of a request that every provider accepts. */
const MAX_LISTED = 128;

function paysToDefer(
  tools: readonly Tool[],
  deferrable: readonly Tool[],
  { profile, windowTokens, countTokens, mayDefer = true, catalogue }: OfferOptions & {
    readonly catalogue: Catalogue;
  },
): boolean {
  const isTaken = ({ definition }: Tool) => STAND_IN_NAMES.includes(definition.function.name);
  if (!mayDefer || deferrable.length === 0 || tools.some(isTaken)) return false;
  if (tools.length > MAX_LISTED) return true;
  const shortTokens = countMessageTokens({ role: "system", content: catalogue.text() }, countTokens) +
    STAND_INS.reduce((sum, tool) => sum + countToolTokens(tool, countTokens), 0);
  const count = deferrable.length;
  return worthDeferring({
    fullTokens: fullTokens(deferrable, countTokens),
    shortTokens,
    count,
    profile,
    windowTokens,
  });
}

function fullTokens(tools: readonly Tool[], countTokens: CountTokens): number {
  return tools.reduce((sum, { definition }) => sum + countToolTokens(definition, countTokens), 0);
}

// Compiling a schema takes milliseconds, and most of many tools are never called.
const parsers = new WeakMap<Tool["definition"], ReturnType<typeof argumentsParser>>();

function parserOf(definition: Tool["definition"]): ReturnType<typeof argumentsParser> {
  let parse = parsers.get(definition);
  if (!parse) parsers.set(definition, parse = argumentsParser(definition));
  return parse;
}

/** What stands in a request instead of the definitions: the lists, and what was looked up. */
function measure(
  messages: readonly Message[],
  fullTokens: number,
  countTokens: CountTokens,
): NonNullable<PromptCall["deferred"]> {
  let tokens = fullTokens - countToolTokens(FIND_TOOLS, countTokens) -
    countToolTokens(CALL_TOOL, countTokens);
  let looked = new Set<string>();
  let isDetour = false;
  for (const message of messages) {
    const isResult = message.role === "tool";
    if (message.role === "assistant") {
      const calls = message.tool_calls ?? [];
      const finds = calls.filter((call) => describeCall(call).name === FIND_TOOLS.function.name);
      looked = new Set(finds.map(({ id }) => id));
      isDetour = finds.length > 0 && finds.length === calls.length;
      if (isDetour) tokens -= countMessageTokens(message, countTokens);
    } else if (isResult ? looked.has(message.tool_call_id) : Catalogue.tells(message)) {
      tokens -= countMessageTokens(message, countTokens);
    }
    if (!isResult && message.role !== "assistant") isDetour = false;
  }
  return { tokens, isDetour };
}
