import { fitTurns, groupTurns } from "@tare/context";
import {
  countMessageTokens,
  type CountTokens,
  countToolTokens,
  type Message,
  pairCalls,
  type ToolMessage,
} from "@tare/messages";
import { type ElisionCandidate, parsePlaceholder, selectElisions, type ToolTraits } from "@tare/prune";
import { compactTool, shownTools } from "@tare/schemas";
import type { CompactEdit, Edit } from "../edits/edit.ts";
import { hashPiece } from "../cache/prompt_units.ts";
import type { Retention } from "./retention.ts";
import { compactedTools, type Conversation, type PlacedMessages } from "../edits/view.ts";

/** Something that could leave the prompt as one. */
export interface Removal {
  /** Where it starts, in tokens from the start of the prompt. */
  readonly start: number;
  /** What it consists of, each with the tokens by which the prompt would shrink. Named as long as it is there. */
  readonly parts: readonly { readonly name: string; readonly tokens: number }[];
  /** How it would leave. */
  readonly how: Way;
}

/** How something would leave: by an elision, by dropping a stretch of messages, or by an edit that is ready. */
export type Way =
  | { readonly type: "elide"; readonly candidate: ElisionCandidate }
  | { readonly type: "drop"; readonly from: number; readonly to: number }
  | CompactEdit;

/** What {@linkcode findRemovals} goes by. */
export interface RemovalOptions {
  /** Counts tokens; what is counted of an object is remembered. */
  readonly countTokens: CountTokens;
  /** What may leave and what stays. */
  readonly retention: Retention;
  /** What pruning wants to know of each tool, by name. Default: nothing is known. */
  readonly tools?: Readonly<Record<string, ToolTraits>>;
  /** Whether the model is offered the recall tool, so that lines may point to it. Default false. */
  readonly recall?: boolean;
  /** The model's context window, in tokens. Default: unknown, and no limit. */
  readonly windowTokens?: number;
  /** Whether a result reports an error; such results stay. Default: that of `selectElisions`. */
  readonly isError?: (message: ToolMessage, index: number) => boolean;
}

/** A session as it stands, and what the model would see of it. */
export interface Seen {
  readonly history: Conversation;
  readonly edits: readonly Edit[];
  readonly placed: PlacedMessages;
  /** Names of the tools that the model was shown in full. */
  readonly exposed: ReadonlySet<string>;
}

/** Share of a text's tokens that the names which stay of it are expected to take. */
const NAMES_SHARE = 0.05;

/** Tokens of the line that stands for dropped turns, without names. */
const DROP_LINE_TOKENS = 40;

/** All that could leave this view now, in the order of the prompt. */
export function findRemovals(seen: Seen, options: RemovalOptions): Removal[] {
  const { countTokens, retention } = options;
  const tools = retention.compactTools ? findCompactions(seen, countTokens) : [];
  const starts = new Map<number, number>();
  let start = 0;
  for (const tool of compactedTools(seen.history.tools, seen.edits)) {
    start += countToolTokens(tool, countTokens);
  }
  for (const [at, message] of seen.placed.messages.entries()) {
    starts.set(seen.placed.places[at] ?? -1, start);
    start += countMessageTokens(message, countTokens);
  }
  const drop = findDrop(seen, { ...options, starts });
  const elisions: Removal[] = [];
  for (const candidate of findElisions(seen, options)) {
    const { index, tokensBefore, tokensAfter } = candidate;
    const at = starts.get(index);
    if (at === undefined || (drop && index < drop.how.to)) continue;
    const names = retention.nameWorth < Infinity ? NAMES_SHARE * tokensBefore : 0;
    const part = { name: String(index), tokens: tokensBefore - tokensAfter - names };
    elisions.push({ start: at, parts: [part], how: { type: "elide", candidate } });
  }
  elisions.sort((a, b) => a.start - b.start);
  return [...tools, ...(drop ? [drop] : []), ...elisions];
}

function findElisions(
  { edits, placed: { elided } }: Seen,
  { countTokens, retention: { protectTokens }, tools, recall, windowTokens, isError }: RemovalOptions,
): ElisionCandidate[] {
  if (protectTokens === Infinity) return [];
  const gone = new Set<number>();
  for (const edit of edits) if (edit.type === "elide" && isPlaceholder(edit.text)) gone.add(edit.index);
  return selectElisions(elided, {
    countTokens,
    protectTokens,
    ...(windowTokens !== undefined && { windowTokens }),
    ...(tools && { tools }),
    ...(recall !== undefined && { recall }),
    ...(isError && { isError }),
  }).filter(({ index }) => !gone.has(index));
}

/** Whether a text stands for all of a result. One that was truncated on arrival still shows head and tail. */
function isPlaceholder(text: string): boolean {
  return parsePlaceholder(text.split("\n", 1)[0] ?? "")?.of === "result";
}

function findDrop(
  { history: { messages: history }, placed }: Seen,
  { countTokens, retention, windowTokens = Infinity, starts }: RemovalOptions & {
    readonly starts: ReadonlyMap<number, number>;
  },
): Removal & { readonly how: { readonly to: number } } | undefined {
  if (retention.historyTokens === Infinity) return undefined;
  const historyBudgetTokens = Math.min(retention.historyTokens, windowTokens / 4);
  // The last turn is the active one.
  const turns = groupTurns(history).slice(0, -1);
  const kept = fitTurns(placed.elided, turns, { countTokens, historyBudgetTokens });
  const settled = firstOpenCall(history);
  const to = turns.slice(0, turns.length - kept.length).findLast(({ end }) => end <= settled)?.end ?? 0;
  const namesShare = retention.nameWorth < Infinity ? NAMES_SHARE : 0;
  const parts: { name: string; tokens: number }[] = [];
  let from = -1;
  for (const [at, place] of placed.places.entries()) {
    if (place >= to) break;
    const message = placed.messages[at];
    if (place < 0 || !message || message.role === "system" || message.role === "developer") continue;
    const tokens = (1 - namesShare) * countMessageTokens(message, countTokens);
    parts.push({ name: String(place), tokens: from < 0 ? tokens - DROP_LINE_TOKENS : tokens });
    if (from < 0) from = place;
  }
  const start = starts.get(from);
  if (from < 0 || start === undefined) return undefined;
  return { start, parts, how: { type: "drop", from, to } };
}

/**
 * Position of the first message that made a call which nothing answers yet; the number of messages if there is none.
 * Its answer may still come, so it must not leave.
 */
export function firstOpenCall(messages: readonly Message[]): number {
  return pairCalls(messages).find(({ answer }) => !answer)?.at ?? messages.length;
}

function findCompactions({ history: { tools }, edits, exposed }: Seen, countTokens: CountTokens): Removal[] {
  const removals: Removal[] = [];
  const now = compactedTools(tools, edits);
  let start = 0;
  for (const [at, tool] of shownTools(tools, { exposed, countTokens }).tools.entries()) {
    const full = tools[at];
    const shown = now[at];
    if (!full || !shown) break;
    const tokens = countToolTokens(shown, countTokens) - countToolTokens(tool, countTokens);
    if (tokens > 0 && tool === compactTool(full)) {
      const { name } = full.function;
      const how = { type: "compact", tool: name, definition: hashPiece(full) } as const;
      removals.push({ start, parts: [{ name: `tool ${name}`, tokens }], how });
    }
    start += countToolTokens(shown, countTokens);
  }
  return removals;
}
