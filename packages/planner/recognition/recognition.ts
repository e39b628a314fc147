import { hashText } from "@tare/messages/internal";

/** Item of a history, identified by meaning, not by spelling or ids. */
export interface HistoryItem {
  /** Key of all its content. */
  readonly exact: string;
  /** Key of the calls whose results it contains; unchanged if a client rewrites the results. Absent: none. */
  readonly shape?: string | undefined;
  /** Author of its end. A thought is a reply without text and calls, which a client may omit. */
  readonly role: "instruction" | "user" | "result" | "reply" | "thought";
}

/** History of a request. */
export interface RequestHistory {
  /** Separates histories that must not be merged. */
  readonly scope: string;
  /** The client, if its conversations may continue in another scope. Default: they may not. */
  readonly client?: string | undefined;
  /** Whether the client separates its conversations, so that a scope contains one. Default: false. */
  readonly isKeyed?: boolean | undefined;
  /** The client's name for the conversation. Default: recognized by content. */
  readonly name?: string | undefined;
  readonly items: readonly HistoryItem[];
  /** Returns the texts of an item, one per message. */
  readonly textsOf: (at: number) => readonly string[];
}

/** A conversation that requests may continue. Its owner updates it; recognition reads it. */
export interface KnownConversation {
  readonly facts: {
    readonly scope: string;
    readonly client?: string | undefined;
    readonly name?: string | undefined;
    readonly turns?: unknown;
    /** Whether its newest turn has no final reply yet. */
    readonly isAmidTurn: boolean;
    /**
     * Pieces of a summary with which its client may start a new history, and whether the client marked it as
     * one.
     */
    readonly summary?: { readonly pieces: readonly string[]; readonly isRequested: boolean } | undefined;
    /** Pieces of the summary that its history starts with, and whether a model has answered since. */
    readonly begunWith?: { readonly pieces: readonly string[]; readonly isAnswered: boolean } | undefined;
    readonly opening?: string | undefined;
    /**
     * Calls of its newest reply, by `shape`; a continuation answers one of them. Absent or empty: unknown.
     */
    readonly replied?: readonly string[];
    /** Whether a request of it is in progress; another one starts a branch. Default: false. */
    readonly isBusy?: boolean;
  };
}

/** Stored form of a history. */
export interface StoredHistory {
  readonly items: readonly HistoryItem[];
  /** Hashes of the last item's text up to each of its last line breaks. */
  readonly stems: readonly number[];
}

/** The conversation that a turn continues. */
export type Continuation<Known> =
  | {
    readonly type: "continue";
    readonly known: Known;
    /** Number of items of its history that stay. */
    readonly at: number;
    /**
     * Number of items of its history that the request contains, including cleared ones and ends in transient
     * text.
     */
    readonly length: number;
    /**
     * `grown`: its whole history stays. `transient`: the end of the previous request was transient.
     * `cleared`: the client replaced old results. `back`: the client returned to an earlier message.
     * `compacted`: the client compacted the history.
     */
    readonly how: "grown" | "transient" | "cleared" | "back" | "compacted";
  }
  | { readonly type: "fork"; readonly known: Known; readonly at: number }
  | { readonly type: "new" };

/** The conversation of a request that isn't a turn. */
export interface About<Known> {
  readonly known: Known;
  /** Number of equal items at the start of both histories, without instructions. */
  readonly shared: number;
  /** Whether the request contains the end of its history after another start. */
  readonly isCutOff: boolean;
}

interface Place extends StoredHistory {
  readonly items: HistoryItem[];
  stems: readonly number[];
  heads: number;
  settled: number;
  /** Last continuation, in milliseconds since the epoch, and its order among those of that time. */
  used: readonly [ms: number, order: number];
}

interface Realm<Known> {
  readonly landmarks: Map<string, readonly Known[]>;
  readonly scopes: Map<string, readonly Known[]>;
}

type Continued<Known> = Extract<Continuation<Known>, { readonly type: "continue" }>;

interface Candidate<Known> {
  readonly known: Known;
  readonly place: Place;
  readonly shared: number;
  readonly grown?: Continued<Known> | undefined;
}

/** Most items that a client adds to the end of a request and removes in the next. */
const TRANSIENT_ITEMS = 4;

const START_ITEMS = 4;

/** Most conversations per landmark or scope that a request is compared with. */
const RECENT = 64;

/** Last line breaks of an item at which transient text may start. */
const STEMS = 128;

/** Longest item that may end in transient text, in UTF-16 code units. */
const STEMMED_CHARS = 2 ** 16;

/**
 * Recognizes the conversation that a request continues. Stores keys only.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { type HistoryItem, type KnownConversation, Recognition } from "@tare/planner/internal";
 *
 * const recognition = new Recognition<KnownConversation>();
 * const history = (...items: HistoryItem[]) => ({ scope: "client", items, textsOf: () => [] });
 * const [task, reminder]: HistoryItem[] = [{ exact: "Go.", role: "user" }, { exact: "Hurry.", role: "user" }];
 * const known = { facts: { scope: "client", turns: 1, isAmidTurn: true } };
 * recognition.follow(known, history(task!, reminder!), 0);
 *
 * const next = history(task!, { exact: "Done.", role: "reply" }, { exact: "And now?", role: "user" });
 * const { type, how } = { how: undefined, ...recognition.recognize(next) };
 * assertEquals([type, how], ["continue", "transient"]);
 * ```
 */
export class Recognition<Known extends KnownConversation> {
  readonly #places = new Map<Known, Place>();
  readonly #realms = new Map<string, Realm<Known>>();
  #order = 0;

  stored(known: Known): StoredHistory {
    return this.#places.get(known) ?? { items: [], stems: [] };
  }

  /** Sets the history of a conversation to that of a request, at a time in milliseconds since the epoch. */
  follow(known: Known, { items, textsOf }: RequestHistory, nowMs: number): void {
    const stems = items.length > 0 && !isOfModel(items.at(-1)!) ? stemsOf(textsOf(items.length - 1)) : [];
    this.#place(known, { items, stems }, nowMs);
  }

  restore(known: Known, stored: StoredHistory, usedMs: number): void {
    this.#place(known, stored, usedMs - 0.5);
  }

  forget(known: Known): void {
    const place = this.#places.get(known);
    if (!place) return;
    const realm = this.#realmOf(known);
    this.#unmark(known, place, { realm, from: 0 });
    this.#places.delete(known);
    const { facts: { client, scope } } = known;
    const others = realm.scopes.get(scope)?.filter((other) => other !== known) ?? [];
    if (others.length > 0) realm.scopes.set(scope, others);
    else realm.scopes.delete(scope);
    if (realm.landmarks.size === 0 && realm.scopes.size === 0) this.#realms.delete(client ?? scope);
  }

  /** Returns the conversation that a turn continues. `named` is the one with its name. */
  recognize(request: RequestHistory, named?: Known): Continuation<Known> {
    const { items, isKeyed } = request;
    const candidates = this.#candidates(request, isOf(request, named));
    const grown = bestOf(candidates);
    if (grown && isBegun(grown.known)) return grown;
    const anew = [this.#quotedBy(request, candidates, named), this.#endOf(request)]
      .find((known) => known && (!named || known === named));
    if (anew) return { ...this.#back(anew, items), how: "compacted" };
    if (named) return grown ?? this.#back(named, items);
    const alike = candidates.filter(({ shared }) => shared > countHeads(items));
    const unbegun =
      alike.find(({ known, shared }) => !isBegun(known) && shared === alike[0]!.shared)?.known ??
        (isKeyed && alike.length === 0 ? this.#newest(request) : undefined);
    if (unbegun && !isBegun(unbegun)) {
      return grown?.known === unbegun ? grown : this.#back(unbegun, items);
    }
    const interrupted = alike.find((candidate) => isInterrupted(candidate, request));
    if (interrupted) return this.#back(interrupted.known, items);
    const [longest] = candidates;
    if (longest && longest.shared > (grown?.length ?? 0) && identifies(longest, request)) {
      return { type: "fork", known: longest.known, at: longest.shared };
    }
    return grown ?? this.#elsewhere(request) ?? { type: "new" };
  }

  /**
   * Returns the conversation of a request that isn't a turn: the one whose history it starts with, regardless
   * of instructions, or whose end it contains; otherwise that of its name or key, or one that it quotes.
   * `named` is the one with its name.
   */
  about(request: RequestHistory, named?: Known): About<Known> | undefined {
    const { items, scope, isKeyed } = request;
    const own = this.#candidates(request, isOf(request));
    const isMeant = (known: Known) => !named || known === named;
    const isHere = (known: Known) => known.facts.scope === scope && isMeant(known);
    const [alike] = [
      ...own.filter(({ grown }) => grown && grown === bestOf(own)),
      ...own,
      ...this.#candidates(request, isHere, true),
    ].filter(({ shared }) => shared > countHeads(items));
    if (alike) return { known: alike.known, shared: alike.shared, isCutOff: false };
    const end = this.#endOf(request);
    if (end && isMeant(end)) return { known: end, shared: 0, isCutOff: true };
    const text = textOf(request);
    const known = named ?? (isKeyed && !items.some(isReply) ? this.#newest(request) : undefined) ??
      this.#recent(request).find(({ facts: { opening } }) => opening !== undefined && text.includes(opening));
    return known && { known, shared: 0, isCutOff: false };
  }

  /**
   * Returns the conversation, still without a turn, that a request belongs to: the one with its name
   * (`named`) or key, or with the same previous request.
   */
  preceding(request: RequestHistory, named?: Known): Known | undefined {
    const { items, isKeyed } = request;
    const same = this.#candidates(request, isOf(request))
      .find(({ place, shared }) => shared === items.length && shared === place.items.length);
    const known = named ?? same?.known ?? (isKeyed ? this.#newest(request) : undefined);
    return known && !isBegun(known) ? known : undefined;
  }

  #back(known: Known, items: readonly HistoryItem[]): Continued<Known> {
    const at = this.#shared(known, items);
    return { type: "continue", known, at, length: at, how: "back" };
  }

  /**
   * Returns conversations with replies, or first items, at the same positions as in the request; the longest
   * shared history first, then the newest. With `skipsHeads` instructions count as shared.
   */
  #candidates(
    request: RequestHistory,
    isWanted: (known: Known) => boolean,
    skipsHeads = false,
  ): readonly Candidate<Known>[] {
    const { items } = request;
    const heads = countHeads(items);
    const found = new Map<Known, Candidate<Known>>();
    const compare = (known: Known): Candidate<Known> | undefined => {
      const place = this.#places.get(known)!;
      const isSkipped = found.has(known) || found.size > RECENT || !isWanted(known) ||
        skipsHeads && place.heads !== heads;
      if (isSkipped) return undefined;
      const candidate = { known, place, shared: sharedLength(place.items, items, skipsHeads ? heads : 0) };
      const grown = skipsHeads ? undefined : grownBy(candidate, request);
      found.set(known, { ...candidate, grown });
      return found.get(known);
    };
    let from = heads;
    for (const { at, known } of this.#landmarksOf(request)) {
      if (at < from) break;
      const isThere = this.#places.get(known)!.items[at]?.exact === items[at]!.exact;
      const { grown, place } = isThere ? compare(known) ?? {} : {};
      if (grown && place) from = Math.max(from, place.settled - 1);
    }
    if (from === heads) {
      // Transient text may hide a first message, and instructions alone are no landmark.
      for (const known of this.#recent(request)) {
        const place = this.#places.get(known)!;
        if (place.settled === place.heads) compare(known);
      }
    }
    return [...found.values()].sort((one, other) => other.shared - one.shared || byAge(one, other));
  }

  *#landmarksOf(request: RequestHistory): Generator<{ readonly at: number; readonly known: Known }> {
    const { items } = request;
    const realm = this.#realms.get(request.client ?? request.scope);
    if (!realm) return;
    const heads = countHeads(items);
    for (let at = items.length - 1; at >= heads; at--) {
      if (at > heads && !isReply(items[at]!)) continue;
      for (const known of realm.landmarks.get(items[at]!.exact)?.toReversed() ?? []) yield { at, known };
    }
  }

  /**
   * Returns the conversation whose summary a request quotes or follows. A summary at the start of a history
   * may be quoted once more before a model has answered.
   */
  #quotedBy(
    request: RequestHistory,
    candidates: readonly Candidate<Known>[],
    named: Known | undefined,
  ): Known | undefined {
    const { items, isKeyed } = request;
    // A history that continues after the model's reply is a branch.
    const isBranch = items.slice(0, candidates[0]?.shared ?? 0).some(isReply);
    const piecesOf = ({ facts: { summary, begunWith } }: Known) =>
      summary?.pieces ?? (begunWith?.isAnswered === false && !isBranch ? begunWith.pieces : []);
    const quotable = (named ? [named] : this.#recent(request)).filter((known) => piecesOf(known).length > 0);
    const text = quotable.length > 0 ? textOf(request) : "";
    const quoted = quotable.find((known) => quotesAny(text, piecesOf(known)));
    if (quoted) return quoted;
    // An unreadable summary: key and instructions identify the conversation.
    const newest = named ?? (isKeyed ? this.#newest(request, isBegun) : undefined);
    const isMeant = newest?.facts.summary?.isRequested && (named || this.#shared(newest, items) > 0);
    return isMeant && !isBranch ? newest : undefined;
  }

  /** Returns the conversation whose history ends like that of a request with another start. */
  #endOf(request: RequestHistory): Known | undefined {
    const { items, scope } = request;
    const heads = countHeads(items);
    for (const { at, known } of this.#landmarksOf(request)) {
      const { items: own, settled } = this.#places.get(known)!;
      if (known.facts.scope !== scope || at <= heads || own[settled - 1]?.exact !== items[at]!.exact) {
        continue;
      }
      let length = 0;
      while (own[settled - 1 - length]?.exact === items[at - length]?.exact && length <= at) length++;
      const start = items.slice(heads, at - length + 1);
      const isStart = start.length > 0 && start.length <= START_ITEMS &&
        start.every((item) => !isOfModel(item) && !isResult(item));
      const results = own.slice(settled).filter(isResult);
      const isEnd = results.every(({ shape }, index) => items[at + 1 + index]?.shape === shape);
      const hasResults = own.slice(settled - length).some((item, index) =>
        isResult(item) && item.exact === items[at - length + 1 + index]?.exact
      );
      if (isStart && isEnd && hasResults && length < settled) return known;
    }
    return undefined;
  }

  #elsewhere(request: RequestHistory): Continuation<Known> | undefined {
    const { client, scope } = request;
    if (client === undefined) return undefined;
    const isOther = ({ facts }: Known) => facts.scope !== scope && facts.client === client;
    const whole = this.#candidates(request, isOther, true).find(({ place, shared }) =>
      shared === place.items.length && place.items.some(isReply)
    );
    return whole && { type: "fork", known: whole.known, at: whole.shared };
  }

  #recent({ client, scope }: Pick<RequestHistory, "client" | "scope">): readonly Known[] {
    return this.#realms.get(client ?? scope)?.scopes.get(scope)?.toReversed() ?? [];
  }

  #newest(request: RequestHistory, isWanted: (known: Known) => boolean = () => true): Known | undefined {
    const unnamed = this.#recent(request).filter((known) =>
      known.facts.name === undefined && isWanted(known)
    );
    return unnamed.map((known) => ({ known, place: this.#places.get(known)! })).sort(byAge)[0]?.known;
  }

  #shared(known: Known, items: readonly HistoryItem[]): number {
    return sharedLength(this.#places.get(known)?.items ?? [], items);
  }

  #realmOf({ facts: { client, scope } }: Known): Realm<Known> {
    const name = client ?? scope;
    const realm = this.#realms.get(name) ?? { landmarks: new Map(), scopes: new Map() };
    this.#realms.set(name, realm);
    return realm;
  }

  #place(known: Known, { items, stems }: StoredHistory, usedMs: number): void {
    const realm = this.#realmOf(known);
    const before = this.#places.get(known);
    const place: Place = before ?? { items: [], stems, heads: 0, settled: 0, used: [0, 0] };
    const heads = countHeads(items);
    // The first item after the instructions is a landmark, too.
    const from = heads === place.heads ? sharedLength(place.items, items) : 0;
    this.#unmark(known, place, { realm, from });
    place.items.length = from;
    for (let at = from; at < items.length; at++) place.items.push(items[at]!);
    place.heads = heads;
    place.settled = Math.max(heads, items.findLastIndex(isReply) + 1);
    place.stems = stems;
    place.used = [usedMs, this.#order++];
    this.#places.set(known, place);
    for (let at = from; at < items.length; at++) {
      if (!isLandmark(place, at)) continue;
      const { exact } = place.items[at]!;
      const marked = realm.landmarks.get(exact) ?? [];
      if (!marked.includes(known)) realm.landmarks.set(exact, [...marked, known].slice(-RECENT));
    }
    const { scope } = known.facts;
    const others = realm.scopes.get(scope)?.filter((other) => other !== known) ?? [];
    realm.scopes.set(scope, [...others, known].slice(-RECENT));
  }

  #unmark(
    known: Known,
    place: Place,
    { realm, from }: { readonly realm: Realm<Known>; readonly from: number },
  ): void {
    if (from === place.items.length) return;
    const remaining = new Set(
      place.items.slice(0, from).filter((_, at) => isLandmark(place, at)).map(({ exact }) => exact),
    );
    for (let at = from; at < place.items.length; at++) {
      const { exact } = place.items[at]!;
      if (!isLandmark(place, at) || remaining.has(exact)) continue;
      const marked = realm.landmarks.get(exact)?.filter((other) => other !== known) ?? [];
      if (marked.length > 0) realm.landmarks.set(exact, marked);
      else realm.landmarks.delete(exact);
    }
  }
}

function grownBy<Known extends KnownConversation>(
  candidate: Candidate<Known>,
  request: RequestHistory,
): Continued<Known> | undefined {
  const { known, place, shared: at } = candidate;
  const { items: own, settled, heads } = place;
  const { begunWith: { pieces } = { pieces: [] }, replied = [], isBusy = false } = known.facts;
  if (own.length === 0 || isBusy) return undefined;
  const { end, isCut } = endOf(place, request);
  const cutsOpening = isCut && settled === heads && pieces.length > 0;
  if (cutsOpening && !quotesAny(textOf(request), pieces)) return undefined;
  const length = isCut ? end + 1 : end;
  if (replied.length > 0) {
    const { shape = "" } = request.items.slice(length).find(isResult) ?? {};
    if (!replied.includes(shape)) return undefined;
  }
  const how = at === own.length ? "grown" : at >= end ? "transient" : "cleared";
  if (how === "cleared" && !isCleared(candidate, request, end)) return undefined;
  return { type: "continue", known, at, length, how };
}

/** Returns the continuation with the most items in the request; `undefined` if none. */
function bestOf<Known extends KnownConversation>(
  candidates: readonly Candidate<Known>[],
): Continued<Known> | undefined {
  const missing = ({ place, grown }: Candidate<Known>) => place.items.length - grown!.length;
  const [longest] = candidates;
  const [best] = candidates.filter(({ grown }) => grown).sort((one, other) =>
    other.grown!.length - one.grown!.length || Number(isBegun(other.known)) - Number(isBegun(one.known)) ||
    missing(one) - missing(other) || byAge(one, other)
  );
  if (!longest || !best?.grown) return undefined;
  // A reply shared with another history is stronger evidence than transient items or an older request's open
  // end.
  const isMeant = longest.shared <= best.grown.length || missing(best) === 0 && byAge(best, longest) < 0;
  return isMeant ? best.grown : undefined;
}

/**
 * Returns the number of items that a request must contain to continue a history. The rest of the previous
 * request is transient: items, or text cut from the end of the last one.
 */
function endOf(
  { items: own, heads, settled, stems }: Place,
  { items, textsOf }: RequestHistory,
): { readonly end: number; readonly isCut: boolean } {
  let { length } = own;
  while (length > heads && own[length - 1]!.role === "thought" && !isSame(own, items, length - 1)) length--;
  let next = settled;
  while (next < items.length && !isOfModel(items[next]!)) next++;
  const whole = { end: length, isCut: false };
  if (next === items.length) return whole;
  if (next < length) {
    return next > heads && length - next <= TRANSIENT_ITEMS ? { end: next, isCut: false } : whole;
  }
  const [before, now] = [own[length - 1], items[length - 1]];
  const isCut = next === length && before && now && before.shape === now.shape &&
    (isResult(before) || before.role === now.role) &&
    before.exact !== now.exact && stems.includes(stemsOf(textsOf(length - 1)).at(-1)!);
  return isCut ? { end: length - 1, isCut } : whole;
}

function isBegun({ facts: { turns } }: KnownConversation): boolean {
  return turns !== undefined;
}

function isOf<Known extends KnownConversation>(
  { scope, name }: RequestHistory,
  named?: Known,
): (known: Known) => boolean {
  return (known) => named ? known === named : known.facts.scope === scope && known.facts.name === name;
}

/**
 * Returns whether the shared part identifies a conversation. Openings don't: subagents share instructions,
 * and equal jobs their task.
 */
function identifies<Known extends KnownConversation>(
  { known, shared }: Candidate<Known>,
  request: RequestHistory,
): boolean {
  const { begunWith } = known.facts;
  return request.items.slice(0, shared).some(isReply) ||
    begunWith !== undefined && quotesAny(textOf(request, shared), begunWith.pieces);
}

/**
 * Returns whether a user continues from a step of an interrupted turn, because the client hadn't recorded
 * later steps.
 */
function isInterrupted<Known extends KnownConversation>(
  candidate: Candidate<Known>,
  request: RequestHistory,
): boolean {
  const { known, place: { items: own, settled }, shared } = candidate;
  const rest = request.items.slice(shared);
  if (shared === own.length || !known.facts.isAmidTurn || !identifies(candidate, request)) return false;
  const lost = own.slice(shared, settled > shared ? settled : own.length);
  return lost.every(({ role }) => role !== "user") && rest.at(-1)?.role === "user" && !rest.some(isReply);
}

/** Returns whether a request contains a whole history with one text in place of several old results. */
function isCleared<Known>(
  { place: { items: own }, shared }: Candidate<Known>,
  { items, textsOf }: RequestHistory,
  end: number,
): boolean {
  const cleared: (readonly string[])[] = [];
  for (let at = shared; at < end; at++) {
    if (isSame(own, items, at)) continue;
    if (own[at]!.shape === undefined || own[at]!.shape !== items[at]?.shape) return false;
    cleared.push(textsOf(at));
  }
  const [first = []] = cleared;
  // One different result may belong to another conversation.
  return first.some((text) =>
    cleared.every((texts) => texts.includes(text)) &&
    cleared.flat().filter((other) => other === text).length > 1
  );
}

function stemsOf(texts: readonly string[]): readonly number[] {
  const text = texts.join("\n");
  if (text.length > STEMMED_CHARS) return [];
  const stems: number[] = [];
  let [stem, blank] = [0, ""];
  for (const line of text.split("\n")) {
    const written = line.trimEnd();
    if (written === "") blank += "\n";
    else {
      stem = hashText(`${stem}${blank}\n${written}`);
      stems.push(stem);
      blank = "";
    }
  }
  return stems.slice(-STEMS);
}

function textOf({ items, textsOf }: RequestHistory, end: number = items.length): string {
  return items.slice(0, end).flatMap((_, at) => textsOf(at)).join("\n");
}

function quotesAny(text: string, pieces: readonly string[]): boolean {
  return pieces.some((piece) => text.includes(piece));
}

function sharedLength(one: readonly HistoryItem[], other: readonly HistoryItem[], heads = 0): number {
  const end = Math.min(one.length, other.length);
  let at = Math.min(heads, end);
  while (at < end && isSame(one, other, at)) at++;
  return at;
}

function isSame(one: readonly HistoryItem[], other: readonly HistoryItem[], at: number): boolean {
  return one[at] === other[at] || one[at]?.exact === other[at]?.exact;
}

function countHeads(items: readonly HistoryItem[]): number {
  const first = items.findIndex(({ role }) => role !== "instruction");
  return first < 0 ? items.length : first;
}

function isLandmark({ items, heads }: Place, at: number): boolean {
  return at === heads || isReply(items[at]!);
}

function isReply({ role }: HistoryItem): boolean {
  return role === "reply";
}

function isOfModel({ role }: HistoryItem): boolean {
  return role === "reply" || role === "thought";
}

function isResult({ shape }: HistoryItem): boolean {
  return shape !== undefined;
}

function byAge(
  { place: { used: [ms, order] } }: Pick<Candidate<unknown>, "place">,
  { place: { used: [otherMs, otherOrder] } }: Pick<Candidate<unknown>, "place">,
): number {
  return otherMs - ms || otherOrder - order;
}
