import {
  type CountTokens,
  countToolTokens,
  type Message,
  pairCalls,
  type ToolDefinition,
} from "@tare/messages";
import { type ElisionCandidate, RECALL_TOOL } from "@tare/prune";
import { compactTool, shownTools } from "@tare/schemas";
import { hashPiece } from "../cache/prompt_units.ts";
import { scaled, type TokenScale } from "../cache/provider_tokens.ts";
import type { CompactEdit } from "../edits/edit.ts";
import type { Layout } from "../edits/layout.ts";
import type { Profile } from "../providers.ts";
import type { Retention } from "./retention.ts";
import type { Result, Standings, Step } from "./standings.ts";

/** Something that could leave the prompt as one. Tokens are the provider's. */
export interface Removal {
  /** Where it starts, in tokens from the start of the prompt. */
  readonly start: number;
  /** Tokens by which the prompt would shrink. */
  readonly tokens: number;
  /** What it consists of, each with its tokens. Named as long as it is there. */
  readonly parts: readonly { readonly name: string; readonly tokens: number }[];
  /** Whether carrying it costs more than its absence. Only then its rent counts, and only at such a place a cut starts. */
  readonly idle: boolean;
  /** Whether it isn't worth being written again, so that it goes with a cut in front of it. */
  readonly goes: boolean;
  /** What its absence is expected to cost over the horizon. */
  readonly loss: number;
  /** How it would leave. */
  readonly how: Way;
}

/** How something would leave: by an elision, by dropping a stretch of messages, or by an edit that is ready. */
export type Way =
  | { readonly type: "elide"; readonly candidate: ElisionCandidate }
  | { readonly type: "drop"; readonly from: number; readonly to: number }
  | CompactEdit;

/** A session as it stands. */
export interface Seen {
  readonly layout: Layout;
  readonly standings: Standings;
  /** Tools in full, and as the model sees them. */
  readonly tools: readonly ToolDefinition[];
  readonly shownTools: readonly ToolDefinition[];
  /** Tokens of the tools as the model sees them, counted here. */
  readonly toolTokens: number;
}

/** What {@linkcode findRemovals} goes by. */
export interface RemovalOptions {
  /** Counts tokens; what is counted of an object is remembered. */
  readonly countTokens: CountTokens;
  /** What may leave and what stays. */
  readonly retention: Retention;
  readonly profile: Profile;
  readonly scale: TokenScale;
  /** The model's context window, in tokens. Default: unknown, and no limit. */
  readonly windowTokens?: number;
  /** Whether the window is full: then steps leave whole where they can, whatever they are worth. */
  readonly full: boolean;
}

/** Results with fewer tokens stay. */
const MIN_TOKENS = 60;

/** Tokens of the line that stands for a result, and of the one that stands for steps. */
const PLACEHOLDER_TOKENS = 32;
const LINE_TOKENS = 28;

/**
 * All that can leave, in the order of the prompt, worth keeping or not. Of old turns steps leave whole; of a step that is
 * worth more than that, only results.
 */
export function findRemovals(seen: Seen, options: RemovalOptions): Removal[] {
  const { layout, standings } = seen;
  const { retention, scale, windowTokens = Infinity } = options;
  const removals: Removal[] = retention.compactTools ? findCompactions(seen, options) : [];
  const tail = Math.min(retention.tailTokens, windowTokens / 4) / scale.perToken;
  const steps = retention.steps ? standings.steps : [];
  let nextStep = 0;
  let nextResult = 0;
  let lineAt = -1;
  const takeResults = (end: number) => {
    if (!retention.results) return;
    for (
      let result = standings.results[nextResult];
      result && result.at < end;
      result = standings.results[++nextResult]
    ) {
      const removal = elision(result, seen, options);
      if (removal) removals.push(removal);
    }
  };
  for (let step = steps[nextStep]; step && step.to <= standings.stepsEnd; step = steps[++nextStep]) {
    const found = layout.find(step.from);
    if (!found) continue;
    if (layout.tokens - found.start <= tail) break;
    const removal = stepRemoval(step, seen, { ...options, line: lineAt !== step.from });
    if (!options.full && !removal.idle && !removal.goes) continue;
    takeResults(step.from);
    removals.push(removal);
    lineAt = step.to;
    while ((standings.results[nextResult]?.at ?? Infinity) < step.to) nextResult++;
  }
  takeResults(standings.newestAnswer);
  return removals;
}

function elision(result: Result, seen: Seen, options: RemovalOptions): Removal | undefined {
  const { at, tool, recalled } = result;
  const { layout, standings } = seen;
  const found = layout.find(at);
  if (!found || scaled({ ...options.scale, unseen: 0 }, found.tokens) < MIN_TOKENS) return undefined;
  const bearer = standings.bearers[at]!;
  if (options.retention.pins && at >= standings.activeStart && standings.isPinned(bearer)) return undefined;
  if (recalled !== undefined && standings.isRecalledOften(recalled)) return undefined;
  if (found.message !== result.message && standings.showsRecalled(String(found.message.content))) {
    return undefined;
  }
  const tokens = options.scale.perToken * found.tokens - PLACEHOLDER_TOKENS;
  const candidate: ElisionCandidate = {
    index: at,
    toolCallId: result.message.tool_call_id,
    tool,
    tokensBefore: found.tokens,
    tokensAfter: PLACEHOLDER_TOKENS,
    reason: "old",
  };
  return {
    start: scaled(options.scale, seen.toolTokens + found.start),
    tokens,
    parts: [{ name: String(at), tokens }],
    ...worth(tokens, [at], seen, options),
    how: { type: "elide", candidate },
  };
}

function stepRemoval(
  { from, to }: Step,
  seen: Seen,
  { line, ...options }: RemovalOptions & { readonly line: boolean },
): Removal {
  const { layout } = seen;
  const parts: { name: string; tokens: number }[] = [];
  const shown: number[] = [];
  let tokens = line ? -LINE_TOKENS : 0;
  for (let at = from; at < to; at++) {
    const its = options.scale.perToken * layout.tokensAt(at);
    parts.push({ name: String(at), tokens: its });
    tokens += its;
    if (layout.find(at)) shown.push(at);
  }
  return {
    start: scaled(options.scale, seen.toolTokens + layout.find(from)!.start),
    tokens,
    parts,
    ...worth(tokens, shown, seen, options),
    how: { type: "drop", from, to },
  };
}

/**
 * Weighs what the absence of messages costs against what it saves. A loss that falls with its age `a` adds up to
 * `L · a · ln(1 + H/a)` over H calls.
 */
function worth(
  tokens: number,
  places: readonly number[],
  { layout, standings }: Seen,
  { retention, profile, scale }: RemovalOptions,
): Pick<Removal, "idle" | "goes" | "loss"> {
  const { call } = standings;
  const { horizonCalls } = retention;
  let loss = 0;
  let ahead = 0;
  for (const at of places) {
    const bearer = standings.bearers[at]!;
    const { start, tokens } = layout.find(at)!;
    const wantedAge = 1 + call - bearer.wanted;
    const its = retention.loss({
      tokens: scale.perToken * tokens,
      tokensBehind: scale.perToken * (layout.tokens - start - tokens),
      fileText: bearer.fileText,
      edits: bearer.edits,
      names: bearer.names,
      age: 1 + call - bearer.came,
      wantedAge,
      fileAge: standings.fileAge(bearer),
    }, profile);
    loss += its;
    ahead += horizonCalls > 0 ? its * wantedAge * Math.log(1 + horizonCalls / wantedAge) : its;
  }
  const idle = tokens > 0 && loss <= tokens * profile.read;
  return {
    idle,
    goes: horizonCalls > 0
      ? tokens > 0 && ahead <= tokens * (profile.write + horizonCalls * profile.read)
      : idle,
    loss: ahead,
  };
}

/** Tools that the model has called. One that it hasn't needs its prose still, and so does the one that brings things back. */
function findCompactions(
  { tools, shownTools: now, standings }: Seen,
  { countTokens, scale }: RemovalOptions,
): Removal[] {
  const removals: Removal[] = [];
  const alwaysFull = [RECALL_TOOL.function.name];
  const compact = shownTools(tools, { exposed: standings.called, countTokens, alwaysFull }).tools;
  let start = 0;
  for (const [at, tool] of compact.entries()) {
    const full = tools[at];
    const shown = now[at];
    if (!full || !shown) break;
    const tokens = scale.perToken *
      (countToolTokens(shown, countTokens) - countToolTokens(tool, countTokens));
    if (tokens > 0 && tool === compactTool(full)) {
      const { name } = full.function;
      removals.push({
        start: scaled(scale, start),
        tokens,
        parts: [{ name: `tool ${name}`, tokens }],
        idle: true,
        goes: true,
        loss: 0,
        how: { type: "compact", tool: name, definition: hashPiece(full) },
      });
    }
    start += countToolTokens(shown, countTokens);
  }
  return removals;
}

/**
 * Position of the first message that made a call which nothing answers yet; the number of messages if there is none.
 * Its answer may still come, so it must not leave.
 */
export function firstOpenCall(messages: readonly Message[]): number {
  return pairCalls(messages).find(({ answer }) => !answer)?.at ?? messages.length;
}
