import {
  CallPairing,
  type CountTokens,
  hashPiece,
  meantCall,
  type Message,
  type Rewrite,
  type ToolCall,
  type ToolMessage,
} from "@tare/messages";
import {
  applyElisions,
  type Archive,
  looksLikeError,
  parsePlaceholder,
  type PruneOptions,
  RECALL_TOOL,
  resultText,
  traitsOf,
  truncateResults,
} from "@tare/prune";
import { type Edit, hiddenBy, sayEdits, standsForAll } from "../edits/view.ts";
import { readCall } from "../retention/call_facts.ts";
import { hashLines, LineIndex } from "./line_index.ts";
import {
  labelOf,
  notate,
  type Notated,
  quotesOf,
  type Reference,
  said,
  saidText,
  type SayEdit,
} from "./said.ts";

/** How results are said. */
export interface ArrivalOptions {
  readonly countTokens: CountTokens;
  readonly tools?: NonNullable<PruneOptions["tools"]>;
  readonly isError?: (message: ToolMessage, index: number) => boolean;
  /** Whether notation that says nothing goes. */
  readonly notation: boolean;
  /** Whether what the prompt shows already is sent as a reference. */
  readonly references: boolean;
}

/** How a result is said, before its original is archived. */
export type Draft = Omit<SayEdit, "ref">;

/** Shortest block that becomes a reference, in tokens, and how many times as long as its label it must be. */
const LEAST_TOKENS = 80;
const LABELS = 1.3;

/** A result that is shorter, in characters, stays as it is. */
const LEAST_CHARACTERS = 300;

/** So many messages' lines stay in memory. */
const KNOWN_PLACES = 64;

/** A message that was taken in. */
interface Taken {
  readonly message: Message;
  /** The call that it answers. */
  readonly call: ToolCall | undefined;
  /** Under which edit it is shown, or as which text. */
  edit?: Draft | undefined;
  text?: string | undefined;
}

/** Lines of a message that belong together; one that can't be meant is `undefined`. */
interface Passage {
  /** What the model knows them by. */
  readonly as: string;
  readonly lines: readonly (string | undefined)[];
}

/**
 * What a prompt shows, line by line, so that a new result says only what is new. All of it follows from the history and
 * its edits. A message costs what it says.
 */
export class Arrival {
  readonly #options: ArrivalOptions;
  #index = new LineIndex();
  #taken: Taken[] = [];
  #pairing = new CallPairing();
  /** Where what is known by a name stands, from the oldest on. */
  #places = new Map<string, number[]>();
  readonly #passages = new Map<number, readonly Passage[]>();

  /** Nothing is shown yet. */
  constructor(options: ArrivalOptions) {
    this.#options = options;
  }

  /** How many messages were taken in. */
  get length(): number {
    return this.#taken.length;
  }

  /** Forgets everything if a history doesn't go on from the one that was taken in. */
  follow(history: readonly Message[]): void {
    if (this.#taken.every(({ message }, at) => message === history[at])) return;
    this.#index = new LineIndex();
    this.#taken = [];
    this.#pairing = new CallPairing();
    this.#places = new Map();
    this.#passages.clear();
  }

  /** Takes in the next message. It counts once it is told how it is shown. */
  take(message: Message): void {
    this.#taken.push({ message, call: this.#pairing.add(message)?.call });
  }

  /** Takes note of how a message is shown from now on: as it is, after an edit, or as another text. */
  show(
    place: number,
    { edit, text }: { readonly edit?: Draft | undefined; readonly text?: string } = {},
  ): void {
    const taken = this.#taken[place]!;
    taken.edit = edit;
    taken.text = text;
    this.#passages.delete(place);
    const passages = this.#passagesOf(place);
    if (!this.#options.references || passages.length === 0) return;
    this.#index.add(place, passages.flatMap(({ lines }) => [...lines, undefined]));
    for (const name of new Set(passages.map(({ as }) => as))) {
      const places = this.#places.get(name);
      if (!places) this.#places.set(name, [place]);
      else if (!places.includes(place)) places.push(place);
    }
  }

  /**
   * How a result is best said; nothing if as it is.
   *
   * @param isShown Whether the model sees a message in front of it.
   */
  say(place: number, isShown: (place: number) => boolean): Draft | undefined {
    const { message, call } = this.#taken[place]!;
    const text = message.role === "tool" ? resultText(message) : undefined;
    if (message.role !== "tool" || text === undefined || !call || !this.#maySay(message, place, call)) {
      return undefined;
    }
    const { countTokens, notation, references } = this.#options;
    const fileText = this.#factsOf(call).reads;
    const notated = notate(text, { fileText, notation });
    const found = references ? this.#refer(notated, { place, isShown }) : [];
    const allTokens = countTokens(text);
    const tokensWith = (references: readonly Reference[]) =>
      countTokens(saidText(message, { fileText, notation, references }));
    const notationTokens = notation ? Math.max(0, allTokens - tokensWith([])) : 0;
    const isShorter = notationTokens > 0 || found.length > 0 && tokensWith(found) < allTokens;
    if (!isShorter) return undefined;
    return {
      type: "say",
      index: place,
      toolCallId: message.tool_call_id,
      hash: hashPiece(message),
      fileText,
      notation,
      notationTokens,
      references: found,
    };
  }

  #maySay(message: ToolMessage, place: number, call: ToolCall): boolean {
    const { tools, isError = looksLikeError } = this.#options;
    if ((resultText(message)?.length ?? 0) < LEAST_CHARACTERS) return false;
    if (message.failed ?? isError(message, place)) return false;
    const { name } = meantCall(call);
    return name !== RECALL_TOOL.function.name &&
      traitsOf(name, { ...(tools && { tools }) }).stance !== "keep";
  }

  /** The blocks of a text that the prompt shows in front of it, in order. */
  #refer(
    notated: Notated,
    { place, isShown }: { readonly place: number; readonly isShown: (place: number) => boolean },
  ): Reference[] {
    const { countTokens } = this.#options;
    const lines = withoutReminders(notated.lines);
    const hashes = hashLines(lines);
    const isAbove = (at: number) => at < place && isShown(at);
    const references: Reference[] = [];
    let from = 0;
    for (let at = 0; at < lines.length; at++) {
      const block = this.#index.find(hashes, { at, from }, isAbove);
      if (!block) continue;
      const trimmed = withoutBlanks(notated.lines, block);
      const as = this.#nameAt(block.source.place, block.source.from);
      const source = as === undefined
        ? undefined
        : this.#resolve(as, notated.lines.slice(trimmed.from, trimmed.to), isAbove, place);
      if (as !== undefined && source !== undefined) {
        const tokens = countTokens(notated.lines.slice(trimmed.from, trimmed.to).join("\n"));
        const labelTokens = countTokens(labelOf(notated, { ...trimmed, as }));
        if (tokens >= LEAST_TOKENS && tokens >= LABELS * labelTokens) {
          const hash = hashPiece(this.#taken[source]!.message);
          references.push({ ...trimmed, source, hash, as, tokens: tokens - labelTokens });
          from = trimmed.to;
        }
      }
      at = Math.max(at, block.to - 1);
    }
    return references;
  }

  /**
   * The message that a label with this name and these lines' quotes means: the nearest above in which they stand. Nothing
   * if other lines answer to it there, or too many messages of that name stand in between.
   */
  #resolve(
    as: string,
    block: readonly string[],
    isAbove: (place: number) => boolean,
    below: number,
  ): number | undefined {
    if (block.length === 0) return undefined;
    const { first, last } = quotesOf(block, { from: 0, to: block.length });
    const places = this.#places.get(as) ?? [];
    for (let at = places.length - 1, looked = 0; at >= 0 && looked < KNOWN_PLACES; at--) {
      const place = places[at]!;
      if (place >= below || !isAbove(place)) continue;
      looked++;
      for (const { as: name, lines } of this.#passagesOf(place)) {
        if (name !== as) continue;
        for (let at = 0; at + block.length <= lines.length; at++) {
          if (!lines[at]?.trim().startsWith(first)) continue;
          if (!lines[at + block.length - 1]?.trim().endsWith(last)) continue;
          return block.every((line, more) => lines[at + more] === line) ? place : undefined;
        }
      }
    }
    return undefined;
  }

  /** What the model knows a line of a message by. */
  #nameAt(place: number, line: number): string | undefined {
    let start = 0;
    for (const { as, lines } of this.#passagesOf(place)) {
      start += lines.length + 1;
      if (line < start) return as;
    }
    return undefined;
  }

  #passagesOf(place: number): readonly Passage[] {
    const known = this.#passages.get(place);
    if (known) return known;
    const passages = this.#readPassages(this.#taken[place]!);
    const [oldest] = this.#passages.keys();
    if (this.#passages.size >= KNOWN_PLACES && oldest !== undefined) this.#passages.delete(oldest);
    this.#passages.set(place, passages);
    return passages;
  }

  #readPassages({ message, call, edit, text }: Taken): readonly Passage[] {
    if (message.role === "assistant") {
      return (message.tool_calls ?? []).flatMap((call) => {
        const { texts, files: [file] } = this.#factsOf(call);
        const as = file ?? `the call of ${meantCall(call).name}`;
        return texts.map((text) => ({ as, lines: text.split("\n") }));
      });
    }
    const result = text ?? (message.role === "tool" ? resultText(message) : undefined);
    if (!call || result === undefined) return [];
    const { reads: fileText, files: [file] } = this.#factsOf(call);
    const { notation = false, references = [] } = edit ?? {};
    const lines: (string | undefined)[] = withoutReminders(notate(result, { fileText, notation }).lines);
    for (const { from, to } of references) lines.fill(undefined, from, to);
    const as = fileText && file !== undefined ? file : `the result of ${meantCall(call).name}`;
    return [{ as, lines }];
  }

  #factsOf(call: ToolCall): ReturnType<typeof readCall> {
    return readCall(call, this.#options.tools);
  }
}

/** The lines of a text but for what stands for others, and for what the harness adds to a result. */
function withoutReminders(lines: readonly string[]): (string | undefined)[] {
  let isReminder = false;
  return lines.map((line) => {
    isReminder ||= line.includes("<system-reminder>");
    const shown = isReminder || parsePlaceholder(line) ? undefined : line;
    if (line.includes("</system-reminder>")) isReminder = false;
    return shown;
  });
}

/** A block without the blank lines with which it begins and ends. */
function withoutBlanks(
  lines: readonly string[],
  { from, to }: { readonly from: number; readonly to: number },
): { readonly from: number; readonly to: number } {
  while (from < to && lines[from]!.trim() === "") from++;
  while (from < to && lines[to - 1]!.trim() === "") to--;
  return { from, to };
}

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
  const made: SayEdit[] = [];
  try {
    for (const draft of drafts.values()) {
      const ref = await archive.put(originalOf(history[draft.index]));
      made.push({ ...draft, ref });
    }
  } catch (cause) {
    for (const at of drafts.keys()) arrival.show(at);
    const why = `Cannot archive a result: ${(cause as Error).message}. Nothing left the prompt.`;
    return { edits: [], truncated: [], rewrites: [], warnings: [why] };
  }
  const cut = await truncateArrived(history, [...edits, ...made], { ...options, from });
  for (const edit of cut.edits) if (edit.type === "elide") arrival.show(edit.index, { text: edit.text });
  return { ...cut, edits: [...made, ...cut.edits] };
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
    edits.flatMap((edit) => edit.type === "elide" && !standsForAll(edit) ? [[edit.index, edit.text]] : []),
  );
  for (let at = arrival.length; at < history.length; at++) {
    arrival.take(history[at]!);
    const edit = saidBefore.get(at);
    const text = shortened.get(at);
    const isNew = at > from && !edit && text === undefined && !isHidden(at) && !stays.has(at);
    const draft = isNew ? arrival.say(at, (place) => !isHidden(place)) : undefined;
    const fits = draft && countTokens(saidText(history[at]!, draft)) <= limitTokens;
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
  /** Where the last edit of each result stands by which it became shorter, and the last by which it is said. */
  const cutAt = new Map(edits.flatMap((edit, at) => edit.type === "elide" ? [[edit.index, at]] : []));
  const saidLast = new Map(edits.flatMap((edit, at) => edit.type === "say" ? [[edit.index, at]] : []));
  const made: SayEdit[] = [];
  for (const edit of sayEdits(edits).values()) {
    if (edit.references.length === 0 || isHidden(edit.index) || cutAt.has(edit.index)) continue;
    const saidAt = saidLast.get(edit.index)!;
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
