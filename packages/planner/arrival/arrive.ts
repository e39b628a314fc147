import type { CountTokens, Message, Rewrite } from "@tare/messages";
import { applyElisions, type Archive, type PruneOptions, resultText, truncateResults } from "@tare/prune";
import { type Edit, hiddenBy, isPlaceholder, sayEdits } from "../edits/view.ts";
import type { Arrival, Draft } from "./arrival.ts";
import { said, type SayEdit } from "./say_edit.ts";

/** What {@linkcode arrive} goes by. */
export interface ArriveOptions {
  readonly arrival: Arrival;
  readonly archive: Archive;
  readonly countTokens: CountTokens;
  readonly tools?: NonNullable<PruneOptions["tools"]>;
  /** Longest result that enters the prompt whole, in tokens. Default: none is too long. */
  readonly limitTokens?: number | undefined;
  /** Whether the model is offered the recall tool. */
  readonly recall: boolean;
  /** Positions of results that are shown as they are. */
  readonly stays: ReadonlySet<number>;
  /** Lets others in between the steps. */
  readonly inSlices: (steps: Iterator<void, void>) => Promise<void>;
}

/** What became of results before they are first sent, and what is to be told of it. */
export interface Arrived {
  /** In the order of the history. */
  readonly edits: readonly Edit[];
  /** Positions of those that show head and tail. */
  readonly truncated: readonly number[];
  readonly rewrites: readonly Rewrite[];
  readonly warnings: readonly string[];
}

/**
 * Takes in what is new of a history. New results say only what is new, and one that is too long even so shows head and
 * tail. Nothing that a request has held changes. If an original can't be archived, all results stay as they are.
 */
export async function arrive(
  history: readonly Message[],
  edits: readonly Edit[],
  options: ArriveOptions,
): Promise<Arrived> {
  const { arrival, archive } = options;
  // Behind the newest answer nothing was sent.
  const from = Math.max(0, history.findLastIndex(({ role }) => role === "assistant"));
  const drafts = new Map<number, Draft>();
  await options.inSlices(takeIn(history, edits, { ...options, from, drafts }));
  try {
    const made: SayEdit[] = [];
    for (const draft of drafts.values()) {
      const ref = await archive.put(originalOf(history[draft.index]));
      made.push({ ...draft, ref });
    }
    const cut = await truncateArrived(history, [...edits, ...made], { ...options, from });
    for (const edit of cut.edits) if (edit.type === "elide") arrival.show(edit.index, { text: edit.text });
    return { ...cut, edits: [...made, ...cut.edits] };
  } catch (cause) {
    for (const at of drafts.keys()) arrival.show(at);
    const why = `Cannot archive a result: ${(cause as Error).message}. Nothing left the prompt.`;
    return { edits: [], truncated: [], rewrites: [], warnings: [why] };
  }
}

/** Takes in the messages that the arrival doesn't know, a message at each step, and says those that are new. */
function* takeIn(
  history: readonly Message[],
  edits: readonly Edit[],
  { arrival, countTokens, limitTokens = Infinity, stays, from, drafts }: ArriveOptions & {
    readonly from: number;
    readonly drafts: Map<number, Draft>;
  },
): Generator<void, void> {
  arrival.follow(history);
  const isHidden = hiddenBy(edits);
  const saidBefore = sayEdits(edits);
  const shortened = new Map(
    edits.flatMap((edit) =>
      edit.type === "elide" && !isPlaceholder(edit.text) ? [[edit.index, edit.text]] : []
    ),
  );
  for (let at = arrival.length; at < history.length; at++) {
    arrival.take(history[at]!);
    const edit = saidBefore.get(at);
    const text = shortened.get(at);
    const isNew = at > from && !edit && text === undefined && !isHidden(at) && !stays.has(at);
    const draft = isNew ? arrival.say(at, (place) => !isHidden(place)) : undefined;
    const fits = draft && countTokens(originalOf(said(history[at]!, { ...draft, ref: "" }))) <= limitTokens;
    if (draft && fits) drafts.set(at, draft);
    arrival.show(at, { edit: edit ?? (fits ? draft : undefined), ...(text !== undefined && { text }) });
    yield;
  }
}

/** Cuts new results that are too long, before they are first sent. */
async function truncateArrived(
  history: readonly Message[],
  edits: readonly Edit[],
  { archive, countTokens, tools, limitTokens, recall, stays, from }: ArriveOptions & {
    readonly from: number;
  },
): Promise<Arrived> {
  const nothing: Arrived = { edits: [], truncated: [], rewrites: [], warnings: [] };
  if (limitTokens === undefined) return nothing;
  if (history.slice(from).every(({ role }, at) => role !== "tool" || stays.has(from + at))) return nothing;
  const saidSo = sayEdits(edits);
  const shown = history.slice(from).map((message, at) => {
    const edit = saidSo.get(from + at);
    return edit ? said(message, edit) : message;
  });
  const elided = edits.flatMap((edit) =>
    edit.type === "elide" && edit.index >= from ? [{ ...edit, index: edit.index - from }] : []
  );
  const cut = await truncateResults(applyElisions(shown, elided), {
    archive,
    countTokens,
    recall,
    limitTokens,
    ...(tools && { tools }),
  });
  if (cut.failure) return { ...nothing, warnings: [`${cut.failure.message}. Nothing left the prompt.`] };
  const elisions = cut.elisions.filter(({ index }) => !stays.has(index + from));
  if (elisions.length === 0) return nothing;
  const names = [...new Set(elisions.map(({ tool }) => tool))].join(", ");
  const { tokensBefore } = cut;
  return {
    edits: elisions.map(({ index, toolCallId, ref, text }) => ({
      type: "elide",
      index: index + from,
      toolCallId,
      ref,
      text,
    })),
    truncated: elisions.map(({ index }) => index + from),
    rewrites: [{
      mechanism: "truncate",
      reason: "over the limit on arrival",
      removed: `the middle of ${elisions.length} result${elisions.length === 1 ? "" : "s"} of ${names}`,
      tokensBefore,
      tokensAfter: elisions.reduce((sum, one) => sum - one.tokensBefore + one.tokensAfter, tokensBefore),
    }],
    warnings: [],
  };
}

/**
 * The edits, with those by which results say themselves what they referred to and what is shown no longer. What they
 * refer to stands in front of them, so that behind it nothing was kept by the cache.
 */
export function writeOut(edits: readonly Edit[], arrival: Arrival): readonly Edit[] {
  const isHidden = hiddenBy(edits);
  const isShown = (place: number) => !isHidden(place);
  /** Where the last edit of each result stands by which it became shorter. */
  const cutAt = new Map(edits.flatMap((edit, at) => edit.type === "elide" ? [[edit.index, at]] : []));
  const made: SayEdit[] = [];
  for (const edit of sayEdits(edits).values()) {
    if (isHidden(edit.index) || cutAt.has(edit.index)) continue;
    const saidAt = edits.lastIndexOf(edit);
    const cut = edit.references.filter(({ source }) => (cutAt.get(source) ?? -1) > saidAt);
    for (const { source } of cut) {
      const shorter = edits[cutAt.get(source)!];
      if (shorter?.type === "elide" && isShown(source)) arrival.show(source, { text: shorter.text });
    }
    if (cut.length === 0 && edit.references.every(({ source }) => isShown(source))) continue;
    const again: SayEdit = {
      ...edit,
      notation: false,
      notationTokens: 0,
      references: [],
      ...arrival.say(edit.index, isShown),
    };
    arrival.show(edit.index, { edit: again });
    made.push(again);
  }
  return made.length > 0 ? [...edits, ...made] : edits;
}

function originalOf(message: Message | undefined): string {
  return message?.role === "tool" ? resultText(message) ?? "" : "";
}
