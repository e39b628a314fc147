import type { CountTokens } from "@tare/messages";
import {
  addNames,
  type Archive,
  archiveMessages,
  elide,
  type ElisionCandidate,
  formatPlaceholder,
  type ToolTraits,
} from "@tare/prune";
import type { DropEdit, Edit } from "./edit.ts";
import type { Removal, Seen } from "../retention/find_removals.ts";
import { messageText, namesToKeep, unseenNames } from "../retention/names.ts";
import type { Retention } from "../retention/retention.ts";
import { placeMessages } from "./view.ts";

/** What {@linkcode makeEdits} goes by. */
export interface MakeEditsOptions {
  readonly countTokens: CountTokens;
  readonly archive: Archive;
  readonly retention: Retention;
  readonly tools?: Readonly<Record<string, ToolTraits>>;
  readonly recall?: boolean;
}

/**
 * Archives what leaves, then makes the edits by which it leaves.
 *
 * @throws {Error} if something can't be archived. Then nothing may leave.
 */
export async function makeEdits(
  seen: Seen,
  removals: readonly Removal[],
  options: MakeEditsOptions,
): Promise<Edit[]> {
  const { countTokens, archive, tools, recall = false } = options;
  const candidates: ElisionCandidate[] = [];
  const edits: Edit[] = [];
  for (const { how } of removals) {
    if (how.type === "elide") candidates.push(how.candidate);
    else if (how.type === "drop") edits.push(await drop(seen, how, { archive, recall }));
    else edits.push(how);
  }
  // As the model sees them: of a result that was truncated on arrival the whole original is in the archive.
  const elisions = await elide(seen.placed.elided, candidates, {
    countTokens,
    archive,
    recall,
    ...(tools && { tools }),
  });
  for (const { index, toolCallId, ref, text } of elisions) {
    edits.push({ type: "elide", index, toolCallId, ref, text });
  }
  return withNames(seen, edits, options);
}

async function drop(
  { history }: Seen,
  { from, to }: { readonly from: number; readonly to: number },
  { archive, recall }: { readonly archive: Archive; readonly recall: boolean },
): Promise<DropEdit> {
  const messages = history.messages.slice(from, to);
  const { ref } = await archiveMessages(messages, { archive, purpose: "drop" });
  const text = formatPlaceholder({ of: "messages", messages: messages.length, ref }, { recall });
  return { type: "drop", from, to, ref, text };
}

/** Adds to each line the names that would otherwise be seen nowhere. */
function withNames(
  { history, edits: before, placed }: Seen,
  edits: readonly Edit[],
  { countTokens, retention: { nameWorth: worth } }: MakeEditsOptions,
): Edit[] {
  if (worth === Infinity) return [...edits];
  const leaving = edits.map((edit) => {
    if (edit.type === "compact") return [];
    const [from, to] = "index" in edit ? [edit.index, edit.index + 1] : [edit.from, edit.to];
    return placed.messages.filter((_, at) => {
      const place = placed.places[at] ?? -1;
      return from <= place && place < to;
    });
  });
  const staying = placeMessages(history.messages, [...before, ...edits]).messages;
  const unseen = unseenNames(leaving.flat(), staying);
  return edits.map((edit, at) => {
    if (edit.type === "compact") return edit;
    const text = (leaving[at] ?? []).map(messageText).join("\n");
    const names = namesToKeep(text, { countTokens, unseen, worth });
    return { ...edit, text: addNames(edit.text, names) };
  });
}
