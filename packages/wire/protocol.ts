import type { Message, StableMessages, ToolDefinition, Usage } from "@tare/messages";
import type { Span } from "./json.ts";

/** A planner message of an item, with its location in the item. */
export interface ItemPart {
  readonly message: Message;
  /**
   * The message's meaning: two spellings with the same meaning have the same JSON. Excludes call ids, and
   * reasoning next to text. Default: the item's bytes decide.
   */
  readonly said?: unknown;
  /** Whether the item contains only reasoning, which clients may omit. Default: false. */
  readonly isThought?: boolean;
  /** Path of the replaceable text in the item. Default: none. */
  readonly text?: readonly (string | number)[];
  /** Path of the part in an item that has others. Default: the whole item. */
  readonly at?: readonly (string | number)[];
  /** Cache breakpoint of the part, as JSON. Default: none. */
  readonly mark?: string;
  /** Whether replacing the text removes the breakpoint. Default: false. */
  readonly holdsMark?: boolean;
  /** Id of an item of an earlier reply that was sent by id only. */
  readonly refersTo?: string;
  /** Names of the request's tools that the provider adds here instead of at the front. Default: none. */
  readonly finds?: readonly string[];
  /**
   * Purpose of a request that ends in this item: the next step, a summary that replaces the conversation, or
   * another one. Default: unknown.
   */
  readonly purpose?: "turn" | "compaction" | "other";
}

/** The parts of an upstream reply that the gateway reads. */
export interface WireReply {
  /** Usage, if reported. */
  readonly usage?: Usage;
  /** Its id, if later requests can refer to it. */
  readonly id?: string;
  /** Finish reason in the upstream's own terms, if reported. */
  readonly finish?: string;
  /** Calls of the recall tool. */
  readonly recalls: readonly {
    /** Id that the answer must have. */
    readonly id: string;
    /** JSON text of the arguments, as the model wrote it. */
    readonly arguments: string;
  }[];
  /** Whether it calls tools of the client. */
  readonly callsClient: boolean;
  /**
   * The reply's items as the upstream knows them, each as JSON, including recalls; may be empty for a turn
   * without recalls if the text isn't retained.
   */
  readonly items: readonly string[];
  /** Text of the reply, if the writer retains it. */
  readonly text?: string;
  /**
   * Whether the provider paused in the middle of content that its client doesn't see, to continue when it is
   * sent back. Default: false.
   */
  readonly isPaused?: boolean;
}

/** A model-call protocol: the formats of requests, replies and errors. The planner only sees messages. */
export interface Protocol {
  /** Unique name; sessions of different protocols are separate. */
  readonly name: string;
  /** Path after the upstream's base URL. */
  readonly path: string;
  /** Path for counting a request's tokens. Default: none. */
  readonly countPath?: string;
  /** Name of the field with the list of items. */
  readonly listField: string;
  /** Reader of content before the list, such as instructions. Default: none. */
  readonly head?: {
    /** Field names, in order. */
    readonly fields: readonly string[];
    /** Converts their values to messages. */
    readonly read: (values: readonly unknown[]) => readonly ItemPart[];
  };
  /** Authentication with the provider's key. */
  readonly auth: {
    /** Headers with client credentials, in lower case. */
    readonly headers: readonly string[];
    /** Name of the header with the key. */
    readonly name: string;
    /** Prefix of its value. */
    readonly prefix: string;
  };
  /** Names of the fields that limit the tokens of a reply. */
  readonly replyFields: readonly string[];
  /** Smallest accepted reply limit: a client that sets it wants the prompt read without an answer. */
  readonly minReplyTokens: number;
  /** Default assumptions about how agents compact a conversation that exceeds their window. */
  readonly compaction: {
    /**
     * Characters of each result in the summary request, which contains only evicted messages. Default: it
     * contains the whole prompt and shares its prefix.
     */
    readonly resultChars?: number;
    /** Characters of the newest messages that are retained, as JSON. Default: none. */
    readonly keptChars?: () => number;
    /** Tokens of other content that the client retains after the session's first prompt. Default: none. */
    readonly keptTokens?: number;
    /** Whether that first prompt stays unchanged, so that the cache serves it. */
    readonly keepsFront: boolean;
  };
  /** Returns whether a request to a shared path belongs to this protocol. Default: false. */
  readonly speaks?: (headers: Headers) => boolean;
  /** Name of the field with the id of the response to continue from. Default: none. */
  readonly followsField?: string;
  /** Returns the client's statements about its session and request. */
  readHints(body: WireBody, headers: Headers): RequestHints;
  /**
   * Returns the requested cache lifetime after the last use, in milliseconds; 0 without caching. Default: not
   * requested.
   */
  readonly cacheTtlMs?: (request: WireRequest) => number;
  /** Returns the messages of an item. @throws {UnknownShape} if the protocol doesn't allow it. */
  readItem(value: unknown): readonly ItemPart[];
  /**
   * Returns the paths of an item's call ids, in order: of its calls, or of those it answers. Default: none.
   */
  readonly idPaths?: (value: unknown) => readonly (readonly (string | number)[])[];
  /** Name of a tool's cache-breakpoint field. Default: none. */
  readonly markField?: string;
  /**
   * Returns the body without a random number before the instructions, which some clients send with each
   * request and which only the provider itself removes; `undefined` if it has none. Default: no such number.
   */
  readonly withoutNonce?: (body: WireBody) => Uint8Array<ArrayBuffer> | undefined;
  /** Reads a tool definition. @throws {UnknownShape} if the protocol doesn't allow it. */
  readTool(value: unknown): ReadTool;
  /** Returns the item, as JSON, of a message that Tare adds: a placeholder for evicted content. */
  writeMessage(message: Message): string;
  /** Returns the items, each as JSON, that answer these calls. */
  writeAnswers(answers: readonly { readonly id: string; readonly text: string }[]): readonly string[];
  /** Returns the JSON of a tool with this definition, replacing `original`. */
  writeTool(tool: ToolDefinition, original?: unknown): string;
  /** Returns fields to add to the client's own, as JSON by name. */
  addedFields(request: WireRequest): ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  /**
   * Returns the items of a changed list, corrected for the protocol, and the message counts (`ends`) after
   * which added cache breakpoints follow. Default: no correction.
   */
  readonly arrange?: (
    request: WireRequest,
    written: readonly WrittenItem[],
    prompt: ArrangedPrompt,
  ) => { readonly items: readonly Uint8Array<ArrayBuffer>[]; readonly ends: readonly number[] };
  /**
   * Returns the message counts after which the client's cache breakpoints follow; 0 is after the tools.
   * Default: the provider caches the whole prompt.
   */
  readonly markedEnds?: (
    request: WireRequest,
    written: readonly WrittenItem[],
  ) => readonly number[];
  /** Deferral of tool definitions until the provider's own search finds them. Default: unsupported. */
  readonly toolSearch?: ToolSearch;
  /** Returns a writer that forwards one turn's replies to the client: several if the model recalls. */
  writer(request: WireRequest, options: TurnWriterOptions): TurnWriter;
  /** Cache keep-alive. Default: unsupported for less than the cost of a reply. */
  readonly pings?: KeepAlive;
  /** Returns the error response to a refused request. `code` is the machine-readable error. */
  refuse(status: number, message: string, code: string): Response;
}

/** State of a changed list. */
export interface ArrangedPrompt {
  /**
   * Number of messages, from the first, that the previous request also contained, if it continued
   * differently.
   */
  readonly kept?: number | undefined;
  /** Unchanged part of the messages. Default: unknown. */
  readonly stable?: StableMessages;
  /** Whether no request continues from this one. Default: false. */
  readonly isLast?: boolean;
  /**
   * Whether cache breakpoints are added to an unchanged list: where the client sets too few (`some`), or to
   * any request. Default: no.
   */
  readonly completesMarks?: "some" | "any" | undefined;
}

/** An item as written, or an added message. */
export interface WrittenItem {
  /** The item. Default: an added message. */
  readonly item?: WireItem;
  /** Visible form of each part; `undefined` for hidden ones. */
  readonly seen: readonly (Message | undefined)[];
  /** Bytes for the upstream; `undefined` for an evicted item, or one before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer> | undefined;
  /** Number of visible messages up to its end. */
  readonly end: number;
}

/** A tool as read. */
export interface ReadTool {
  /** Definition for the planner. */
  readonly definition: ToolDefinition;
  /** Whether it is at the front of the prompt; a deferred tool is absent until found. */
  readonly inFront: boolean;
}

/** A client's statements about its session and a request. */
export interface RequestHints {
  /** Key that separates histories with equal beginnings. Default: only content does. */
  readonly key?: string;
  /** The client's name for the session, for any history. Default: none. */
  readonly name?: string;
  /** Id of the response that the request continues. */
  readonly follows?: string;
  /** Purpose of the request. Default: unknown. */
  readonly purpose?: NonNullable<ItemPart["purpose"]>;
  /** Whether the model may call no tools. Default: false. */
  readonly forbidsTools?: boolean;
  /** Whether the model must call one named tool, as for structured output. Default: false. */
  readonly forcesTool?: boolean;
  /** Whether the context window of a million tokens is requested, if the model has one. Default: false. */
  readonly asksForMillion?: boolean;
  /** Whether the upstream stores the history. */
  readonly isStateful: boolean;
  /**
   * Whether the upstream appends each request and reply to a stored conversation, which additional requests
   * would pollute. Default: false.
   */
  readonly isAppended?: boolean;
  /** Whether the reply can't be continued or read, so that planning is pointless. */
  readonly isDetached: boolean;
}

/** Requests that retain a prompt in the provider's cache during pauses. */
export interface KeepAlive {
  /**
   * Returns the blocks of a reply, each as JSON, that can follow its request in a keep-alive request;
   * `undefined` if it isn't finished, can't be restored exactly, or the provider wouldn't find its cache
   * entry from that end.
   */
  readAnswerBlocks(
    body: Uint8Array<ArrayBuffer>,
    reply: Uint8Array<ArrayBuffer>,
    isStream: boolean,
  ): readonly string[] | undefined;
  /**
   * Returns the request that extends the cache lifetime of this body's prompt by its current one, or with the
   * answer appended to an hour.
   */
  write(body: Uint8Array<ArrayBuffer>, answer?: readonly string[]): Uint8Array<ArrayBuffer>;
  /** Returns the usage in its reply; `undefined` if not reported. @throws {SyntaxError} if it is no JSON. */
  readUsage(reply: Uint8Array<ArrayBuffer>): Usage | undefined;
  /** Returns whether the headers of an answer report an exhausted limit. */
  leavesNothing(headers: Headers): boolean;
  /**
   * Returns whether the request's headers belong to a subscription, whose limits keep-alive requests would
   * count toward.
   */
  isSubscription(headers: Headers): boolean;
  /** Returns whether a request's reasoning settings prevent a request without a reply. */
  mustReply(request: WireBody): boolean;
}

/** Deferral of tool definitions until the provider's own search finds them. */
export interface ToolSearch {
  /** The model's search tool. */
  readonly tool: WireTool;
  /** Returns whether a client's tool shows that the client defers tools itself, or doesn't allow deferral. */
  forbids(tool: unknown): boolean;
  /** Returns the deferred form of a tool; the prompt has no cache breakpoint there. */
  defer(tool: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /** Returns the only tool that the model may call; `undefined` if it chooses. */
  forced(request: WireBody): string | undefined;
  /** Returns an item without searches and their results; the same object if it has none. */
  without(item: unknown): unknown;
}

/** Forwards one turn's replies to the client: several if the model recalls. */
export interface TurnWriter {
  /** Id by which the client may refer to the turn, if any. */
  readonly id?: string | undefined;
  /** Takes bytes of a streamed reply. Returns those that the client may see now. */
  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[];
  /** Ends a streamed reply. Returns it. */
  end(): WireReply;
  /** Reads a complete reply. @throws {SyntaxError} if it is no JSON. */
  read(bytes: Uint8Array<ArrayBuffer>): WireReply;
  /** Ends the turn with this reply. Returns the rest of a stream, or the whole answer. */
  finish(): Uint8Array<ArrayBuffer>;
  /** Returns the stream's error event after the turn's next reply failed mid-stream. */
  fail(message: string): Uint8Array<ArrayBuffer>;
  /**
   * Returns items of a reply that later prompts need in addition to, or in place of, the client's; `answers`
   * are those to recalls, by reply.
   */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[];
}

/** Forwarding options of a turn's replies. */
export interface TurnWriterOptions {
  /** Name of the tool whose calls are hidden from the client. Default: none. */
  readonly recall?: string | undefined;
  /** Whether the provider's tool searches are hidden from the client. Default: false. */
  readonly hidesSearches?: boolean;
  /** Whether replies contain the model's text. Default: false. */
  readonly keepsText?: boolean;
  /** Called with each item of a reply that has a referable id. */
  readonly seen?: ((id: string, parts: readonly ItemPart[]) => void) | undefined;
}

/** Items of the upstream's prompt in place of, or in addition to, the client's version of a reply. */
export interface HiddenItems {
  /** Anchors ({@linkcode anchorOf}) of items in the client's history that these items replace. */
  readonly replaces: readonly string[];
  /** Anchors of items in the client's history: these items are inserted before the first one present. */
  readonly before: readonly string[];
  /** Anchors of the client's reasoning that these items already contain. */
  readonly thoughts: readonly string[];
  /** The items, each as JSON. */
  readonly items: readonly string[];
}

/** An unknown request shape. The request is forwarded unchanged. */
export class UnknownShape extends Error {
  override readonly name = "UnknownShape";
  /** The field at fault, if any. */
  readonly param?: string;

  /** Creates an error with a description of the shape. */
  constructor(message: string, { param }: { readonly param?: string } = {}) {
    super(message);
    if (param !== undefined) this.param = param;
  }
}

/** The key header of OpenAI's clients. */
export const BEARER: Protocol["auth"] = {
  headers: ["authorization"],
  name: "authorization",
  prefix: "Bearer ",
};

/** A JSON body with the spans of its fields. */
export interface WireBody {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Spans of field values, by name. */
  readonly fields: ReadonlyMap<string, Span>;
  /** Previously read items of its list. */
  readonly known?: KnownList | undefined;
}

/** An item of a request's list, or of its replacement. */
export interface WireItem {
  /** Key by meaning: items that differ only in spelling share it. */
  readonly key: string;
  /** Planner messages; calls and answers have ids derived from the call. */
  readonly parts: readonly ItemPart[];
  /** JSON of the item, preceded by its reasoning items; `undefined` before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer>;
  /** Reasoning items before the item, and the item without them. Default: none. */
  readonly thought?: { readonly before: readonly WireItem[]; readonly item: WireItem };
}

/** A request, as far as the gateway reads it. */
export interface WireRequest extends WireBody {
  readonly protocol: Protocol;
  readonly model: string;
  readonly stream: boolean;
  /** Most tokens of the reply. Absent: not set. */
  readonly replyTokens?: number;
  /** Content before the list, then the list's items. */
  readonly items: readonly WireItem[];
  /** The tools; `undefined` if the request has none. */
  readonly tools: readonly WireTool[] | undefined;
  /** Whether the tools or their order differ from the body. Default: false. */
  readonly hasOtherTools?: boolean;
}

/** A tool of a request. */
export interface WireTool extends ReadTool {
  /** Its JSON, as sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A piece of JSON as read. */
export interface JsonPiece<T> {
  /** Key of its meaning. */
  readonly key: string;
  /** The result; the same object for the same bytes while cached. */
  readonly value: T;
}

/** Equivalence of the spellings of a piece. */
export interface Spelling<T> {
  /** Returns each part's meaning as JSON; `undefined` where the bytes decide. */
  said(made: T): readonly string[] | undefined;
  /** Returns the piece with its parts named by meaning. */
  named(made: T, names: readonly string[]): T;
  /** Returns one spelling's result, sharing all equal parts with another's. */
  adopt(made: T, known: T): T;
}

/** Reads pieces of JSON, with an optional cache. */
export interface JsonReader<T> {
  /** Returns the piece at a span. @throws {SyntaxError} if it is no JSON. @throws errors of `read`. */
  read(
    bytes: Uint8Array<ArrayBuffer>,
    place: Span & {
      /** Namespace of the cache. */
      readonly kind: string;
      /** Converts the JSON to the cached result. */
      readonly read: (value: unknown) => T;
      /** Equivalence of spellings. Default: different bytes are different pieces. */
      readonly spelling?: Spelling<T>;
    },
  ): JsonPiece<T>;
}

/** An item as read. */
export type ReadPiece = JsonPiece<readonly ItemPart[]>;

/** An item of a list, without its span. */
export interface PairedPiece {
  /** The item; calls and answers have ids derived from the call. */
  readonly piece: ReadPiece;
  /** Whether all of it is from a model. */
  readonly isReply: boolean;
  /** Its calls: client id, called content, assigned id. */
  readonly calls: readonly { readonly clientId: string; readonly what: string; readonly id: string }[];
  /** Client ids of the calls that it answers. */
  readonly answers: readonly string[];
}

/** An item with its span, relative to the list's first byte. */
export interface ListedPiece extends PairedPiece, Span {}

/** Known items at the start of a list. */
export interface KnownList {
  readonly items: readonly ListedPiece[];
  /** End of the last one, exclusive, relative to the list's first byte. */
  readonly end: number;
}

/** A cache of lists: a client that resends its history starts with the previous list. */
export interface ListReader {
  /** Returns the items of a known list with which the bytes at `start` begin. */
  find(bytes: Uint8Array<ArrayBuffer>, start: number, kind: string): KnownList | undefined;
  /** Stores all items of a list, with those that were known before. */
  keep(bytes: Uint8Array<ArrayBuffer>, list: {
    readonly start: number;
    readonly kind: string;
    readonly items: readonly ListedPiece[];
    readonly known: KnownList | undefined;
  }): void;
}

/** Readers of a request's parts. */
export interface RequestReaders {
  /** Default: no list cache. */
  readonly lists?: ListReader | undefined;
  readonly items: JsonReader<readonly ItemPart[]>;
  readonly tools: JsonReader<ReadTool>;
  /** Returns the item of an earlier reply with this id. Default: unknown. */
  readonly referred?: (id: string) => readonly ItemPart[] | undefined;
}

/** The protocol and readers for items. */
export interface Reading {
  readonly protocol: Protocol;
  readonly readers: RequestReaders;
}

/** The prompt of a request: visible messages and tools. */
export interface RequestPrompt extends ArrangedPrompt {
  /** All items that may be in the list. */
  readonly items: readonly WireItem[];
  /** Visible messages of these items. */
  readonly messages: readonly Message[];
  /** Each message's index among the items' messages; −1 for an added one. */
  readonly places: readonly number[];
  /** Visible forms of the request's functions, in order, then added ones. */
  readonly tools: readonly ToolDefinition[];
  /** Upstream id of the response to continue from, if it differs from the client's. */
  readonly follows?: string | undefined;
  /** Values of fields that are added where the client set none. Default: none. */
  readonly fields?: Readonly<Record<string, string>> | undefined;
  /**
   * Called with the message counts after which cache breakpoints follow, 0 being after the tools; not called
   * where the provider caches the whole prompt.
   */
  readonly marked?: (ends: readonly number[]) => void;
}
