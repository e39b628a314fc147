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
import { type AdapterLedger, type TareOptions, warnByConsole, withDefaults } from "./options.ts";

/** A chat message and the positions of its source items. */
export interface Piece {
  readonly message: Message;
  readonly at: number;
  readonly end: number;
  /** Index of the part, if one item contains several messages. Default: the whole item. */
  readonly part?: number;
}

/** Reader of a framework's items. */
export interface Reader<Given> {
  /** Returns whether two items are equal. Called for each item at each call, so it must be cheap. */
  readonly same: (one: Given, other: Given) => boolean;
  /** Returns the chat messages of the items from a position at which one begins. */
  readonly read: (given: readonly Given[], from: number) => Piece[];
}

/** A model call of a framework. */
export interface AdaptedCall<Given> {
  readonly given: readonly Given[];
  readonly tools: readonly ToolDefinition[];
  readonly name?: string | undefined;
  readonly model?: string | undefined;
  /** Cancels the wait for a summary. */
  readonly signal?: AbortSignal | undefined;
}

/** View of a call. */
export interface AdaptedView {
  readonly view: SessionView;
  readonly pieces: readonly Piece[];
  /** Records a successful call: its usage, and the ids of the tool calls in its reply. */
  record(usage: Usage | undefined, replied: readonly string[]): Promise<void>;
  /** Records a failed call. Resolves to whether its prompt was too long; then the next view is shorter. */
  failed(error: unknown): Promise<boolean>;
  release(): void;
}

interface Conversation<Given> extends KnownConversation {
  readonly number: number;
  /** Planner session; a fork's is created when its origin is at rest. */
  readonly session: Promise<PlanningSession>;
  /** Archive, possibly shared, and the restricted view of it. */
  readonly texts: Archive;
  readonly archive: Archive;
  readonly refs: Set<string>;
  /** Searchable references, with the length of the history in messages when each text was archived. */
  readonly listed: Map<string, number>;
  /** Items of the last call, number of instructions among them, and their pieces. Empty after a restart. */
  given: readonly Given[];
  heads: number;
  pieces: readonly Piece[];
  /** Messages of the pieces, cached because there may be thousands. */
  messages: readonly Message[];
  visible: readonly Message[];
  replied: readonly string[];
  inFlight: symbol | undefined;
  /** Settles when no view is being created. */
  atRest: Promise<unknown>;
  calls: number;
  /** Number of messages that the session retains, if the rest changed. */
  cutBack: number | undefined;
  bytes: number;
  stored: Stored | undefined;
}

/** Conversations with one name or a similar opening, stored under one key. */
interface Group<Given> {
  readonly name: string;
  /** Least recently used first. */
  readonly conversations: Set<Conversation<Given>>;
  /** Resolves to the key when the stored state is loaded. */
  ready: Promise<string> | undefined;
}

interface Stored {
  readonly state: unknown;
  readonly inspected: unknown;
  readonly refs: readonly string[];
  readonly listed: readonly (readonly [ref: string, length: number])[];
  readonly history: StoredHistory;
}

const LEDGER_LENGTH = 1_000;

const STORED_LENGTH = 32;

/** Length of a message's beginning and end that identify it, in UTF-16 code units. */
const END_LENGTH = 64;

/** Estimated memory per message and per token, in bytes. */
const [MESSAGE_BYTES, TOKEN_BYTES] = [1_024, 8];

const MEMORY = { conversations: 1_000, bytes: 256 * 1_024 ** 2 };

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
 * Conversations of a process whose loop and history belong to a framework, recognized by content: a call continues the
 * conversation that is its prefix; if that has a call in flight, or the call branches off after a reply, it becomes a fork;
 * a repeated opening prompt starts a new conversation.
 */
export class AdaptedConversations<Given, Call> implements AdapterLedger {
  readonly #options: TareOptions<Call> & Pick<PromptSessionOptions, "countTokens">;
  readonly #sessionOptions: Omit<PromptSessionOptions, "archive">;
  readonly #warn: (sentence: string) => void;
  readonly #reader: Reader<Given>;
  readonly #recognition = new Recognition<Conversation<Given>>();
  /** Least recently used first. */
  readonly #groups = new Map<string, Group<Given>>();
  readonly #ledger: AdapterLedger["ledger"][number][] = [];
  #total: AdapterLedger["total"] = { calls: 0, costUnits: 0, baselineCostUnits: 0 };
  #count = 0;
  #held = { conversations: 0, bytes: 0 };

  constructor(model: unknown, { reader, ...given }: TareOptions<Call> & { readonly reader: Reader<Given> }) {
    checkGiven("tare()", { options: { model, ...given } }, { options: { model: "value", ...OPTIONS } });
    if (given.store && !given.archive) {
      throw new TypeError(
        "Cannot run tare(): options.archive is missing. Pass an archive that is as durable as the store.",
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
    plannerSession({ ...session, archive: memoryArchive() });
  }

  get ledger(): AdapterLedger["ledger"] {
    return this.#ledger;
  }

  get total(): AdapterLedger["total"] {
    return this.#total;
  }

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
      record: async (usage, replied) => {
        end();
        conversation.replied = replied;
        this.#enter(this.#sent(await conversation.session, usage, view), conversation);
        await this.#save(conversation, group, key);
      },
      failed: async (error) => {
        end();
        const tooLong = readTooLong(wordsOf(error));
        if (!tooLong) return false;
        (await conversation.session).rejected(tooLong.windowTokens, {
          promptTokens: tooLong.promptTokens,
          view,
        });
        await this.#save(conversation, group, key);
        return true;
      },
      release: end,
    };
  }

  /**
   * Runs a call of the recall tool in the conversation whose model made it. `args` are unchecked.
   *
   * @param callId Id of the call, if known.
   */
  async recall(args: unknown, callId: string | undefined): Promise<string> {
    const { ref, lines, find, offset, ...others } = Object(args) as Readonly<Record<string, unknown>>;
    const [other] = Object.keys(others);
    if (other !== undefined) {
      return `Cannot recall by ${other}: unknown argument. Use ${Object.keys(PROPERTIES).join(", ")}.`;
    }
    if (ref != null && typeof ref !== "string") {
      return `Cannot recall: ref is ${JSON.stringify(ref)}. Use the 16 hex digits of a placeholder.`;
    }
    const groups = [...this.#groups.values()];
    const all = groups.flatMap(({ conversations }) => [...conversations]);
    const asking = all.filter(({ replied }) => callId !== undefined && replied.includes(callId));
    const among = asking.length > 0 ? asking : all;
    const able = typeof ref === "string"
      ? among.filter(({ refs }) => refs.has(ref.trim().toLowerCase()))
      : among;
    // The newest conversation of a name includes what was evicted from the others.
    const only = groups.length === 1 && groups.every(isNamed) ? all.slice(-1) : all;
    const known = asking.length === 1 ? asking : only.length === 1 ? only : [];
    const [conversation] = known.length === 1 && (typeof ref !== "string" || asking.length === 1)
      ? known
      : able;
    // An unknown reference may be of a conversation that was evicted from memory.
    const texts = conversation?.archive ?? this.#options.archive ?? memoryArchive();
    // If the conversation is ambiguous, only a reference identifies the content.
    const isKnown = conversation !== undefined && known.includes(conversation);
    const visible = isKnown ? () => conversation.visible : undefined;
    const archive = isKnown ? texts : { ...unlisted(texts), ...(all.length === 0 && { refs: () => [] }) };
    // Some models pass null for omitted arguments.
    const request = {
      ...(ref != null && { ref }),
      ...(lines != null && { lines: String(lines) }),
      ...(find != null && { find: String(find) }),
      ...(offset != null && { offset: Number(offset) }),
    };
    const { countTokens } = this.#options;
    try {
      return (await recallOriginal(archive, request, { countTokens, visible })).content;
    } catch (error) {
      const { message } = error as Error;
      this.#warn(`Cannot recall evicted content: ${message}`);
      return `Cannot recall: ${message}`;
    }
  }

  #headsOf(given: readonly Given[]): number {
    const at = given.findIndex((one) => !this.#reader.read([one], 0).every(isInstruction));
    return at < 0 ? given.length : at;
  }

  /** Marks the group as most recently used. */
  #groupOf({ given, name }: AdaptedCall<Given>, heads: number): Group<Given> {
    checkGiven("tare()", { "the result of options.conversation": { name } }, {
      "the result of options.conversation": { "name?": "string" },
    });
    const key = name === undefined ? `~${this.#openingOf(given, heads)}` : `=${name}`;
    const group = this.#groups.get(key) ?? { name: key, conversations: new Set(), ready: undefined };
    this.#groups.delete(key);
    this.#groups.set(key, group);
    return group;
  }

  /** Returns a cheap key of a history's opening: length, beginning and end of the first message. */
  #openingOf(given: readonly Given[], heads: number): string {
    const [piece] = this.#reader.read(given.slice(heads, heads + 1), 0);
    if (piece) {
      checkGiven("tare()", { [`messages[${heads}]`]: piece.message }, { [`messages[${heads}]`]: "message" });
    }
    const text = contentText(piece?.message.content);
    return `${text.length} ${text.slice(0, END_LENGTH)} ${text.slice(-END_LENGTH)}`;
  }

  #take(group: Group<Given>, given: readonly Given[], heads: number): Conversation<Given> {
    const { now = Date.now } = this.#options;
    const read = this.#read(group, given, heads);
    checkGiven("tare()", { messages: read.map(({ message }) => message) }, { messages: "messages" });
    const request: RequestHistory = {
      scope: group.name,
      items: read.map(({ message }) => itemOf(message)),
      textsOf: (at) => [contentText(read[at]?.message.content)],
    };
    const found = this.#recognize(group, request);
    const before = namedBefore(group);
    const conversation = found.type === "new"
      ? this.#begin(group, undefined, before)
      : found.type === "fork"
      ? this.#fork(group, found, before)
      : this.#resume(found, before);
    const isKnown = group.conversations.delete(conversation);
    const shared = found.type === "new" ? 0 : found.at;
    // Shared messages are the objects that the planner knows.
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

  /** Reads a history, except the prefix that it shares with a conversation of its group. */
  #read(group: Group<Given>, given: readonly Given[], heads: number): readonly Piece[] {
    const { same, read } = this.#reader;
    let [length, pieces]: [number, readonly Piece[]] = [heads, []];
    for (const one of group.conversations) {
      if (one.heads !== heads) continue;
      let at = heads;
      while (at < one.given.length && at < given.length && same(one.given[at]!, given[at]!)) at++;
      if (at > length) [length, pieces] = [at, one.pieces];
    }
    // The last shared piece may extend into new items.
    const known = pieces.filter(({ at, end }) => at >= heads && end < length);
    const instructions = read(given.slice(0, heads), 0);
    return [...instructions, ...known, ...read(given, known.at(-1)?.end ?? heads)];
  }

  #recognize(group: Group<Given>, request: RequestHistory): Continuation<Conversation<Given>> {
    const found = this.#recognition.recognize(request);
    if (found.type === "continue") return found;
    const heads = request.items.findIndex(({ role }) => role !== "instruction");
    for (const one of group.conversations) {
      const own = this.#recognition.stored(one).items.slice(0, heads);
      if (one.calls > 1 || !own.every(({ role }) => role === "instruction")) continue;
      const again = this.#recognition.recognize({
        ...request,
        items: [...own, ...request.items.slice(heads)],
      });
      if (again.type !== "continue" || again.known !== one || again.how !== "grown") continue;
      one.calls = 0;
      return again;
    }
    return found;
  }

  /** Returns the conversation, with content evicted from the others of its name meanwhile. */
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
    // Later content may belong to the other branch.
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
      // Includes later evictions from the shared history.
      const state = JSON.stringify(fork.state);
      for (const ref of from.listed.keys()) {
        if (state.includes(ref) && !listed.has(ref)) listed.set(ref, at);
      }
      return fork;
    });
  }

  /** Returns a new or stored conversation, with content evicted from those `before` under its name. */
  #begin(
    group: Group<Given>,
    stored?: Stored,
    before: readonly Conversation<Given>[] = [],
  ): Conversation<Given> {
    const texts = before.at(-1)?.texts ?? this.#options.archive ?? memoryArchive();
    const { refs = [], listed = [], state, inspected } = stored ?? {};
    const earlier = textsOf(before, texts);
    const begun = this.#newConversation(
      group,
      { texts, refs: [...earlier.refs, ...refs], listed: [...earlier.listed, ...listed] },
      (archive) => {
        const { advanced, ...session } = this.#sessionOptions;
        return Promise.resolve(
          plannerSession({ ...session, archive, state, advanced: { ...advanced, inspected } }),
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
      visible: [],
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
    conversation.visible = view.messages;
    for (const warning of view.warnings) this.#warn(warning);
    return view;
  }

  /** Tokens are counted if the reported usage is invalid. */
  #sent(session: PlanningSession, usage: Usage | undefined, view: SessionView): LedgerEntry | undefined {
    try {
      return session.sent(usage, view);
    } catch (error) {
      this.#warn(`Cannot record the reported usage: ${reasonOf(error)}`);
      return session.sent(undefined, view);
    }
  }

  #enter(entry: LedgerEntry | undefined, { number }: Conversation<Given>): void {
    if (!entry) return;
    this.#ledger.push({ ...entry, conversation: number });
    if (this.#ledger.length > LEDGER_LENGTH) this.#ledger.shift();
    const { calls, costUnits, baselineCostUnits } = this.#total;
    this.#total = {
      calls: calls + 1,
      costUnits: costUnits + entry.costUnits,
      baselineCostUnits: baselineCostUnits + entry.baselineCostUnits,
    };
  }

  /** Evicts the least recently used conversations above the limits. */
  #bound(group: Group<Given>, current: Conversation<Given>): void {
    const { conversations, bytes } = { ...MEMORY, ...this.#options.memory };
    const isOver = () => this.#held.conversations > conversations || this.#held.bytes > bytes;
    for (const oldest of this.#groups.values()) {
      if (!isOver()) return;
      for (const one of oldest.conversations) {
        // Conversations stored together are loaded together.
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

  /** Resolves to the key. */
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
      this.#warn(`Cannot load a conversation, which starts again: ${reasonOf(error)}`);
    }
    return key;
  }

  async #save(
    conversation: Conversation<Given>,
    group: Group<Given>,
    key: string | undefined,
  ): Promise<void> {
    if (key === undefined) return;
    const { state, inspected } = await conversation.session;
    if (conversation.stored?.state === state) return;
    const { items, stems } = this.#recognition.stored(conversation);
    conversation.stored = {
      ...{ state, inspected },
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
      this.#warn(`Cannot save a conversation: ${reasonOf(error)}`);
    }
  }
}

/** Returns an archive that can be read by reference but not listed. */
function unlisted(archive: Archive): Archive {
  return {
    put: (text) => archive.put(text),
    get: (ref) => archive.get(ref),
  };
}

/** None for groups by opening. */
function namedBefore<Given>(group: Group<Given>): readonly Conversation<Given>[] {
  return isNamed(group) ? [...group.conversations] : [];
}

/** Returns the references of conversations in an archive, for one that continues all of them. */
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

function isNamed({ name }: Pick<Group<unknown>, "name">): boolean {
  return name.startsWith("=");
}

const items = new WeakMap<Message, HistoryItem>();

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

/** Returns a tool message. Media is retained unless the window is full, because recalls return text only. */
export function resultMessage(id: string, content: Content, failed = false): ToolMessage {
  return {
    role: "tool",
    tool_call_id: id,
    content,
    ...(failed && { failed }),
    ...(holdsMedia(content) && { keep: true }),
  };
}

/** Calls a model; retries with a shorter view if the prompt is rejected as too long. */
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

export function withMethods<Model extends object>(
  model: Model,
  methods: Readonly<Record<string, (request: never) => unknown>>,
): Model {
  return new Proxy(model, {
    get(target, key) {
      if (typeof key === "string" && Object.hasOwn(methods, key)) return methods[key];
      const value: unknown = Reflect.get(target, key);
      // Methods need the model itself for its private fields.
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

function wordsOf(error: unknown): string {
  const { message, responseBody, code, error: body } = Object(error) as Readonly<Record<string, unknown>>;
  return [message, responseBody, code, body && JSON.stringify(body)]
    .filter((words) => typeof words === "string").join("\n");
}
