import {
  type Content,
  contentText,
  type Message,
  type ToolDefinition,
  type ToolMessage,
  type Usage,
} from "@tare/messages";
import {
  checkGiven,
  countMessageTokens,
  hashPiece,
  holdsMedia,
  type NeededOptions,
  reasonOf,
} from "@tare/messages/internal";
import {
  type LedgerEntry,
  plannerSession,
  type PlanningSession,
  type PromptSessionOptions,
  readTooLong,
  type SessionView,
} from "@tare/planner";
import {
  type Continuation,
  type HistoryItem,
  type KnownConversation,
  Recognition,
  type RequestHistory,
  type StoredHistory,
} from "@tare/planner/internal";
import { type Archive, archiveRef, memoryArchive, RECALL_TOOL, recallOriginal } from "@tare/prune";
import { type Books, type TareOptions, warnByConsole, withDefaults } from "./options.ts";

/** A chat message, and the place of what it was read from. */
export interface Piece {
  readonly message: Message;
  /** Position of the first that it was read from. */
  readonly at: number;
  /** Position behind the last. */
  readonly end: number;
  /** Which part of it, where several messages were read from one. Default: all. */
  readonly part?: number;
}

/** How what a framework hands over is read. */
export interface Reader<Given> {
  /** Whether two of its messages say the same: asked of each message at each call, so it must cost next to nothing. */
  readonly same: (one: Given, other: Given) => boolean;
  /** The chat messages of what is given, from a place on at which one begins. */
  readonly read: (given: readonly Given[], from: number) => Piece[];
}

/** A call that a framework is about to make. */
export interface AdaptedCall<Given> {
  /** Its whole history. */
  readonly given: readonly Given[];
  readonly tools: readonly ToolDefinition[];
  /** Name of its conversation, if it has one. */
  readonly name?: string | undefined;
  /** Name of the model. */
  readonly model?: string | undefined;
  /** Ends the wait for a summary. */
  readonly signal?: AbortSignal | undefined;
}

/** What a call shall send. */
export interface AdaptedView {
  readonly view: SessionView;
  /** What the history was read as; the position of a message in it is that of its place. */
  readonly pieces: readonly Piece[];
  /** Books the call, once it has succeeded: what the provider reported, and the ids of the tool calls that it replied. */
  book(usage: Usage | undefined, replied: readonly string[]): Promise<void>;
  /** Takes note of a call that failed; whether that is because its prompt is too long. Then a view of it is shorter. */
  failed(error: unknown): Promise<boolean>;
  /** Takes note that nobody waits for the call any more, whatever came of it. */
  left(): void;
}

/** A conversation, as far as it was shown here. */
interface Conversation<Given> extends KnownConversation {
  readonly number: number;
  /** The session that decides for it: a fork's is made once what it is a fork of is at rest. */
  readonly session: Promise<PlanningSession>;
  /** Where its texts are, maybe with others', and what of them it can read. */
  readonly texts: Archive;
  readonly archive: Archive;
  readonly refs: Set<string>;
  /** The references that it can search, each with the length of its history when the text was put, in messages. */
  readonly listed: Map<string, number>;
  /** What its last call gave, how many of that are instructions, and what it was read as. Nothing after a restart. */
  given: readonly Given[];
  heads: number;
  pieces: readonly Piece[];
  /** The messages of the pieces: there may be thousands, which no call goes through again. */
  messages: readonly Message[];
  /** What its last call showed. */
  shown: readonly Message[];
  /** Ids of the tool calls that its model replied last. */
  replied: readonly string[];
  /** The call that is being made for it. */
  inFlight: symbol | undefined;
  /** Settles once no view is made for it any more. */
  atRest: Promise<unknown>;
  /** How many calls it has had under the instructions that it has. */
  calls: number;
  /** How many messages stay of what its session knows, where the rest is others now. */
  cutBack: number | undefined;
  bytes: number;
  /** What was stored of it last. */
  stored: Stored | undefined;
}

/** Conversations of one name, or that begin alike: what is stored under one key. */
interface Group<Given> {
  readonly name: string;
  /** Those used last stand last. */
  readonly conversations: Set<Conversation<Given>>;
  /** The key; settles once what was stored under it is there. */
  ready: Promise<string> | undefined;
}

/** What is stored of a conversation. */
interface Stored {
  readonly state: unknown;
  readonly lookedAt: unknown;
  readonly refs: readonly string[];
  readonly listed: readonly (readonly [ref: string, length: number])[];
  readonly history: StoredHistory;
}

/** So many entries of the ledger are remembered. */
const LEDGER_LENGTH = 1_000;

/** So many conversations are stored under one key. */
const STORED_LENGTH = 32;

/** What a message of a history begins and ends with, in UTF-16 code units, tells it apart. */
const END_LENGTH = 64;

/** What a message takes beside its text, and a token of its text, in bytes. */
const [MESSAGE_BYTES, TOKEN_BYTES] = [1_024, 8];

const MEMORY = { conversations: 1_000, bytes: 256 * 1_024 ** 2 };

/** `plannerSession()` checks those of planning. */
const OPTIONS: NeededOptions<TareOptions<unknown>> = {
  "profile?": "value",
  "countTokens?": "value",
  "windowTokens?": "value",
  "planning?": "object",
  "conversation?": "function",
  "store?": { load: "function", save: "function" },
  "archive?": { put: "function", get: "function" },
  "warn?": "function",
  "memory?": { "conversations?": "positive", "bytes?": "positive" },
  "now?": "function",
};

const { properties: PROPERTIES } = RECALL_TOOL.function.parameters;

/**
 * The conversations of a process whose loop somebody else runs and whose histories somebody else keeps. They are told
 * apart by what they say: a call goes on with the one whose history it begins with; if that is being asked, or if it
 * branches off after a reply, it goes on as a fork; a prompt that is asked again begins a new conversation.
 */
export class AdaptedConversations<Given, Call> implements Books {
  readonly #options: TareOptions<Call> & Pick<PromptSessionOptions, "countTokens">;
  readonly #sessionOptions: Omit<PromptSessionOptions, "archive">;
  readonly #warn: (sentence: string) => void;
  readonly #reader: Reader<Given>;
  readonly #recognition = new Recognition<Conversation<Given>>();
  /** Those used last stand last. */
  readonly #groups = new Map<string, Group<Given>>();
  readonly #ledger: Books["ledger"][number][] = [];
  #total: Books["total"] = { calls: 0, tokenUnits: 0, withoutTokenUnits: 0 };
  #count = 0;
  #held = { conversations: 0, bytes: 0 };

  constructor(model: unknown, { reader, ...given }: TareOptions<Call> & { readonly reader: Reader<Given> }) {
    checkGiven("tare()", { options: { model, ...given } }, { options: { model: "value", ...OPTIONS } });
    if (given.store && !given.archive) {
      throw new TypeError(
        "Cannot run tare(): options.archive is missing; with a store it must be an archive that lives as long",
      );
    }
    const options = withDefaults(model, given);
    const { planning, profile, countTokens, windowTokens, warn = warnByConsole } = options;
    const session = {
      ...{ ...planning, profile, countTokens },
      ...(windowTokens !== undefined && { windowTokens }),
    };
    this.#options = options;
    this.#sessionOptions = session;
    this.#warn = warn;
    this.#reader = reader;
    // It says what else is wrong with them.
    plannerSession({ ...session, archive: memoryArchive() });
  }

  get ledger(): Books["ledger"] {
    return this.#ledger;
  }

  get total(): Books["total"] {
    return this.#total;
  }

  /** What the next call sends of the framework's whole history. */
  async view(call: AdaptedCall<Given>): Promise<AdaptedView> {
    const heads = this.#headsOf(call.given);
    const group = this.#groupOf(call, heads);
    const key = this.#options.store && await (group.ready ??= this.#load(group, call, heads));
    const conversation = this.#take(group, call.given, heads);
    const { pieces } = conversation;
    const inFlight = conversation.inFlight = Symbol();
    const end = () => {
      if (conversation.inFlight === inFlight) conversation.inFlight = undefined;
    };
    const making = this.#makeView(conversation, call);
    conversation.atRest = making.catch(end);
    const view = await making;
    this.#bound(group, conversation);
    await this.#save(conversation, group, key);
    return {
      view,
      pieces,
      book: async (usage, replied) => {
        end();
        conversation.replied = replied;
        this.#enter(this.#sent(await conversation.session, usage, view), conversation);
        await this.#save(conversation, group, key);
      },
      failed: async (error) => {
        end();
        const told = readTooLong(wordsOf(error));
        if (!told) return false;
        (await conversation.session).rejected(told.windowTokens, { promptTokens: told.promptTokens, view });
        await this.#save(conversation, group, key);
        return true;
      },
      left: end,
    };
  }

  /**
   * Answers a call of the recall tool, whose arguments nobody has checked, from the conversation whose model has made it.
   *
   * @param callId Id of the call, if the framework tells it.
   */
  async recall(args: unknown, callId: string | undefined): Promise<string> {
    const { ref, lines, find, offset, ...others } = Object(args) as Readonly<Record<string, unknown>>;
    const [other] = Object.keys(others);
    if (other !== undefined) {
      return `Cannot recall by ${other}: what can be given is ${Object.keys(PROPERTIES).join(", ")}.`;
    }
    if (ref != null && typeof ref !== "string") {
      return `Cannot recall: ref is ${JSON.stringify(ref)}; it must be the 16 hex digits of a placeholder.`;
    }
    const groups = [...this.#groups.values()];
    const all = groups.flatMap(({ conversations }) => [...conversations]);
    const asking = all.filter(({ replied }) => callId !== undefined && replied.includes(callId));
    const among = asking.length > 0 ? asking : all;
    const able = typeof ref === "string"
      ? among.filter(({ refs }) => refs.has(ref.trim().toLowerCase()))
      : among;
    // The newest one of a name stands for the others: what left them, left it.
    const only = groups.length === 1 && groups.every(isNamed) ? all.slice(-1) : all;
    const known = asking.length === 1 ? asking : only.length === 1 ? only : [];
    const [conversation] = known.length === 1 && (typeof ref !== "string" || asking.length === 1)
      ? known
      : able;
    // What no conversation here has put there may be one's that was forgotten.
    const texts = conversation?.archive ?? this.#options.archive ?? memoryArchive();
    // Which of several asks isn't known: it must say by its reference what it asks for.
    const isKnown = conversation !== undefined && known.includes(conversation);
    const shown = isKnown ? () => conversation.shown : undefined;
    const archive = isKnown ? texts : { ...unlisted(texts), ...(all.length === 0 && { refs: () => [] }) };
    // Some models fill in null for what they don't want.
    const request = {
      ...(ref != null && { ref }),
      ...(lines != null && { lines: String(lines) }),
      ...(find != null && { find: String(find) }),
      ...(offset != null && { offset: Number(offset) }),
    };
    const { countTokens } = this.#options;
    try {
      return (await recallOriginal(archive, request, { countTokens, shown })).content;
    } catch (error) {
      const { message } = error as Error;
      this.#warn(`Cannot recall what left a prompt: ${message}`);
      return `Cannot recall: ${message}`;
    }
  }

  /** How many of what is given are instructions that stand in front. */
  #headsOf(given: readonly Given[]): number {
    const at = given.findIndex((one) => !this.#reader.read([one], 0).every(isInstruction));
    return at < 0 ? given.length : at;
  }

  /** The group of a call, which is the one that was used last from now on. */
  #groupOf({ given, name }: AdaptedCall<Given>, heads: number): Group<Given> {
    checkGiven("tare()", { "what options.conversation gives": { name } }, {
      "what options.conversation gives": { "name?": "string" },
    });
    const key = name === undefined ? `~${this.#openingOf(given, heads)}` : `=${name}`;
    const group = this.#groups.get(key) ?? { name: key, conversations: new Set(), ready: undefined };
    this.#groups.delete(key);
    this.#groups.set(key, group);
    return group;
  }

  /** What tells apart cheaply histories that begin differently: how long the first message is, and its ends. */
  #openingOf(given: readonly Given[], heads: number): string {
    const [piece] = this.#reader.read(given.slice(heads, heads + 1), 0);
    if (piece) {
      checkGiven("tare()", { [`messages[${heads}]`]: piece.message }, { [`messages[${heads}]`]: "message" });
    }
    const text = contentText(piece?.message.content);
    return `${text.length} ${text.slice(0, END_LENGTH)} ${text.slice(-END_LENGTH)}`;
  }

  /** The conversation that a call is of: its history is this one from then on. */
  #take(group: Group<Given>, given: readonly Given[], heads: number): Conversation<Given> {
    const { now = Date.now } = this.#options;
    const read = this.#read(group, given, heads);
    checkGiven("tare()", { messages: read.map(({ message }) => message) }, { messages: "messages" });
    const request: RequestHistory = {
      scope: group.name,
      items: read.map(({ message }) => itemOf(message)),
      textsOf: (at) => [contentText(read[at]?.message.content)],
    };
    const found = this.#recognise(group, request);
    const before = namedBefore(group);
    const conversation = found.type === "new"
      ? this.#begin(group, undefined, before)
      : found.type === "fork"
      ? this.#fork(group, found, before)
      : this.#resume(found, before);
    const isKnown = group.conversations.delete(conversation);
    const shared = found.type === "new" ? 0 : found.at;
    // What they share are the very messages that the planner knows.
    const pieces = read.map((piece, at) => {
      const message = at < shared ? conversation.messages[at] : undefined;
      const isOther = message && message !== piece.message && hashPiece(message) === hashPiece(piece.message);
      return isOther ? { ...piece, message } : piece;
    });
    const bytes = this.#bytesOf(conversation.bytes > 0 ? pieces.slice(shared) : pieces);
    conversation.given = given;
    conversation.heads = heads;
    conversation.pieces = pieces;
    conversation.messages = pieces.map(({ message }) => message);
    conversation.bytes += bytes;
    conversation.calls++;
    this.#recognition.follow(conversation, request, now());
    group.conversations.add(conversation);
    this.#held.bytes += bytes;
    if (!isKnown) this.#held.conversations++;
    return conversation;
  }

  /** Reads a history. What is the same in a conversation of its group isn't read again. */
  #read(group: Group<Given>, given: readonly Given[], heads: number): readonly Piece[] {
    const { same, read } = this.#reader;
    let [length, pieces]: [number, readonly Piece[]] = [heads, []];
    for (const one of group.conversations) {
      if (one.heads !== heads) continue;
      let at = heads;
      while (at < one.given.length && at < given.length && same(one.given[at]!, given[at]!)) at++;
      if (at > length) [length, pieces] = [at, one.pieces];
    }
    // The last one shared may go on in what is new.
    const known = pieces.filter(({ at, end }) => at >= heads && end < length);
    const instructions = read(given.slice(0, heads), 0);
    return [...instructions, ...known, ...read(given, known.at(-1)?.end ?? heads)];
  }

  /** Which conversation of a group a request continues, also one whose instructions change with each call. */
  #recognise(group: Group<Given>, request: RequestHistory): Continuation<Conversation<Given>> {
    const found = this.#recognition.recognise(request);
    if (found.type === "continue") return found;
    const heads = request.items.findIndex(({ role }) => role !== "instruction");
    for (const one of group.conversations) {
      const own = this.#recognition.stored(one).items.slice(0, heads);
      if (one.calls > 1 || !own.every(({ role }) => role === "instruction")) continue;
      const again = this.#recognition.recognise({
        ...request,
        items: [...own, ...request.items.slice(heads)],
      });
      if (again.type !== "continue" || again.known !== one || again.how !== "grown") continue;
      one.calls = 0;
      return again;
    }
    return found;
  }

  /** The conversation itself. What left the others of its name meanwhile left it, too. */
  #resume(
    { known, at, how }: Extract<Continuation<Conversation<Given>>, { readonly type: "continue" }>,
    before: readonly Conversation<Given>[],
  ): Conversation<Given> {
    const earlier = textsOf(before, known.texts);
    for (const ref of earlier.refs) known.refs.add(ref);
    for (const [ref, length] of earlier.listed) {
      if (!known.listed.has(ref)) known.listed.set(ref, length);
    }
    if (how !== "grown") known.cutBack = at;
    return known;
  }

  #fork(
    group: Group<Given>,
    { known: from, at }: Extract<Continuation<Conversation<Given>>, { readonly type: "fork" }>,
    before: readonly Conversation<Given>[],
  ): Conversation<Given> {
    const earlier = textsOf(before, from.texts);
    // Of one that only begins alike it isn't known whose the rest is.
    const own = Array.from(from.listed).filter(([, length]) => length <= at);
    const known = {
      texts: from.texts,
      refs: [...earlier.refs, ...from.refs],
      listed: [...earlier.listed, ...own],
    };
    return this.#newConversation(group, known, async (archive, listed) => {
      const session = await from.session;
      await from.atRest;
      const fork = session.fork(at, archive);
      // What was evicted later of the history that they share is evicted from the fork, too.
      const state = JSON.stringify(fork.state);
      for (const ref of from.listed.keys()) {
        if (state.includes(ref) && !listed.has(ref)) listed.set(ref, at);
      }
      return fork;
    });
  }

  /** A new conversation, or one that was stored. What left those `before` under its name left it, too. */
  #begin(
    group: Group<Given>,
    stored?: Stored,
    before: readonly Conversation<Given>[] = [],
  ): Conversation<Given> {
    const texts = before.at(-1)?.texts ?? this.#options.archive ?? memoryArchive();
    const { refs = [], listed = [], state, lookedAt } = stored ?? {};
    const earlier = textsOf(before, texts);
    const begun = this.#newConversation(
      group,
      { texts, refs: [...earlier.refs, ...refs], listed: [...earlier.listed, ...listed] },
      (archive) => {
        const { advanced, ...session } = this.#sessionOptions;
        return Promise.resolve(
          plannerSession({ ...session, archive, state, advanced: { ...advanced, lookedAt } }),
        );
      },
    );
    begun.stored = stored;
    return begun;
  }

  #newConversation(
    { name: scope }: Group<Given>,
    { texts, refs, listed }: {
      readonly texts: Archive;
      readonly refs: Iterable<string>;
      readonly listed: Iterable<readonly [ref: string, length: number]>;
    },
    makeSession: (archive: Archive, listed: Map<string, number>) => Promise<PlanningSession>,
  ): Conversation<Given> {
    const own = new Set(refs);
    const list = new Map(listed);
    const archive: Archive = {
      async put(text) {
        const ref = await texts.put(text);
        own.add(ref);
        if (!list.has(ref)) list.set(ref, conversation.messages.length);
        return ref;
      },
      refs: () => [...list.keys()],
      get: (ref) => own.has(ref) ? texts.get(ref) : Promise.resolve(undefined),
    };
    const conversation: Conversation<Given> = {
      get facts() {
        const { replied, inFlight } = conversation;
        // A branch may begin amid a turn.
        return { scope, turns: true, isAmidTurn: false, replied, isBusy: inFlight !== undefined };
      },
      number: ++this.#count,
      session: makeSession(archive, list),
      texts,
      archive,
      refs: own,
      listed: list,
      given: [],
      heads: 0,
      pieces: [],
      messages: [],
      shown: [],
      replied: [],
      inFlight: undefined,
      atRest: Promise.resolve(),
      calls: 0,
      cutBack: undefined,
      bytes: 0,
      stored: undefined,
    };
    return conversation;
  }

  async #makeView(
    conversation: Conversation<Given>,
    { tools, model, signal }: AdaptedCall<Given>,
  ): Promise<SessionView> {
    const { now = Date.now } = this.#options;
    const session = await conversation.session;
    const { messages, cutBack } = conversation;
    if (cutBack !== undefined) session.cutBack(cutBack);
    conversation.cutBack = undefined;
    const view = await session.view({ messages, tools }, {
      nowMs: now(),
      ...(model !== undefined && { model }),
      ...(signal && { signal }),
    });
    conversation.shown = view.messages;
    for (const warning of view.warnings) this.#warn(warning);
    return view;
  }

  /** Books a call; by what was counted here, if what was reported of it can't be. */
  #sent(session: PlanningSession, usage: Usage | undefined, view: SessionView): LedgerEntry | undefined {
    try {
      return session.sent(usage, view);
    } catch (error) {
      this.#warn(`Cannot book what a model reported: ${reasonOf(error)}`);
      return session.sent(undefined, view);
    }
  }

  #enter(entry: LedgerEntry | undefined, { number }: Conversation<Given>): void {
    if (!entry) return;
    this.#ledger.push({ ...entry, conversation: number });
    if (this.#ledger.length > LEDGER_LENGTH) this.#ledger.shift();
    const { calls, tokenUnits, withoutTokenUnits } = this.#total;
    this.#total = {
      calls: calls + 1,
      tokenUnits: tokenUnits + entry.tokenUnits,
      withoutTokenUnits: withoutTokenUnits + entry.withoutTokenUnits,
    };
  }

  /** Forgets what was used longest ago, until no more is held than may be. */
  #bound(group: Group<Given>, current: Conversation<Given>): void {
    const { conversations, bytes } = { ...MEMORY, ...this.#options.memory };
    const isOver = () => this.#held.conversations > conversations || this.#held.bytes > bytes;
    for (const oldest of this.#groups.values()) {
      if (!isOver()) return;
      for (const one of oldest.conversations) {
        // What is stored together is read together.
        if (oldest === group && (one === current || !isOver())) continue;
        oldest.conversations.delete(one);
        this.#recognition.forget(one);
        this.#held.conversations--;
        this.#held.bytes -= one.bytes;
      }
      if (oldest !== group) this.#groups.delete(oldest.name);
    }
  }

  #bytesOf(pieces: readonly Piece[]): number {
    const { countTokens } = this.#options;
    return pieces.reduce(
      (sum, { message }) => sum + MESSAGE_BYTES + TOKEN_BYTES * countMessageTokens(message, countTokens),
      0,
    );
  }

  /** Reads what is stored of a group, and gives the key under which it is. */
  async #load(group: Group<Given>, { given, name }: AdaptedCall<Given>, heads: number): Promise<string> {
    const opening = this.#reader.read(given.slice(0, heads + 1), 0).map(({ message }) => message);
    const key = name ?? await archiveRef(JSON.stringify(opening));
    try {
      const { conversations } = Object(await this.#options.store?.load(key)) as {
        readonly conversations?: readonly Stored[];
      };
      for (const stored of conversations ?? []) {
        const conversation = this.#begin(group, stored);
        this.#recognition.restore(conversation, stored.history, 0);
        group.conversations.add(conversation);
        this.#held.conversations++;
      }
    } catch (error) {
      this.#warn(`Cannot go on where a conversation was, which begins anew: ${reasonOf(error)}`);
    }
    return key;
  }

  async #save(
    conversation: Conversation<Given>,
    group: Group<Given>,
    key: string | undefined,
  ): Promise<void> {
    if (key === undefined) return;
    const { state, lookedAt } = await conversation.session;
    if (conversation.stored?.state === state) return;
    const { items, stems } = this.#recognition.stored(conversation);
    conversation.stored = {
      ...{ state, lookedAt },
      refs: [...conversation.refs],
      listed: [...conversation.listed],
      history: { items: [...items], stems },
    };
    const conversations = [...group.conversations].flatMap(({ stored }) => stored ?? []).slice(
      -STORED_LENGTH,
    );
    try {
      await this.#options.store?.save(key, { conversations });
    } catch (error) {
      this.#warn(`Cannot store what is known of a conversation: ${reasonOf(error)}`);
    }
  }
}

/** An archive whose texts can be read by their references alone. */
function unlisted(archive: Archive): Archive {
  return {
    put: (text) => archive.put(text),
    get: (ref) => archive.get(ref),
  };
}

/** The conversations of a name, of which each new one is a part; none of a group that only begins alike. */
function namedBefore<Given>(group: Group<Given>): readonly Conversation<Given>[] {
  return isNamed(group) ? [...group.conversations] : [];
}

/** The texts of conversations that are kept there, as those list them that go on from all of them. */
function textsOf<Given>(conversations: readonly Conversation<Given>[], texts: Archive): {
  readonly refs: readonly string[];
  readonly listed: readonly (readonly [ref: string, length: number])[];
} {
  const there = conversations.filter((one) => one.texts === texts);
  return {
    refs: there.flatMap(({ refs }) => [...refs]),
    listed: there.flatMap(({ listed }) => Array.from(listed.keys(), (ref) => [ref, 0] as const)),
  };
}

/** Whether a group is of one conversation, which its framework has named. */
function isNamed({ name }: Pick<Group<unknown>, "name">): boolean {
  return name.startsWith("=");
}

const items = new WeakMap<Message, HistoryItem>();

/** Returns a message as an item of a history. */
function itemOf(message: Message): HistoryItem {
  const known = items.get(message);
  if (known) return known;
  const exact = String(hashPiece(message));
  const { role } = message;
  const item: HistoryItem = message.role === "tool"
    ? { exact, role: "result", shape: message.tool_call_id }
    : { exact, role: role === "assistant" ? "reply" : role === "user" ? "user" : "instruction" };
  items.set(message, item);
  return item;
}

function isInstruction({ message: { role } }: Piece): boolean {
  return role === "system" || role === "developer";
}

/**
 * The result of a call. One that holds media stays as long as the window isn't full, since recalls are answered by text
 * alone.
 */
export function resultMessage(id: string, content: Content, failed = false): ToolMessage {
  return {
    role: "tool",
    tool_call_id: id,
    content,
    ...(failed && { failed }),
    ...(holdsMedia(content) && { keep: true }),
  };
}

/** Asks a model; once more, for less, if it refuses what it is sent because that is too long. */
export async function askFitting<Reply>(
  { view, ask }: {
    readonly view: () => Promise<AdaptedView>;
    readonly ask: (made: AdaptedView) => PromiseLike<Reply>;
  },
): Promise<{ readonly made: AdaptedView; readonly reply: Reply }> {
  const made = await view();
  try {
    return { made, reply: await ask(made) };
  } catch (error) {
    if (!await made.failed(error)) throw error;
  }
  const shorter = await view();
  try {
    return { made: shorter, reply: await ask(shorter) };
  } catch (error) {
    await shorter.failed(error);
    throw error;
  }
}

/** A model with these methods in place of its own. */
export function withMethods<Model extends object>(
  model: Model,
  methods: Readonly<Record<string, (request: never) => unknown>>,
): Model {
  return new Proxy(model, {
    get(target, key) {
      if (typeof key === "string" && Object.hasOwn(methods, key)) return methods[key];
      const value: unknown = Reflect.get(target, key);
      // A model may have private fields, which its methods find on itself alone.
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** What an error of a framework or of a provider's client says. */
function wordsOf(error: unknown): string {
  const { message, responseBody, code, error: body } = Object(error) as Readonly<Record<string, unknown>>;
  return [message, responseBody, code, body && JSON.stringify(body)]
    .filter((words) => typeof words === "string").join("\n");
}
