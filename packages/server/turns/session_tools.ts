import type { CountTokens, Message, Tool } from "@tare/messages";
import { countMessageTokens, countToolTokens, sameData } from "@tare/messages/internal";
import { argumentsParser } from "@tare/loop/arguments";
import { type Profile, type PromptCall, worthDeferring } from "@tare/planner";
import { Catalogue, standIns } from "@tare/schemas";
import { CALL_TOOL, FIND_TOOLS, measureDeferral } from "@tare/schemas/internal";

/** A source of tools that change while the server runs, such as MCP servers. */
export interface ToolSource {
  /** Names of the servers. Each tool's name begins with its server's and `__`. */
  readonly names: readonly string[];
  known(names: readonly string[]): readonly Tool[];
  /** Returns the current tools of these servers, and warnings about missing ones. Never rejects. */
  take(names: readonly string[], signal?: AbortSignal): Promise<{
    readonly tools: readonly Tool[];
    readonly warnings: readonly string[];
  }>;
}

export type TakenTools = Awaited<ReturnType<ToolSource["take"]>>;

export function allToolsOf(server: string): string {
  return `${server}__*`;
}

export function includesTool(given: readonly string[], name: string): boolean {
  const server = name.split("__", 1)[0]!;
  return given.includes(name) || (server !== name && given.includes(allToolsOf(server)));
}

interface SessionToolsOptions {
  readonly given: readonly string[];
  readonly own: readonly Tool[];
  readonly source?: ToolSource | undefined;
  /** Names of the tools that may run; the others are listed and refuse. Default: all. */
  readonly mayUse?: readonly string[] | undefined;
}

/**
 * Returns the tools with the same definitions, so that the prompt is unchanged; those not in `mayUse` refuse to run.
 */
export function withoutUse(tools: readonly Tool[], mayUse: readonly string[]): readonly Tool[] {
  return tools.map((tool) => mayUse.includes(tool.definition.function.name) ? tool : refusing(tool));
}

function refusing({ resolve: _resolve, ...tool }: Tool): Tool {
  const { name } = tool.definition.function;
  const content =
    `Cannot run ${name}: subagents may not use it. Continue without it, or report what is missing.`;
  return { ...tool, run: () => ({ content, error: true }) };
}

/** The tools of one session: fixed during a turn, read again for the next. */
export class SessionTools {
  readonly #options: SessionToolsOptions;
  /** The servers that it uses: no other is waited for. */
  readonly #servers: readonly string[];
  #taken: readonly Tool[] | undefined;

  constructor(options: SessionToolsOptions) {
    const { given, source } = this.#options = options;
    this.#servers = source?.names.filter((name) => given.some((one) => one.startsWith(`${name}__`))) ?? [];
  }

  get current(): readonly Tool[] {
    return this.#taken ?? this.#chosen(this.#options.source?.known(this.#servers) ?? []);
  }

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

/** State of a session's tools between turns. Plain data. */
export interface OfferState {
  readonly isDeferred: boolean;
  readonly announced: Catalogue["announced"];
}

export interface ToolOffer {
  readonly listed: readonly Tool[];
  readonly unlisted: readonly Tool[];
  readonly notice?: Message;
  readonly state: OfferState | undefined;
  /**
   * Returns the tokens that deferral removes from a request with these messages, or adds; `undefined` if no tool is
   * deferred.
   */
  readonly deferred: (messages: readonly Message[]) => PromptCall["deferred"];
}

export interface OfferOptions {
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly countTokens: CountTokens;
  /** Names of tools that are never deferred. Default: none. */
  readonly alwaysFull?: readonly string[] | undefined;
  readonly mayDefer?: boolean | undefined;
  readonly mayTell: boolean;
}

/**
 * Offers tools in full, or defers some to a list of names and lines, whichever costs less by the estimate at the
 * start of the session. The choice is kept while the cached prompt continues: new deferred tools are described at its
 * end. A change of the tools offered in full is a cache miss, and the choice is made again.
 *
 * @param before State of the session. Default: a new session.
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
  const { announced } = catalogue;
  if (!before?.isDeferred) {
    const isSame = before !== undefined && sameData(before.announced, announced);
    if (isSame || !mayTell || !paysToDefer(tools, deferrable, { ...options, catalogue })) {
      const isDecided = !isSame && mayTell && (before !== undefined || deferrable.length > 0);
      const state = isDecided ? { isDeferred: false, announced } : before;
      return { listed: tools, unlisted: [], state, deferred: () => undefined };
    }
  }
  const text = !mayTell
    ? undefined
    : before?.isDeferred
    ? catalogue.changes(before.announced)
    : catalogue.text();
  const full = tools.filter((tool) => !isDeferrable(tool));
  const { find, call } = standIns(deferrable, { countTokens, parser: parserOf, listed: full });
  return {
    listed: [...full, find, call],
    unlisted: deferrable,
    ...(text !== undefined && { notice: { role: "system", content: text } }),
    state: before?.isDeferred && text === undefined ? before : { isDeferred: true, announced },
    deferred: (messages) => ({
      tools: tools.map(({ definition }) => definition),
      ...measureDeferral(messages, { fullTokens: fullTokens(deferrable, countTokens), countTokens }),
    }),
  };
}

const STAND_INS = [FIND_TOOLS, CALL_TOOL];

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
