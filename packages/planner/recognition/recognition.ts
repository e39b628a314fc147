import { hashText } from "@tare/messages/internal";

/** An item of a history, by its meaning: neither its spelling nor its ids are part of it. */
export interface HistoryItem {
  /** Identifies everything that the item contains. */
  readonly exact: string;
  /** Identifies the calls whose results the item contains: it stays if a client rewrites them. Absent: it has none. */
  readonly shape?: string | undefined;
  /** Who produced its end. A thought is a reply without text and calls, which a client may omit. */
  readonly role: "instruction" | "user" | "result" | "reply" | "thought";
}

/** The history of a request. */
export interface RequestHistory {
  /** Separates histories that must not meet. */
  readonly scope: string;
  /** The client, if its conversations may continue in another scope. Default: they may not. */
  readonly client?: string | undefined;
  /** Whether the client separates its conversations itself, so that a scope holds one. Default: no. */
  readonly isKeyed?: boolean | undefined;
  /** The client's name for the conversation. Default: it is recognised by content. */
  readonly name?: string | undefined;
  readonly items: readonly HistoryItem[];
  /** Returns the texts of the item at a position: one of each message in it. */
  readonly textsOf: (at: number) => readonly string[];
}

/** A conversation that requests may continue. Its owner updates it; recognition reads it. */
export interface KnownConversation {
  readonly scope: string;
  readonly client?: string | undefined;
  readonly name?: string | undefined;
  /** Whether it has had a turn: until then each of its requests was, or may have been, for something else. */
  readonly isBegun: boolean;
  /** Whether its newest turn has no final reply yet. */
  readonly isAmidTurn: boolean;
  /** Pieces of a summary with which its client may begin a new history. */
  readonly quotable: readonly string[];
  /** Whether its client requested a summary to continue from, perhaps one that can't be read here. */
  readonly isSummarized: boolean;
  /** Pieces of the summary with which its history begins. */
  readonly begunWith: readonly string[];
  /** A line of the user's first message by which quotes of the conversation are found. */
  readonly opening?: string | undefined;
}

/** What is stored of a conversation's history, to recognise it after a restart. */
export interface StoredHistory {
  readonly items: readonly HistoryItem[];
  /** Hashes of the text of the last item, up to each of its last line breaks. */
  readonly stems: readonly number[];
}

/** Which conversation a turn continues. */
export type Recognised<Known> =
  | {
    readonly type: "continue";
    readonly known: Known;
    /** How many items of its history stay. */
    readonly at: number;
    /** How many items of its history the request contains, cleared ones and such that end in transient text included. */
    readonly length: number;
    /**
     * `grown`: all of its history stays. `transient`: the end of the previous request was transient. `cleared`: its client
     * replaced old results. `back`: its client went back. `anew`: its client compacted it.
     */
    readonly how: "grown" | "transient" | "cleared" | "back" | "anew";
  }
  | { readonly type: "fork"; readonly known: Known; readonly at: number }
  | { readonly type: "new" };

/** The conversation that a request is about which isn't a turn. */
export interface About<Known> {
  readonly known: Known;
  /** How many items at the start of both histories are the same, instructions aside. */
  readonly shared: number;
  /** Whether the request contains the end of its history after another start. */
  readonly isCutOff: boolean;
}

/** The position of a conversation's history. */
interface Place extends StoredHistory {
  readonly items: HistoryItem[];
  stems: readonly number[];
  heads: number;
  /** How many items there are up to the last reply. */
  settled: number;
  /** When it was last continued, in milliseconds since the epoch, and which of those of that time it was. */
  used: readonly [ms: number, order: number];
}

/** Histories that share a client, or a scope where the client isn't known. */
interface Realm<Known> {
  /** Conversations by their replies and first items. */
  readonly landmarks: Map<string, Known[]>;
  /** Conversations by scope, in the order in which they were last continued. */
  readonly scopes: Map<string, Set<Known>>;
}

/** A conversation that a request continues at its end. */
interface Grown<Known> {
  readonly known: Known;
  readonly at: number;
  readonly how: "grown" | "transient" | "cleared";
  /** How many items of its history the request contains, and how many it doesn't. */
  readonly length: number;
  readonly missing: number;
}

/** A conversation whose history may be that of a request. */
interface Candidate<Known> {
  readonly known: Known;
  readonly place: Place;
  /** How many items the two histories begin with. */
  readonly shared: number;
}

/** Most items that a client adds to the end of a request and removes in the next. */
const TRANSIENT_ITEMS = 4;

/** Most items with which a client replaces the start of a history. */
const START_ITEMS = 4;

/** Most conversations of a landmark or a scope, the newest, that a request is compared with. */
const RECENT = 64;

/** Last line breaks of an item at which transient text may begin. */
const STEMS = 128;

/** Longest item that may end in transient text, in UTF-16 code units. */
const STEMMED_CHARS = 2 ** 16;

/**
 * Recognises which conversation a request continues by aligning its history with those that are known. Holds keys only.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { type HistoryItem, type KnownConversation, Recognition } from "@tare/planner/internal";
 *
 * const recognition = new Recognition<KnownConversation>();
 * const history = (...items: HistoryItem[]) => ({ scope: "client", items, textsOf: () => [] });
 * const [task, reminder]: HistoryItem[] = [{ exact: "Go.", role: "user" }, { exact: "Hurry.", role: "user" }];
 * const known = {
 *   ...{ scope: "client", isBegun: true, isAmidTurn: true, quotable: [], isSummarized: false, begunWith: [] },
 * };
 * recognition.follow(known, history(task!, reminder!), 0);
 *
 * const next = history(task!, { exact: "Done.", role: "reply" }, { exact: "And now?", role: "user" });
 * assertEquals(recognition.recognise(next), { type: "continue", known, at: 1, length: 1, how: "transient" });
 * ```
 */
export class Recognition<Known extends KnownConversation> {
  readonly #places = new Map<Known, Place>();
  readonly #realms = new Map<string, Realm<Known>>();
  #order = 0;

  /** Returns what is to be stored of a conversation's history. */
  stored(known: Known): StoredHistory {
    return this.#places.get(known) ?? { items: [], stems: [] };
  }

  /** Sets the history of a conversation to that of a request, at a time in milliseconds since the epoch. */
  follow(known: Known, { items, textsOf }: RequestHistory, nowMs: number): void {
    const stems = items.length > 0 && !isOfModel(items.at(-1)!) ? stemsOf(textsOf(items.length - 1)) : [];
    this.#place(known, { items, stems }, nowMs);
  }

  /** Sets the history of a conversation to what was stored, last continued at this time. */
  restore(known: Known, stored: StoredHistory, usedMs: number): void {
    // What was continued here at that time is newer.
    this.#place(known, stored, usedMs - 0.5);
  }

  /** Forgets a conversation. */
  forget(known: Known): void {
    const place = this.#places.get(known);
    if (!place) return;
    const realm = this.#realmOf(known);
    this.#unmark(known, place, { realm, from: 0 });
    this.#places.delete(known);
    const scope = realm.scopes.get(known.scope);
    scope?.delete(known);
    if (scope?.size === 0) realm.scopes.delete(known.scope);
    if (realm.scopes.size === 0) this.#realms.delete(known.client ?? known.scope);
  }

  /** Returns which conversation a turn continues. `named` is the one of its name. */
  recognise(request: RequestHistory, named?: Known): Recognised<Known> {
    const { items, scope, name } = request;
    const heads = countHeads(items);
    if (named) return this.#continueNamed(named, request);
    const { candidates, grown } = this.#candidates(
      request,
      (known) => known.scope === scope && known.name === name,
    );
    if (grown?.known.isBegun) return continues(grown);
    const anew = this.#quotedBy(request, candidates) ?? this.#endOf(request);
    if (anew) return { ...this.#back(anew, items), how: "anew" };
    const [longest] = candidates;
    const unbegun = candidates.find(({ known, shared }) => !known.isBegun && shared > heads)?.known ??
      (request.isKeyed && !candidates.some(({ shared }) => shared > heads)
        ? this.#newest(request)
        : undefined);
    if (unbegun && !unbegun.isBegun) {
      return grown?.known === unbegun ? continues(grown) : this.#back(unbegun, items);
    }
    const interrupted = candidates.find((candidate) => isInterrupted(candidate, request));
    if (interrupted) return this.#back(interrupted.known, items);
    if (grown) return continues(grown);
    if (longest && identifies(longest, request)) {
      return { type: "fork", known: longest.known, at: longest.shared };
    }
    return this.#elsewhere(request) ?? { type: "new" };
  }

  /**
   * Returns the conversation that a request is about which isn't a turn, such as one for a title or a summary: the one whose
   * history it begins with, whatever the instructions, or whose end it contains; else that of its name or key, or one that
   * it quotes. `named` is the one of its name.
   */
  about(request: RequestHistory, named?: Known): About<Known> | undefined {
    const { items, scope, name, isKeyed } = request;
    const heads = countHeads(items);
    const own = this.#candidates(request, (known) => known.scope === scope && known.name === name);
    const isMeant = ({ known }: { readonly known: Known }) => !named || known === named;
    const exact = own.candidates.find(({ known }) => known === own.grown?.known) ?? own.candidates[0];
    if (exact && exact.shared > heads) return { known: exact.known, shared: exact.shared, isCutOff: false };
    const [alike] = this.#candidates(request, (known) => known.scope === scope, true).candidates;
    if (alike && alike.shared > heads && isMeant(alike)) {
      return { known: alike.known, shared: alike.shared, isCutOff: false };
    }
    const end = this.#endOf(request);
    if (end && isMeant({ known: end })) return { known: end, shared: 0, isCutOff: true };
    const text = textOf(request);
    const known = named ?? (isKeyed && !items.some(isReply) ? this.#newest(request) : undefined) ??
      this.#recent(request).find(({ opening }) => opening !== undefined && text.includes(opening));
    return known && { known, shared: 0, isCutOff: false };
  }

  /**
   * Returns the conversation without a turn that a request belongs to which may be none: the one of its name (`named`) or
   * key, or the one that had the same request before.
   */
  preceding(request: RequestHistory, named?: Known): Known | undefined {
    const { items, scope, name, isKeyed } = request;
    const { grown } = this.#candidates(request, (known) => known.scope === scope && known.name === name);
    const same = grown && this.#places.get(grown.known)!.items.length === items.length
      ? grown.known
      : undefined;
    const known = named ?? same ?? (isKeyed ? this.#newest(request) : undefined);
    return known?.isBegun ? undefined : known;
  }

  #continueNamed(named: Known, request: RequestHistory): Recognised<Known> {
    const place = this.#places.get(named)!;
    const candidate = { known: named, place, shared: this.#shared(named, request.items) };
    const grown = grownBy(candidate, request);
    if (grown) return continues(grown);
    const isAnew = this.#quotedBy(request, [candidate], named) === named || this.#endOf(request) === named;
    return { ...this.#back(named, request.items), ...(isAnew && { how: "anew" }) };
  }

  #back(known: Known, items: readonly HistoryItem[]) {
    const at = this.#shared(known, items);
    return { type: "continue", known, at, length: at, how: "back" } as const;
  }

  /**
   * Returns conversations whose replies, or first items, are at the same positions as in the request: those with the longest
   * shared history first, then the newest. `grown` is the one that the request continues at its end, if there is one.
   */
  #candidates(
    request: RequestHistory,
    isWanted: (known: Known) => boolean,
    isWithoutHeads = false,
  ): { readonly candidates: readonly Candidate<Known>[]; readonly grown: Grown<Known> | undefined } {
    const { items } = request;
    const heads = countHeads(items);
    const seen = new Map<Known, Candidate<Known>>();
    let grown: Grown<Known> | undefined;
    const compare = (known: Known): void => {
      if (seen.has(known) || seen.size > RECENT || !isWanted(known)) return;
      const place = this.#places.get(known)!;
      if (isWithoutHeads && place.heads !== heads) return;
      const candidate = {
        known,
        place,
        shared: sharedLength(place.items, items, isWithoutHeads ? heads : 0),
      };
      seen.set(known, candidate);
      const own = isWithoutHeads ? undefined : grownBy(candidate, request);
      if (!own) return;
      const more = grown && (own.length - grown.length || grown.missing - own.missing);
      if (!more ? !grown || isNewer(place, this.#places.get(grown.known)!) : more > 0) grown = own;
    };
    for (const { at, known } of this.#landmarksOf(request)) {
      if (this.#places.get(known)!.items[at]?.exact === items[at]!.exact) compare(known);
      // Deeper landmarks come first.
      if (grown && at < this.#places.get(grown.known)!.settled - 1) break;
    }
    const isUnanswered = (known: Known) => {
      const { settled, heads } = this.#places.get(known)!;
      return settled === heads;
    };
    if (!grown || isUnanswered(grown.known)) {
      // Transient text in a first message hides it, and instructions alone are no landmark.
      for (const known of this.#recent(request)) if (isUnanswered(known)) compare(known);
    }
    const candidates = [...seen.values()].sort((one, other) =>
      other.shared - one.shared || (isNewer(one.place, other.place) ? -1 : 1)
    );
    // A reply that another history shares tells more than transient items, or than what an older request left open.
    const [longest] = candidates;
    const isLonger = grown && longest && longest.shared > grown.length;
    const isWhole = !isLonger ||
      grown?.missing === 0 && isNewer(this.#places.get(grown.known)!, longest.place);
    return { candidates, grown: isWhole ? grown : undefined };
  }

  /** Yields the conversations of each landmark in a request, the last landmark and the newest conversation first. */
  *#landmarksOf(request: RequestHistory): Generator<{ readonly at: number; readonly known: Known }> {
    const { items } = request;
    const realm = this.#realms.get(request.client ?? request.scope);
    if (!realm) return;
    const heads = countHeads(items);
    for (let at = items.length - 1; at >= heads; at--) {
      if (at > heads && !isReply(items[at]!)) continue;
      const marked = realm.landmarks.get(items[at]!.exact) ?? [];
      for (let index = marked.length - 1; index >= Math.max(0, marked.length - RECENT); index--) {
        yield { at, known: marked[index]! };
      }
    }
  }

  /** Returns the conversation whose summary a request quotes, or continues after its client requested one. */
  #quotedBy(
    request: RequestHistory,
    candidates: readonly Candidate<Known>[],
    named?: Known,
  ): Known | undefined {
    const recent = named ? [named] : this.#recent(request);
    const quotable = recent.filter(({ quotable }) => quotable.length > 0);
    const text = quotable.length > 0 ? textOf(request) : "";
    const quoted = quotable.find(({ quotable }) => quotesAny(text, quotable));
    if (quoted) return quoted;
    // A summary that can't be read: the conversation is the same if key and instructions are. A history that continues after
    // a reply of the model is a branch.
    const newest = named ?? (request.isKeyed ? this.#newest(request) : undefined);
    if (!newest?.isSummarized) return undefined;
    if (!named && this.#shared(newest, request.items) === 0) return undefined;
    const shared = Math.max(0, ...candidates.map(({ shared }) => shared));
    return request.items.slice(0, shared).some(isReply) ? undefined : newest;
  }

  /** Returns the conversation whose history ends like that of a request, which begins with something else in its place. */
  #endOf(request: RequestHistory): Known | undefined {
    const { items, scope } = request;
    const heads = countHeads(items);
    for (const { at, known } of this.#landmarksOf(request)) {
      const { items: own, settled } = this.#places.get(known)!;
      if (known.scope !== scope || at <= heads || own[settled - 1]?.exact !== items[at]!.exact) continue;
      let length = 0;
      while (own[settled - 1 - length]?.exact === items[at - length]?.exact && length <= at) length++;
      const start = items.slice(heads, at - length + 1);
      const isStart = start.length > 0 && start.length <= START_ITEMS &&
        start.every((item) => !isOfModel(item) && !isResult(item));
      const results = own.slice(settled).filter(isResult);
      // The last one may end in transient text.
      const isEnd = results.every(({ shape }, index) => items[at + 1 + index]?.shape === shape);
      const hasResults = own.slice(settled - length).some((item, index) =>
        isResult(item) && item.exact === items[at - length + 1 + index]?.exact
      );
      if (isStart && isEnd && hasResults && length < settled) return known;
    }
    return undefined;
  }

  /** Returns the conversation of another scope of the client that a request continues as a whole. */
  #elsewhere(request: RequestHistory): Recognised<Known> | undefined {
    if (request.client === undefined) return undefined;
    const isOther = (known: Known) => known.scope !== request.scope && known.client === request.client;
    const { candidates } = this.#candidates(request, isOther, true);
    const whole = candidates.find(({ place, shared }) =>
      shared === place.items.length && place.items.some(isReply)
    );
    return whole && { type: "fork", known: whole.known, at: whole.shared };
  }

  /** Returns the newest conversations of a request's scope, the newest first. */
  #recent({ client, scope }: Pick<RequestHistory, "client" | "scope">): readonly Known[] {
    const all = this.#realms.get(client ?? scope)?.scopes.get(scope);
    return all ? [...all].slice(-RECENT).reverse() : [];
  }

  /** Returns the conversation without a name that was continued last in a request's scope. */
  #newest(request: RequestHistory): Known | undefined {
    let newest: Known | undefined;
    for (const known of this.#recent(request)) {
      if (known.name !== undefined) continue;
      if (!newest || isNewer(this.#places.get(known)!, this.#places.get(newest)!)) newest = known;
    }
    return newest;
  }

  #shared(known: Known, items: readonly HistoryItem[]): number {
    return sharedLength(this.#places.get(known)?.items ?? [], items);
  }

  #realmOf({ client, scope }: Pick<KnownConversation, "client" | "scope">): Realm<Known> {
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
      const marked = realm.landmarks.get(exact);
      if (!marked) realm.landmarks.set(exact, [known]);
      else if (!marked.includes(known)) marked.push(known);
    }
    const scope = realm.scopes.get(known.scope) ?? new Set();
    scope.delete(known);
    realm.scopes.set(known.scope, scope.add(known));
  }

  #unmark(
    known: Known,
    place: Place,
    { realm, from }: { readonly realm: Realm<Known>; readonly from: number },
  ): void {
    if (from === place.items.length) return;
    const kept = new Set(
      place.items.slice(0, from).filter((_, at) => isLandmark(place, at)).map(({ exact }) => exact),
    );
    for (let at = from; at < place.items.length; at++) {
      const { exact } = place.items[at]!;
      if (!isLandmark(place, at) || kept.has(exact)) continue;
      const marked = realm.landmarks.get(exact)?.filter((other) => other !== known) ?? [];
      if (marked.length > 0) realm.landmarks.set(exact, marked);
      else realm.landmarks.delete(exact);
    }
  }
}

/** Returns how a request continues a conversation at its end; `undefined` if it doesn't. */
function grownBy<Known extends KnownConversation>(
  candidate: Candidate<Known>,
  request: RequestHistory,
): Grown<Known> | undefined {
  const { known, place, shared: at } = candidate;
  const { items: own } = place;
  if (own.length === 0) return undefined;
  const { end, isCut } = endOf(place, request);
  // The summary with which a history begins isn't transient.
  const isOpening = isCut && place.settled === place.heads && known.begunWith.length > 0;
  if (isOpening && !quotesAny(textOf(request), known.begunWith)) return undefined;
  const length = isCut ? end + 1 : end;
  const missing = own.length - length;
  if (at >= end) return { known, at, how: at === own.length ? "grown" : "transient", length, missing };
  return isCleared(candidate, request, end) ? { known, at, how: "cleared", length, missing } : undefined;
}

function continues<Known>({ known, at, length, how }: Grown<Known>): Recognised<Known> {
  return { type: "continue", known, at, length, how };
}

/**
 * Returns how many items of a history a request must contain to continue it. The model's next reply comes after them; what
 * the previous request had there is transient: items, or text that is cut from the end of the last one.
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

/**
 * Whether what a history shares with a conversation is that one's own. Openings alone aren't: subagents share instructions, and
 * equal jobs their task, too.
 */
function identifies<Known extends KnownConversation>(
  { known, shared }: Candidate<Known>,
  request: RequestHistory,
): boolean {
  return request.items.slice(0, shared).some(isReply) || quotesAny(textOf(request, shared), known.begunWith);
}

/** Whether a user continues from a step of an interrupted turn: its client hadn't recorded the steps after it. */
function isInterrupted<Known extends KnownConversation>(
  candidate: Candidate<Known>,
  request: RequestHistory,
): boolean {
  const { known, place: { items: own, settled }, shared } = candidate;
  const rest = request.items.slice(shared);
  if (shared === own.length || !known.isAmidTurn || !identifies(candidate, request)) return false;
  // Text of the user after the lost steps may be transient.
  const lost = own.slice(shared, settled > shared ? settled : own.length);
  return lost.every(({ role }) => role !== "user") && rest.at(-1)?.role === "user" && !rest.some(isReply);
}

/** Whether a request contains a whole history in which one text replaces several old results. */
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
  // One other result may be that of another conversation.
  return first.some((text) =>
    cleared.every((texts) => texts.includes(text)) &&
    cleared.flat().filter((other) => other === text).length > 1
  );
}

/** Returns hashes of an item's text up to the end of each of its last lines, blank ones aside. */
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

/** Returns how many items at the start of two histories are the same; the first `heads` may differ. */
function sharedLength(one: readonly HistoryItem[], other: readonly HistoryItem[], heads = 0): number {
  const end = Math.min(one.length, other.length);
  let at = Math.min(heads, end);
  while (at < end && isSame(one, other, at)) at++;
  return at;
}

function isSame(one: readonly HistoryItem[], other: readonly HistoryItem[], at: number): boolean {
  return one[at] === other[at] || one[at]?.exact === other[at]?.exact;
}

/** Returns how many instructions a history begins with. */
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

function isNewer({ used: [ms, order] }: Place, { used: [otherMs, otherOrder] }: Place): boolean {
  return ms > otherMs || ms === otherMs && order > otherOrder;
}
