import type { Message, Rewrite, ToolCall, ToolMessage } from "@tare/messages";
import { CallPairing, hashPiece, meantCall, reasonOf } from "@tare/messages/internal";
import { applyElisions, RECALL_TOOL, truncateResults } from "@tare/prune";
import { archiveText, parsePlaceholder, reportsError, resultText, traitsOf } from "@tare/prune/internal";
import type { DropEdit, Edit, ElideEdit, SummarizeEdit } from "../edits/edit.ts";
import { lastIngestEdits, standsForAll } from "../edits/view.ts";
import { allAtOnce, type FlatSessionOptions } from "../prompt_session.ts";
import { howMany } from "../rule/decide.ts";
import { type CallFacts, readCall } from "../tools_of_agents.ts";
import { chooseCompression } from "./choose_compression.ts";
import {
  compress,
  type CompressedText,
  ingested,
  type IngestEdit,
  ingestedText,
  labelOf,
  quotesOf,
  type Reference,
} from "./ingested.ts";

export interface IngestionOptions
  extends Pick<FlatSessionOptions, "countTokens" | "tools" | "isError" | "archive" | "inSlices"> {
  readonly normalization: boolean;
  readonly references: boolean;
}

type Draft = Omit<IngestEdit, "ref">;

/** Shortest block that becomes a reference, in tokens, and its least ratio to its label. */
const LEAST_TOKENS = 80;
const LABELS = 1.3;

/** Shortest result that is compressed, in characters. */
const LEAST_CHARACTERS = 300;

/** Messages of the same name that are searched for the one that a label identifies. */
const KNOWN_PLACES = 64;

const HELD_PLACES = 8;

interface Taken {
  readonly message: Message;
  readonly call: ToolCall | undefined;
  edit?: Draft | undefined;
  text?: string | undefined;
}

/** Consecutive lines of a message; `undefined` where a reference must not match. */
interface Passage {
  readonly as: string;
  readonly lines: readonly (string | undefined)[];
}

/**
 * Index of all lines that the prompt contains, derived from the history and its edits alone. Each message is
 * indexed once.
 */
export class Ingestion {
  readonly #options: IngestionOptions;
  #index = new LineIndex();
  #history: Message[] = [];
  #taken: Taken[] = [];
  #pairing = new CallPairing();
  #edits: readonly Edit[] = [];
  /** Whether messages were indexed in order; then the newest of several equal blocks wins. */
  #isInOrder = true;
  #places = new Map<string, number[]>();
  readonly #passages = new Map<number, readonly Passage[]>();
  #decided = 0;
  readonly #hidden = new HiddenBy();

  constructor(options: IngestionOptions) {
    this.#options = options;
  }

  /**
   * Ingests the new messages of a history: results are compressed and deduplicated, and truncated if they are
   * still too long. Content that has been sent doesn't change. If an original can't be archived, all results
   * stay as they are.
   */
  async arrive(
    history: readonly Message[],
    edits: readonly Edit[],
    options: ArriveOptions,
  ): Promise<Arrived> {
    const { archive, inSlices = allAtOnce } = this.#options;
    // Messages after the newest answer have not been sent.
    const from = Math.max(0, history.findLastIndex(({ role }) => role === "assistant"));
    const drafts = new Map<number, Draft>();
    await inSlices(this.#takeIn(history, edits, { ...options, from, drafts }));
    const made: IngestEdit[] = [];
    try {
      for (const draft of drafts.values()) {
        const ref = await archiveText(originalOf(history[draft.index]), archive, "a result");
        made.push({ ...draft, ref });
      }
    } catch (cause) {
      for (const at of drafts.keys()) this.#show(at);
      return { ...NOTHING, warnings: [`${reasonOf(cause)}. Nothing was evicted.`] };
    }
    this.#decided = this.#taken.length;
    const cut = await this.#truncate(history, edits, { ...options, from, made });
    for (const edit of cut.edits) if (edit.type === "elide") this.#show(edit.index, { text: edit.text });
    return { ...cut, edits: [...made, ...cut.edits] };
  }

  /**
   * Returns the edits, with references to evicted or truncated blocks expanded. The sources come first, so
   * the cache holds nothing after them.
   */
  writeOut(edits: readonly Edit[], recall: boolean): readonly Edit[] {
    const hidden = this.#hidden;
    hidden.follow(edits);
    const isVisible = (place: number) => !hidden.has(place);
    const cutAt = new Map(edits.flatMap((edit, at) => edit.type === "elide" ? [[edit.index, at]] : []));
    const lastIngested = new Map(
      edits.flatMap((edit, at) => edit.type === "ingest" ? [[edit.index, at]] : []),
    );
    const made: IngestEdit[] = [];
    for (const edit of lastIngestEdits(edits).values()) {
      if (edit.references.length === 0 || hidden.has(edit.index) || cutAt.has(edit.index)) continue;
      const lastAt = lastIngested.get(edit.index)!;
      const cut = edit.references.filter(({ source }) => (cutAt.get(source) ?? -1) > lastAt);
      for (const { source } of cut) {
        const shorter = edits[cutAt.get(source)!];
        if (shorter?.type === "elide" && isVisible(source)) this.#show(source, { text: shorter.text });
      }
      if (cut.length === 0 && edit.references.every(({ source }) => isVisible(source))) continue;
      const again: IngestEdit = { ...edit, ...AS_IT_IS, ...this.#draftOf(edit.index, { isVisible, recall }) };
      this.#show(edit.index, { edit: again });
      made.push(again);
    }
    return made.length > 0 ? [...edits, ...made] : edits;
  }

  *#takeIn(
    history: readonly Message[],
    edits: readonly Edit[],
    { limitTokens = Infinity, recall, stays, from, drafts }: ArriveOptions & {
      readonly from: number;
      readonly drafts: Map<number, Draft>;
    },
  ): Generator<void, void> {
    this.#follow(history, edits);
    const hidden = this.#hidden;
    const ingestedBefore = lastIngestEdits(edits);
    for (let at = this.#taken.length; at < history.length; at++) {
      const message = history[at]!;
      this.#history.push(message);
      this.#taken.push({ message, call: this.#pairing.add(message)?.call });
      const edit = ingestedBefore.get(at);
      const text = hidden.cutAt(at);
      const isNew = at > from && at >= this.#decided && !edit && text === undefined && !hidden.has(at) &&
        !stays.has(at);
      const draft = isNew
        ? this.#draftOf(at, { isVisible: (place) => !hidden.has(place), recall })
        : undefined;
      const isIngested = draft && this.#options.countTokens(ingestedText(message, draft)) <= limitTokens;
      if (isIngested) drafts.set(at, draft);
      this.#show(at, { edit: edit ?? (isIngested ? draft : undefined), ...(text !== undefined && { text }) });
      yield;
    }
  }

  async #truncate(
    history: readonly Message[],
    edits: readonly Edit[],
    { limitTokens, recall, stays, from, made }: ArriveOptions & {
      readonly from: number;
      readonly made: readonly IngestEdit[];
    },
  ): Promise<Arrived> {
    if (limitTokens === undefined) return NOTHING;
    if (history.slice(from).every(({ role }, at) => role !== "tool" || stays.has(from + at))) return NOTHING;
    const [before, now] = [lastIngestEdits(edits), lastIngestEdits(made)];
    const visible = history.slice(from).map((message, at) => {
      const edit = now.get(from + at) ?? before.get(from + at);
      return edit ? ingested(message, edit) : message;
    });
    const elided = edits.filter((edit): edit is ElideEdit => edit.type === "elide" && edit.index >= from)
      .map((edit) => ({ ...edit, index: edit.index - from }));
    const { archive, countTokens, tools } = this.#options;
    const cut = await truncateResults(applyElisions(visible, elided), {
      ...{ archive, countTokens, recall, limitTokens, tools },
    });
    if (cut.failure) return { ...NOTHING, warnings: [`${cut.failure.message}. Nothing was evicted.`] };
    const elisions = cut.elisions.map((one) => ({ ...one, index: one.index + from }))
      .filter(({ index }) => !stays.has(index));
    if (elisions.length === 0) return NOTHING;
    const names = [...new Set(elisions.map(({ tool }) => tool))].join(", ");
    const { tokensBefore } = cut;
    return {
      edits: elisions.map(({ index, toolCallId, ref, text }) => ({
        type: "elide",
        index,
        toolCallId,
        ref,
        text,
      })),
      truncated: elisions.map(({ index }) => index),
      rewrites: [{
        mechanism: "truncate",
        reason: "over the truncation limit",
        removed: `the middle of ${howMany(elisions.length, "result")} of ${names}`,
        tokensBefore,
        tokensAfter: elisions.reduce((sum, one) => sum - one.tokensBefore + one.tokensAfter, tokensBefore),
      }],
      warnings: [],
    };
  }

  /**
   * Resets the index if the history doesn't continue the ingested one or its messages are edited differently.
   */
  #follow(history: readonly Message[], edits: readonly Edit[]): void {
    this.#hidden.follow(edits);
    const isSame = this.#history.every((message, at) => message === history[at]);
    if (!isSame) this.#decided = 0;
    if (isSame && this.#isInOrder && (edits === this.#edits || this.#isVisibleIn(edits))) return;
    this.#isInOrder = true;
    this.#index = new LineIndex();
    this.#history = [];
    this.#taken = [];
    this.#pairing = new CallPairing();
    this.#places = new Map();
    this.#passages.clear();
  }

  settle(edits: readonly Edit[]): void {
    this.#edits = edits;
  }

  #isVisibleIn(edits: readonly Edit[]): boolean {
    const ingested = lastIngestEdits(edits);
    return this.#taken.every(({ edit, text }, place) => {
      const its = ingested.get(place);
      return text === this.#hidden.cutAt(place) && edit?.references === its?.references &&
        edit?.normalization === its?.normalization;
    });
  }

  #show(
    place: number,
    { edit, text }: { readonly edit?: Draft | undefined; readonly text?: string } = {},
  ): void {
    if (place < this.#taken.length - 1) this.#isInOrder = false;
    const taken = this.#taken[place]!;
    taken.edit = edit;
    taken.text = text;
    this.#passages.delete(place);
    const passages = this.#passagesOf(place);
    if (!this.#options.references || passages.length === 0) return;
    this.#index.add(place, passages);
    for (const name of new Set(passages.map(({ as }) => as))) {
      const places = this.#places.get(name);
      if (!places) this.#places.set(name, [place]);
      else if (!places.includes(place)) places.push(place);
    }
  }

  #draftOf(
    place: number,
    { isVisible, recall }: { readonly isVisible: (place: number) => boolean; readonly recall: boolean },
  ): Draft | undefined {
    const { message, call } = this.#taken[place]!;
    const text = message.role === "tool" ? resultText(message) : undefined;
    if (message.role !== "tool" || text === undefined || !call || !this.#mayIngest(message, place, call)) {
      return undefined;
    }
    const { countTokens, normalization, references } = this.#options;
    const how = chooseCompression(text, this.#factsOf(call), { normalization, recall });
    const found = references ? this.#refer(compress(text, how), { place, isVisible }) : [];
    const plain = normalization ? ingestedText(message, { how, normalization, references: [] }) : text;
    if (plain === text && found.length === 0) return undefined;
    const allTokens = countTokens(text);
    const normalizationTokens = plain === text ? 0 : Math.max(0, allTokens - countTokens(plain));
    const isShorter = normalizationTokens > 0 ||
      countTokens(ingestedText(message, { how, normalization, references: found })) < allTokens;
    if (!isShorter) return undefined;
    return {
      type: "ingest",
      index: place,
      toolCallId: message.tool_call_id,
      hash: hashPiece(message),
      how,
      normalization,
      normalizationTokens,
      references: found,
    };
  }

  #mayIngest(message: ToolMessage, place: number, call: ToolCall): boolean {
    const { tools } = this.#options;
    if ((resultText(message)?.length ?? 0) < LEAST_CHARACTERS) return false;
    if (reportsError(message, place, this.#options)) return false;
    const { name } = meantCall(call);
    return name !== RECALL_TOOL.function.name &&
      traitsOf(name, tools).stance !== "keep";
  }

  /** Returns the blocks of a text that are already visible above it, in order. */
  #refer(
    text: CompressedText,
    { place, isVisible }: { readonly place: number; readonly isVisible: (place: number) => boolean },
  ): Reference[] {
    const { countTokens } = this.#options;
    const { blank } = text.numbers ?? {};
    // A label gives line numbers, so lines without a number can't be part of a block.
    const lines = withoutReminders(text.lines).map((line) =>
      blank !== undefined && line === blank ? undefined : line
    );
    const hashes = hashLines(lines);
    const isAbove = (at: number) => at < place && isVisible(at);
    const references: Reference[] = [];
    let from = 0;
    for (let at = 0; at < lines.length; at++) {
      const found = this.#index.find(hashes, { at, from }, isAbove);
      if (!found) continue;
      const block = { ...found, ...withinRun(text, at, found) };
      const trimmed = withoutBlanks(text.lines, block);
      const as = this.#nameAt(block.source.place, block.source.from);
      const source = as === undefined
        ? undefined
        : this.#resolve(as, text.lines.slice(trimmed.from, trimmed.to), isAbove, place);
      if (as !== undefined && source !== undefined) {
        const tokens = countTokens(text.lines.slice(trimmed.from, trimmed.to).join("\n"));
        const labelTokens = countTokens(labelOf(text, { ...trimmed, as }));
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
   * Returns the message that a label with this name and these quotes identifies: the nearest above that
   * contains the lines. Returns `undefined` if other lines match there, or if too many messages of that name
   * are in between.
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
    for (let at = places.length - 1, inspected = 0; at >= 0 && inspected < KNOWN_PLACES; at--) {
      const place = places[at]!;
      if (place >= below || !isAbove(place)) continue;
      inspected++;
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
    if (this.#passages.size >= HELD_PLACES && oldest !== undefined) this.#passages.delete(oldest);
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
    const facts = this.#factsOf(call);
    const { reads, files: [file] } = facts;
    const its = text === undefined ? edit : undefined;
    const how = its?.how ?? chooseCompression(result, facts, { normalization: false, recall: false });
    const lines: (string | undefined)[] = withoutReminders(compress(result, how).lines);
    for (const { from, to } of its?.references ?? []) lines.fill(undefined, from, to);
    if (!reads || file === undefined) return [{ as: `the result of ${meantCall(call).name}`, lines }];
    return passagesByFile(lines, facts.files);
  }

  #factsOf(call: ToolCall): CallFacts {
    return readCall(call, this.#options.tools);
  }
}

const HEADING = /^==> (?:.*[/\\])?([^/\\]+?) <==(?: |$)/;

/** Returns the parts of a result by file. Each part begins with a heading, as by `head` and `read_file`. */
function passagesByFile(
  lines: readonly (string | undefined)[],
  files: readonly string[],
): readonly Passage[] {
  const passages: { as: string; lines: (string | undefined)[] }[] = [{ as: files[0]!, lines: [] }];
  for (const line of lines) {
    const file = files.length > 1 ? HEADING.exec(line ?? "")?.[1] : undefined;
    if (file !== undefined && files.includes(file)) passages.push({ as: file, lines: [] });
    else passages.at(-1)!.lines.push(line);
  }
  return passages.filter(({ lines }) => lines.length > 0);
}

/** Returns the lines of a text, with placeholders and reminders of the harness as `undefined`. */
function withoutReminders(lines: readonly string[]): (string | undefined)[] {
  let isReminder = false;
  return lines.map((line) => {
    isReminder ||= line.includes("<system-reminder>");
    const visible = isReminder || parsePlaceholder(line) ? undefined : line;
    if (line.includes("</system-reminder>")) isReminder = false;
    return visible;
  });
}

function withinRun(
  { numbers, lineNumbers }: CompressedText,
  at: number,
  { from, to }: { readonly from: number; readonly to: number },
): { readonly from: number; readonly to: number } {
  for (const run of numbers?.runs ?? []) {
    const end = lineNumbers!.indexOf(run.last, run.at) + 1;
    if (at < run.at) return { from, to: Math.min(to, run.at) };
    if (at < end) return { from: Math.max(from, run.at), to: Math.min(to, end) };
    from = Math.max(from, end);
  }
  return { from, to };
}

function withoutBlanks(
  lines: readonly string[],
  { from, to }: { readonly from: number; readonly to: number },
): { readonly from: number; readonly to: number } {
  while (from < to && lines[from]!.trim() === "") from++;
  while (from < to && lines[to - 1]!.trim() === "") to--;
  return { from, to };
}

/**
 * Calls and results that edits hide or truncate. Following edits that extend the previous ones takes time
 * only for the new.
 */
class HiddenBy {
  #edits: readonly Edit[] = [];
  #elided = new Set<number>();
  #retained = new Set<number>();
  #stretches: (DropEdit | SummarizeEdit)[] = [];
  #cut = new Map<number, string>();

  follow(edits: readonly Edit[]): void {
    const before = this.#edits;
    const continues = before.length <= edits.length && before.every((edit, at) => edit === edits[at]);
    if (!continues) {
      this.#elided = new Set();
      this.#retained = new Set();
      this.#stretches = [];
      this.#cut = new Map();
    }
    for (let at = continues ? before.length : 0; at < edits.length; at++) this.#add(edits[at]!);
    this.#edits = edits;
  }

  has(place: number): boolean {
    return this.#elided.has(place) ||
      !this.#retained.has(place) && this.#stretches.some(({ from, to }) => from <= place && place < to);
  }

  cutAt(place: number): string | undefined {
    return this.#cut.get(place);
  }

  #add(edit: Edit): void {
    if (edit.type === "elide" && standsForAll(edit)) this.#elided.add(edit.index);
    else if (edit.type === "elide") this.#cut.set(edit.index, edit.text);
    if (edit.type === "keep") this.#retained.add(edit.index);
    if (edit.type === "drop" || edit.type === "summarize") this.#stretches.push(edit);
  }
}

export interface ArriveOptions {
  readonly limitTokens?: number | undefined;
  readonly recall: boolean;
  readonly stays: ReadonlySet<number>;
}

export interface Arrived {
  readonly edits: readonly Edit[];
  readonly truncated: readonly number[];
  readonly rewrites: readonly Rewrite[];
  readonly warnings: readonly string[];
}

const NOTHING: Arrived = { edits: [], truncated: [], rewrites: [], warnings: [] };

const AS_IT_IS: Pick<IngestEdit, "how" | "normalization" | "normalizationTokens" | "references"> = {
  how: {},
  normalization: false,
  normalizationTokens: 0,
  references: [],
};

function originalOf(message: Message | undefined): string {
  return message?.role === "tool" ? resultText(message) ?? "" : "";
}

const WINDOW = 5;
const STEP = 4;

const LEAST_LINES = WINDOW + STEP - 1;

const MAX_TRIED = 32;

interface Block {
  readonly place: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Index of lines by hashes of windows, as rsync finds blocks (Tridgell, Mackerras 1996). Lines that aren't
 * visible are `undefined`. About 12 bytes per line.
 */
class LineIndex {
  #hashes = new Uint32Array(1024);
  #length = 0;
  #starts = new Int32Array(2 * 256);
  #windows = new Int32Array(3 * 256);
  #count = 0;
  #slots = new Int32Array(512).fill(-1);

  /**
   * Indexes the passages at a position, in place of earlier ones. Passages are separated by an invisible
   * line.
   */
  add(place: number, passages: readonly Passage[]): void {
    const start = this.#length;
    const length = passages.reduce((sum, { lines }) => sum + lines.length + 1, 0);
    this.#starts = grownTo(this.#starts, 2 * (place + 1));
    this.#starts[2 * place] = start;
    this.#starts[2 * place + 1] = length;
    this.#hashes = grownTo(this.#hashes, start + length);
    for (const { lines } of passages) {
      for (const line of lines) this.#hashes[this.#length++] = line === undefined ? 0 : hashLine(line);
      this.#hashes[this.#length++] = 0;
    }
    for (let at = start; at + WINDOW <= this.#length; at += STEP) this.#addWindow(place, at);
  }

  /**
   * Returns the longest indexed block that equals lines of a text from line `from` on and contains line `at`;
   * the newest of several. Only hashes are compared; the caller compares the text.
   */
  find(
    hashes: Uint32Array,
    { at, from }: { readonly at: number; readonly from: number },
    isVisible: (place: number) => boolean,
  ): { readonly from: number; readonly to: number; readonly source: Block } | undefined {
    const wanted = hashWindow(hashes, at);
    if (wanted === undefined) return undefined;
    let best: { readonly from: number; readonly to: number; readonly source: Block } | undefined;
    let tried = 0;
    let window = this.#slots[wanted & (this.#slots.length - 1)]!;
    for (; window >= 0 && tried < MAX_TRIED; window = this.#windows[3 * window + 2]!) {
      const line = this.#windows[3 * window]!;
      const place = this.#windows[3 * window + 1]!;
      const known = { start: this.#starts[2 * place]!, length: this.#starts[2 * place + 1]! };
      if (line < known.start || line >= known.start + known.length) continue;
      if (hashWindow(this.#hashes, line) !== wanted) continue;
      tried++;
      if (!isVisible(place)) continue;
      const back = this.#same(hashes, at, line, { step: -1, most: Math.min(at - from, line - known.start) });
      const most = Math.min(hashes.length - at, known.start + known.length - line);
      const ahead = this.#same(hashes, at - 1, line - 1, { step: 1, most });
      if (back + ahead <= (best ? best.to - best.from : LEAST_LINES - 1)) continue;
      const first = line - known.start - back;
      best = {
        from: at - back,
        to: at + ahead,
        source: { place, from: first, to: first + back + ahead },
      };
    }
    return best;
  }

  #same(
    hashes: Uint32Array,
    at: number,
    line: number,
    { step, most }: { readonly step: 1 | -1; readonly most: number },
  ): number {
    let same = 0;
    while (same < most) {
      const next = (same + 1) * step;
      const hash = hashes[at + next]!;
      if (hash === 0 || hash !== this.#hashes[line + next]) break;
      same++;
    }
    return same;
  }

  #addWindow(place: number, line: number): void {
    const hash = hashWindow(this.#hashes, line);
    if (hash === undefined) return;
    if (this.#count >= this.#slots.length) this.#spread();
    this.#windows = grownTo(this.#windows, 3 * (this.#count + 1));
    this.#link(this.#count++, { line, place, hash });
  }

  #link(
    window: number,
    { line, place, hash }: { readonly line: number; readonly place: number; readonly hash: number },
  ): void {
    const slot = hash & (this.#slots.length - 1);
    this.#windows[3 * window] = line;
    this.#windows[3 * window + 1] = place;
    this.#windows[3 * window + 2] = this.#slots[slot]!;
    this.#slots[slot] = window;
  }

  #spread(): void {
    this.#slots = new Int32Array(2 * this.#slots.length).fill(-1);
    for (let window = 0; window < this.#count; window++) {
      const line = this.#windows[3 * window]!;
      const place = this.#windows[3 * window + 1]!;
      this.#link(window, { line, place, hash: hashWindow(this.#hashes, line)! });
    }
  }
}

function hashLines(lines: readonly (string | undefined)[]): Uint32Array {
  return Uint32Array.from(lines, (line) => line === undefined ? 0 : hashLine(line));
}

/** Returns the FNV-1a hash (Fowler, Noll, Vo) of the code units; never 0. */
function hashLine(line: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < line.length; at++) hash = Math.imul(hash ^ line.charCodeAt(at), 0x01000193);
  return hash >>> 0 || 1;
}

function hashWindow(hashes: Uint32Array, at: number): number | undefined {
  if (at + WINDOW > hashes.length) return undefined;
  let hash = 0;
  for (let line = at; line < at + WINDOW; line++) {
    const one = hashes[line]!;
    if (one === 0) return undefined;
    hash = Math.imul(hash ^ one, 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash & 0x7fffffff;
}

function grownTo<A extends Int32Array | Uint32Array>(array: A, length: number): A;
function grownTo(array: Int32Array | Uint32Array, length: number): Int32Array | Uint32Array {
  if (length <= array.length) return array;
  const size = Math.ceil(1.25 * length);
  const more = array instanceof Int32Array ? new Int32Array(size) : new Uint32Array(size);
  more.set(array);
  return more;
}
