import { type CountTokens, estimateTokens, type Message } from "@tare/messages";
import { countMessageTokens, countToolTokens, hashPiece } from "@tare/messages/internal";
import { compactTool } from "@tare/schemas";
import { servedTokens, toProvider } from "../cache/prefix.ts";
import type { LedgerEntry } from "../ledger/entry.ts";
import { compactsAgain, withoutBaseline } from "../ledger/ledger.ts";
import type { FlatSessionOptions, SessionView } from "../prompt_session.ts";
import {
  type BookedUsage,
  type KnownSession,
  type Plan,
  planAsItIs,
  type RewriteRequest,
} from "../rule/inspect.ts";
import type { Edit } from "./edit.ts";
import { firstIngestEdits } from "./view.ts";

export interface Restored {
  readonly view: SessionView;
  readonly plan: Plan;
  /** Tokens of the conversation as of its baseline, without the request's instruction. */
  readonly ownTokens: number;
  /** Returns the cost of the request and of its baseline; changes no session. */
  readonly book: (sent: BookedUsage) => LedgerEntry;
}

const REPLY_SHARE = 0.1;

/**
 * Plans a request that isn't a turn: the newest turn's view plus new messages; with `restores` also evicted
 * content, as far as it fits. `known` is a copy, which changes.
 */
export function restore(
  known: KnownSession,
  request: RewriteRequest,
  { countTokens, restores }: Pick<FlatSessionOptions, "countTokens"> & { readonly restores: boolean },
): Restored {
  const before = known.inspection(request);
  const { size, scale, promptTokens, baseline, situation: { windowTokens } } = before;
  const isRepeated = compactsAgain(known.account);
  if (!isRepeated && toProvider(baseline.ownTokens, { ...baseline, scale }) <= windowTokens) {
    known.refuteCompaction();
  }
  const replyTokens = Math.min(request.replyTokens ?? Infinity, REPLY_SHARE * windowTokens);
  const room = (windowTokens - replyTokens - Math.sqrt(size.tokens * size.atMost)) /
    Math.max(scale.perToken, size.tokens / promptTokens);
  const edits = restores ? unrestored(request, { room, countTokens }) : request.edits;
  const inspection = edits === request.edits ? before : known.inspection({ ...request, edits });
  const plan = planAsItIs({ ...inspection, evicted: [] }, { ...request, edits }, { countTokens });
  const { view: { messages, tools, places }, predicted, stable, saved } = plan;
  return {
    view: {
      ...{ messages, tools, places, stable, saved },
      rewrites: [],
      warnings: [],
      promptTokens: plan.promptTokens,
      predictedCachedTokens: servedTokens(known.profile, {
        promptTokens: plan.promptTokens,
        sharedTokens: predicted.sharedTokens,
      }),
    },
    plan,
    ownTokens: baseline.ownTokens - countMessages(instructionOf(request.messages), countTokens),
    book: (sent) => isRepeated ? withoutBaseline(known.book(plan, sent)) : known.book(plan, sent),
  };
}

/** Returns the user messages at the end. */
function instructionOf(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex(({ role }) => role !== "user") + 1);
}

function countMessages(messages: readonly Message[], countTokens: CountTokens): number {
  return messages.reduce((sum, message) => sum + countMessageTokens(message, countTokens), 0);
}

/**
 * Returns the edits that stay when evicted content is restored in this room, in tokens counted locally: the
 * newest first, schemas last, skipping those that don't fit. Compressed results stay, because they can be
 * rebuilt from the visible text.
 */
function unrestored(
  { messages: history, tools, edits }: Pick<RewriteRequest, "messages" | "tools" | "edits">,
  { room, countTokens = estimateTokens }: Pick<FlatSessionOptions, "countTokens"> & {
    readonly room: number;
  },
): readonly Edit[] {
  const tokensOf = (from: number, to: number) => countMessages(history.slice(from, to), countTokens);
  const removals = edits.flatMap((edit) => {
    if (edit.type === "ingest" || edit.type === "keep" || edit.type === "compact") return [];
    const [from, to] = "index" in edit ? [edit.index, edit.index + 1] : [edit.from, edit.to];
    return [{ edit, from, to, tokens: tokensOf(from, to) - countTokens(edit.text) }];
  }).sort((a, b) => b.to - a.to);
  const schemas = edits.flatMap((edit) => {
    const tool = edit.type === "compact" && tools.find((one) => hashPiece(one) === edit.definition);
    if (!tool) return [];
    return [{
      edit,
      tokens: countToolTokens(tool, countTokens) - countToolTokens(compactTool(tool), countTokens),
    }];
  });
  const restored = new Set<Edit>();
  let left = room;
  for (const { edit, tokens } of [...removals, ...schemas]) {
    if (tokens > left) continue;
    left -= Math.max(0, tokens);
    restored.add(edit);
  }
  const retained = edits.filter((edit) => !restored.has(edit));
  const arrived = firstIngestEdits(edits);
  // The eviction of a source expanded its references; once the source is restored, the result gets its first
  // form again.
  const isHidden = ({ source }: { readonly source: number }) =>
    removals.some(({ edit, from, to }) => !restored.has(edit) && from <= source && source < to);
  return retained.filter((edit) => {
    const first = edit.type === "ingest" ? arrived.get(edit.index) : undefined;
    return !first || edit === first || first.references.some(isHidden);
  });
}
