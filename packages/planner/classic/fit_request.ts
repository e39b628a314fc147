import { type ToolLoopContext, toolLoopContext } from "@tare/context";
import {
  countRequestTokens,
  type CountTokens,
  describeCall,
  type Message,
  type Rewrite,
  type ToolDefinition,
} from "@tare/messages";
import { type Archive, archiveMessages, bytesFromText, formatPlaceholder } from "@tare/prune";
import { shownTools } from "@tare/schemas";
import type { History } from "../edits/view.ts";
import { howMany, type Mechanisms } from "../prompt_session.ts";

/** What a request is fitted with. */
export interface FitOptions {
  readonly countTokens: CountTokens;
  readonly mechanisms: Mechanisms;
  readonly historyBudgetTokens?: number | undefined;
  readonly alwaysFull?: readonly string[] | undefined;
  /** How many messages the active turn has. */
  readonly activeMessages: number;
  /** Hashes of the definitions that the model has been shown in full. */
  readonly exposed: ReadonlySet<number>;
  /** In a turn's first request the names of the tools that the model has called: the others are shown in full again. */
  readonly called?: ReadonlySet<string> | undefined;
}

/** The messages and tools of one request, and what was kept out of this one alone. */
export interface FittedRequest extends History {
  /** Tokens of the request. */
  readonly tokens: number;
  /** Old turns that are left out, and where they stood. */
  readonly context?: Pick<ToolLoopContext<Message>, "left" | "leftAt" | "removedTurns">;
  /** What {@linkcode FitOptions.exposed} is once it is sent. */
  readonly exposed: ReadonlySet<number>;
  /** Tokens that are kept out. */
  readonly saved: { readonly context: number; readonly schemas: number };
}

/** Fits a conversation to one request: old turns into a budget, tools into the form that the model needs. */
export function fitRequest(
  { messages, tools }: { readonly messages: readonly Message[]; readonly tools: readonly ToolDefinition[] },
  { countTokens, mechanisms, historyBudgetTokens, alwaysFull, activeMessages, exposed, called }: FitOptions,
): FittedRequest {
  const fitted = mechanisms.context
    ? toolLoopContext(messages, {
      countTokens,
      activeTurnStart: messages.length - activeMessages,
      ...(historyBudgetTokens !== undefined && { historyBudgetTokens }),
    })
    : undefined;
  const shown = mechanisms.schemas
    ? shownTools(tools, {
      exposed,
      countTokens,
      ...(alwaysFull && { alwaysFull }),
      ...(called && { called }),
    })
    : { tools, exposed, tokensBefore: 0, tokensAfter: 0 };
  const request = { messages: fitted?.messages ?? messages, tools: shown.tools };
  return {
    ...request,
    tokens: countRequestTokens(request, countTokens),
    ...(fitted?.removed && { context: fitted }),
    exposed: shown.exposed,
    saved: {
      context: fitted ? fitted.tokensBefore - fitted.tokensAfter : 0,
      schemas: shown.tokensBefore - shown.tokensAfter,
    },
  };
}

/** Names of the tools that were called in these messages. */
export function calledTools(messages: readonly Message[]): ReadonlySet<string> {
  const calls = messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []);
  return new Set(calls.map((call) => describeCall(call).name));
}

/** Archives the old turns that requests leave out; remembers the last it did, as all requests of a turn leave out the same. */
export class LeftTurns {
  #left: readonly Message[] = [];
  #line: Message | undefined;
  readonly #archive: Archive;

  /** Turns that go to this archive. */
  constructor(archive: Archive) {
    this.#archive = archive;
  }

  /** The line that stands for them. @throws {Error} if they can't be archived. */
  async lineOf(left: readonly Message[], recall: boolean): Promise<Message> {
    const known = this.#line && left.length === this.#left.length &&
      left.every((message, at) => message === this.#left[at]);
    if (known && this.#line) return this.#line;
    const { ref, text } = await archiveMessages(left, { archive: this.#archive, purpose: "leave them out" });
    const bytes = bytesFromText(text).length;
    const content = formatPlaceholder({ of: "messages", messages: left.length, bytes, ref }, { recall });
    this.#left = left;
    return this.#line = { role: "user", content };
  }
}

/** What a request keeps out for itself alone. */
export interface LeftOut {
  /** How many old turns. */
  readonly turns: number;
  /** How many tokens of schemas. */
  readonly schemaTokens: number;
}

/** What a request keeps out for itself alone. */
export function leftOut({ context, saved }: FittedRequest): LeftOut {
  return { turns: context?.removedTurns ?? 0, schemaTokens: saved.schemas };
}

/** What a request leaves out that the one before still showed. */
export function fittingRewrites(request: FittedRequest, before: LeftOut): Rewrite[] {
  const { tokens, saved } = request;
  const { turns, schemaTokens } = leftOut(request);
  const rewrites: Rewrite[] = [];
  if (turns > before.turns) {
    rewrites.push({
      mechanism: "context",
      reason: "old turns must fit in a budget during a tool loop",
      removed: howMany(turns, "old turn"),
      tokensBefore: tokens + saved.context,
      tokensAfter: tokens,
    });
  }
  if (schemaTokens > before.schemaTokens) {
    rewrites.push({
      mechanism: "schemas",
      reason: "the model has seen them in full",
      removed: "the prose of tool schemas",
      tokensBefore: tokens + saved.schemas,
      tokensAfter: tokens,
    });
  }
  return rewrites;
}
