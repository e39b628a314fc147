import type { CountTokens, Message } from "@tare/messages";
import {
  type Archive,
  archiveMessages,
  elide,
  type ElisionCandidate,
  formatPlaceholder,
  type ToolTraits,
} from "@tare/prune";
import type { Removal } from "../retention/find_removals.ts";
import type { DropEdit, Edit } from "./edit.ts";

/** What {@linkcode makeEdits} goes by. */
export interface MakeEditsOptions {
  readonly countTokens: CountTokens;
  readonly archive: Archive;
  readonly tools?: Readonly<Record<string, ToolTraits>>;
  readonly recall?: boolean;
}

/** A history, with its results as the model sees them, and the edits made so far. */
export interface Edited {
  readonly history: readonly Message[];
  readonly elided: readonly Message[];
  readonly edits: readonly Edit[];
}

/**
 * Archives what leaves, then makes the edits by which it leaves. Steps side by side share a line, also with those that
 * left before, if their line stands behind the first thing that leaves now: otherwise it would move, and what stands
 * behind it with it.
 *
 * @throws {Error} if something can't be archived. Then nothing may leave.
 */
export async function makeEdits(
  { history, elided, edits }: Edited,
  removals: readonly Pick<Removal, "how">[],
  options: MakeEditsOptions,
): Promise<Edit[]> {
  const { countTokens, archive, tools, recall = false } = options;
  const candidates: ElisionCandidate[] = [];
  const made: Edit[] = [];
  const stretches: Stretch[] = [];
  let first = Infinity;
  for (const { how } of removals) {
    if (how.type === "elide") candidates.push(how.candidate);
    else if (how.type === "compact") made.push(how);
    if (how.type === "drop") stretches.push(how);
    first = Math.min(
      first,
      how.type === "compact" ? -1 : how.type === "elide" ? how.candidate.index : how.from,
    );
  }
  const before = edits.filter((edit): edit is DropEdit => edit.type === "drop");
  for (const stretch of joined(stretches, before.filter(({ to }) => to > first))) {
    made.push(await drop(history, stretch, { archive, recall }));
  }
  // As the model sees them: of a result that was truncated on arrival the whole original is in the archive.
  const elisions = await elide(elided, candidates, { countTokens, archive, recall, ...(tools && { tools }) });
  for (const { index, toolCallId, ref, text } of elisions) {
    made.push({ type: "elide", index, toolCallId, ref, text });
  }
  return made;
}

/** Messages from one position up to another. */
type Stretch = Pick<DropEdit, "from" | "to">;

/** Stretches with those beside them as one; of those from `before` alone none. */
function joined(stretches: readonly Stretch[], before: readonly Stretch[]): Stretch[] {
  const all: { from: number; to: number; isNew: boolean }[] = [];
  const sorted = [
    ...stretches.map(({ from, to }) => ({ from, to, isNew: true })),
    ...before.map(({ from, to }) => ({ from, to, isNew: false })),
  ].sort((a, b) => a.from - b.from);
  for (const stretch of sorted) {
    const last = all.at(-1);
    if (!last || stretch.from > last.to) {
      all.push({ ...stretch });
      continue;
    }
    last.to = Math.max(last.to, stretch.to);
    last.isNew ||= stretch.isNew;
  }
  return all.filter(({ isNew }) => isNew);
}

async function drop(
  history: readonly Message[],
  { from, to }: Stretch,
  { archive, recall }: { readonly archive: Archive; readonly recall: boolean },
): Promise<DropEdit> {
  const messages = history.slice(from, to);
  const { ref } = await archiveMessages(messages, { archive, purpose: "drop" });
  const text = formatPlaceholder({ of: "messages", messages: messages.length, ref }, { recall });
  return { type: "drop", from, to, ref, text };
}

/** The edits after new ones: those of messages that left since have nothing to say any more. */
export function withEdits(edits: readonly Edit[], made: readonly Edit[]): readonly Edit[] {
  if (made.length === 0) return edits;
  const stretches = made.filter((edit) => edit.type === "drop");
  const left = (from: number, to: number) =>
    stretches.some((stretch) => stretch.from <= from && to <= stretch.to);
  const elided = new Set(made.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
  const stays = new Set(edits.flatMap((edit) => edit.type === "keep" ? [edit.index] : []));
  const kept = edits.filter((edit) => {
    if (edit.type === "compact" || edit.type === "summarise" || edit.type === "keep") return true;
    if (edit.type === "drop") return !left(edit.from, edit.to);
    return !elided.has(edit.index) && (stays.has(edit.index) || !left(edit.index, edit.index + 1));
  });
  return [...kept, ...made];
}
