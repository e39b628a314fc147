import type { Message, StableMessages, ToolDefinition, Usage } from "@tare/messages";
import type { Span } from "./json.ts";

/** A planner message of an item, with its location. */
export interface ItemPart {
  readonly message: Message;
  /** The meaning as JSON, equal for all spellings, without call ids. Default: the item's bytes. */
  readonly meaning?: unknown;
  /** Whether the item is only reasoning. Default: false. */
  readonly isThought?: boolean;
  /** Path of the replaceable text. Default: none. */
  readonly text?: readonly (string | number)[];
  /** Path of the part. Default: the whole item. */
  readonly at?: readonly (string | number)[];
  /** Cache breakpoint, as JSON. Default: none. */
  readonly mark?: string;
  /** Whether replacing the text removes the breakpoint. Default: false. */
  readonly holdsMark?: boolean;
  /** Id of an earlier reply's item, if only that was sent. */
  readonly refersTo?: string;
  /** Tools defined here instead of at the front. Default: none. */
  readonly finds?: readonly string[];
  /** Purpose of a request that ends here. Default: unknown. */
  readonly purpose?: "turn" | "compaction" | "other";
}

/** An upstream reply, as far as the gateway reads it. */
export interface WireReply {
  readonly usage?: Usage;
  /** Id for references by later requests, if any. */
  readonly id?: string;
  /** Finish reason in the upstream's terms. */
  readonly finish?: string;
  /** Calls that the gateway answers. */
  readonly recalls: readonly {
    readonly id: string;
    readonly name: string;
    /** JSON text, as the model wrote it. */
    readonly arguments: string;
  }[];
  readonly callsClient: boolean;
  /** All items as JSON, including recalls; may be empty without recalls if the text isn't retained. */
  readonly items: readonly string[];
  /** Present if retained. */
  readonly text?: string;
  /** Whether the provider paused in hidden content. Default: false. */
  readonly isPaused?: boolean;
}

/** A model-call protocol: the formats of requests, replies and errors. */
export interface Protocol {
  /** Unique name; separates sessions. */
  readonly name: string;
  readonly path: string;
  readonly countPath?: string;
  readonly listField: string;
  /** Reader of fields before the list, such as instructions. Default: none. */
  readonly head?: {
    readonly fields: readonly string[];
    readonly read: (values: readonly unknown[]) => readonly ItemPart[];
  };
  /** Authentication headers. */
  readonly auth: {
    /** Client credentials, in lower case. */
    readonly headers: readonly string[];
    /** Header with the provider's key. */
    readonly name: string;
    readonly prefix: string;
  };
  /** Fields that limit the tokens of a reply. */
  readonly replyFields: readonly string[];
  /** Smallest accepted reply limit, set by clients that want the prompt read without an answer. */
  readonly minReplyTokens: number;
  /** Returns whether a request to a shared path is of this protocol. Default: false. */
  readonly speaks?: (headers: Headers) => boolean;
  /** Field for the response to continue. Default: none. */
  readonly followsField?: string;
  readHints(body: WireBody, headers: Headers): RequestHints;
  /** Returns the requested cache lifetime after the last use, in milliseconds; 0 without caching. */
  readonly cacheTtlMs?: (request: WireRequest) => number;
  /** @throws {UnknownShape} if the item is invalid. */
  readItem(value: unknown): readonly ItemPart[];
  /** Returns the paths of the ids of an item's calls, or of those it answers. Default: none. */
  readonly idPaths?: (value: unknown) => readonly (readonly (string | number)[])[];
  /** A tool's cache-breakpoint field. Default: none. */
  readonly markField?: string;
  /**
   * Returns the body without a random number that some clients add before the instructions, and the provider
   * removes; `undefined` without one. Default: none.
   */
  readonly withoutNonce?: (body: WireBody) => Uint8Array<ArrayBuffer> | undefined;
  /** @throws {UnknownShape} if the tool is invalid. */
  readTool(value: unknown): ReadTool;
  /** Returns the JSON item of an added message. */
  writeMessage(message: Message): string;
  writeAnswers(answers: readonly { readonly id: string; readonly text: string }[]): readonly string[];
  /** Returns the JSON of a tool, based on `original`. */
  writeTool(tool: ToolDefinition, original?: unknown): string;
  /** Returns JSON fields to add, by name. */
  addedFields(request: WireRequest): ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  /**
   * Returns the corrected items of a changed list, and the message counts (`ends`) before added cache
   * breakpoints. Default: no correction.
   */
  readonly arrange?: (
    request: WireRequest,
    written: readonly WrittenItem[],
    prompt: ArrangedPrompt,
  ) => { readonly items: readonly Uint8Array<ArrayBuffer>[]; readonly ends: readonly number[] };
  /**
   * Returns the message counts before the client's cache breakpoints; 0 is after the tools. Default: the
   * whole prompt is cached.
   */
  readonly markedEnds?: (
    request: WireRequest,
    written: readonly WrittenItem[],
  ) => readonly number[];
  /** Deferral of tools until the provider's search finds them. Default: unsupported. */
  readonly toolSearch?: ToolSearch;
  /**
   * Returns whether a tool excludes deferral by a pair of tools, since the client or the provider itself defers. Default:
   * unsupported.
   */
  readonly forbidsToolPair?: (tool: unknown) => boolean;
  /** Returns a writer of one turn's replies. */
  writer(request: WireRequest, options: TurnWriterOptions): TurnWriter;
  /** Cache keep-alive. Default: unsupported, since each request would cost a reply. */
  readonly keepAlive?: KeepAlive;
  /** Returns an error response. `code` is machine-readable. */
  refuse(status: number, message: string, code: string): Response;
}

/** A changed list. */
export interface ArrangedPrompt {
  /** Number of leading messages shared with the previous request, if it continued differently. */
  readonly sharedCount?: number | undefined;
  /** Default: unknown. */
  readonly stable?: StableMessages;
  /** Whether the request is never continued. Default: false. */
  readonly isLast?: boolean;
  /** Breakpoints to add to unchanged lists: `some` if the client sets too few, or `any`. Default: none. */
  readonly completesBreakpoints?: "some" | "any" | undefined;
}

/** An item as written, or an added message. */
export interface WrittenItem {
  /** Default: an added message. */
  readonly item?: WireItem;
  /** Visible form of each part, if any. */
  readonly seen: readonly (Message | undefined)[];
  /** Upstream JSON; `undefined` if evicted or before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer> | undefined;
  /** Visible messages up to its end. */
  readonly end: number;
}

/** A tool as read. */
export interface ReadTool {
  readonly definition: ToolDefinition;
  /** Whether it is at the front of the prompt; deferred tools aren't. */
  readonly inFront: boolean;
}

/** A client's statements about its session and request. */
export interface RequestHints {
  /** Key that separates histories with equal beginnings. Default: none. */
  readonly key?: string;
  /** Session name, independent of the history. Default: none. */
  readonly name?: string;
  /** Id of the response to continue. */
  readonly follows?: string;
  /** Default: unknown. */
  readonly purpose?: NonNullable<ItemPart["purpose"]>;
  readonly forbidsTools?: boolean;
  readonly forcesTool?: boolean;
  /** Whether a million-token window is requested. Default: false. */
  readonly asksForMillion?: boolean;
  readonly isStateful: boolean;
  /** Whether the upstream appends requests to a stored conversation. Default: false. */
  readonly isAppended?: boolean;
  readonly isDetached: boolean;
}

/** Cache keep-alive requests. */
export interface KeepAlive {
  /**
   * Returns the JSON blocks of a reply for a keep-alive request; `undefined` if unfinished, not exactly
   * restorable, or if the cache entry wouldn't be found from its end.
   */
  readAnswerBlocks(
    body: Uint8Array<ArrayBuffer>,
    reply: Uint8Array<ArrayBuffer>,
    isStream: boolean,
  ): readonly string[] | undefined;
  /**
   * Returns a request that extends this prompt's cache lifetime by its current one; with an answer, by an
   * hour.
   */
  write(body: Uint8Array<ArrayBuffer>, answer?: readonly string[]): Uint8Array<ArrayBuffer>;
  /** @throws {SyntaxError} if the reply is no JSON. */
  readUsage(reply: Uint8Array<ArrayBuffer>): Usage | undefined;
  isLimitExhausted(headers: Headers): boolean;
  /** Returns whether limits of a subscription apply to keep-alive requests. */
  isSubscription(headers: Headers): boolean;
  mustReply(request: WireBody): boolean;
}

/** Deferral of tools until the provider's search finds them. */
export interface ToolSearch {
  readonly tool: WireTool;
  /** Returns whether a tool excludes deferral, or the client defers itself. */
  forbids(tool: unknown): boolean;
  /** Returns the deferred form of a tool, without a cache breakpoint. */
  defer(tool: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /** Returns an item without searches; the same object if unchanged. */
  without(item: unknown): unknown;
}

/** Forwards one turn's replies. */
export interface TurnWriter {
  /** Id of the turn for the client, if any. */
  readonly id?: string | undefined;
  /** Takes streamed bytes. Returns visible ones. */
  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[];
  /** Ends a streamed reply. */
  end(): WireReply;
  /** @throws {SyntaxError} if the reply is no JSON. */
  read(bytes: Uint8Array<ArrayBuffer>): WireReply;
  /** Ends the turn. Returns the rest of a stream, or the whole answer. */
  finish(): Uint8Array<ArrayBuffer>;
  /** Returns an error event for the stream. */
  fail(message: string): Uint8Array<ArrayBuffer>;
  /** Returns items that later prompts need besides the client's; `answers` are those to recalls, by reply. */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[];
}

/** Forwarding options of a turn. */
export interface TurnWriterOptions {
  /** Tool whose calls are hidden from the client. Default: none. */
  readonly recall?: string | undefined;
  /** Tools by which the model finds and calls deferred ones. Default: none. */
  readonly pair?: ToolPairCalls | undefined;
  /** Whether the provider's tool searches are hidden. Default: false. */
  readonly hidesSearches?: boolean;
  /** Whether replies include their text. Default: false. */
  readonly keepsText?: boolean;
  /** Called with each item that has an id. */
  readonly seen?: ((id: string, parts: readonly ItemPart[]) => void) | undefined;
}

/** Calls of the tools by which the model finds and calls deferred ones. */
export interface ToolPairCalls {
  /** Tool whose calls are hidden from the client. */
  readonly find: string;
  /** Tool whose calls the client receives as calls of the tools that they name. */
  readonly call: string;
  /** Returns the call in the arguments of such a call; `undefined`, which hides it, if they name no tool. */
  readonly meant: (
    argumentsText: string,
  ) => { readonly name: string; readonly arguments: string } | undefined;
}

/** Items that the client doesn't have. */
export interface HiddenItems {
  /** Replaced items of the client, by anchor ({@linkcode anchorOf}). */
  readonly replaces: readonly string[];
  /** Items of the client, by anchor, before the first of which these are inserted. */
  readonly before: readonly string[];
  /** The client's reasoning that these items contain, by anchor. */
  readonly thoughts: readonly string[];
  readonly items: readonly string[];
}

/** An unknown request shape; the request is forwarded unchanged. */
export class UnknownShape extends Error {
  override readonly name = "UnknownShape";
  readonly param?: string;

  constructor(message: string, { param }: { readonly param?: string } = {}) {
    super(message);
    if (param !== undefined) this.param = param;
  }
}

/** Authentication of OpenAI's clients. */
export const BEARER: Protocol["auth"] = {
  headers: ["authorization"],
  name: "authorization",
  prefix: "Bearer ",
};

/** A JSON body with its fields' spans. */
export interface WireBody {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly fields: ReadonlyMap<string, Span>;
  readonly known?: KnownList | undefined;
}

/** An item of a request's list. */
export interface WireItem {
  /** Key by meaning, equal for all spellings. */
  readonly key: string;
  /** Planner messages; call ids derive from the calls. */
  readonly parts: readonly ItemPart[];
  /** JSON, including preceding reasoning; `undefined` before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer>;
  /** Reasoning items, and the item without them. Default: none. */
  readonly thought?: { readonly before: readonly WireItem[]; readonly item: WireItem };
}

/** A request as read by the gateway. */
export interface WireRequest extends WireBody {
  readonly protocol: Protocol;
  readonly model: string;
  readonly stream: boolean;
  /** Reply limit, if set. */
  readonly replyTokens?: number;
  /** Content before the list, then its items. */
  readonly items: readonly WireItem[];
  readonly tools: readonly WireTool[] | undefined;
  readonly hasOtherTools?: boolean;
}

/** A tool with its JSON. */
export interface WireTool extends ReadTool {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A piece of JSON as read. */
export interface JsonPiece<T> {
  /** Key by meaning. */
  readonly key: string;
  /** The same object for the same bytes while cached. */
  readonly value: T;
}

/** Equivalence of spellings. */
export interface Spelling<T> {
  /** Returns each part's meaning as JSON, if not its bytes. */
  spelled(made: T): readonly string[] | undefined;
  /** Returns the piece with its parts keyed by meaning. */
  named(made: T, names: readonly string[]): T;
  /** Returns one spelling's result with the equal parts of another's. */
  adopt(made: T, known: T): T;
}

/** Reads JSON pieces. */
export interface JsonReader<T> {
  /** @throws {SyntaxError} if the piece is no JSON. @throws errors of `read`. */
  read(
    bytes: Uint8Array<ArrayBuffer>,
    place: Span & {
      /** Namespace of the cache. */
      readonly kind: string;
      readonly read: (value: unknown) => T;
      /** Default: different bytes are different pieces. */
      readonly spelling?: Spelling<T>;
    },
  ): JsonPiece<T>;
}

/** An item as read. */
export type ReadPiece = JsonPiece<readonly ItemPart[]>;

/** A list item without its span. */
export interface PairedPiece {
  /** The item; call ids derive from the calls. */
  readonly piece: ReadPiece;
  readonly isReply: boolean;
  /** Client id, meaning and assigned id of each call. */
  readonly calls: readonly { readonly clientId: string; readonly what: string; readonly id: string }[];
  /** Client ids of answered calls. */
  readonly answers: readonly string[];
}

/** A list item; its span is relative to the list. */
export interface ListedPiece extends PairedPiece, Span {}

/** Known items at the start of a list. */
export interface KnownList {
  readonly items: readonly ListedPiece[];
  /** Exclusive end, relative to the list. */
  readonly end: number;
}

/** A cache of lists: clients resend their history. */
export interface ListReader {
  /** Returns known items with which the list at `start` begins. */
  find(bytes: Uint8Array<ArrayBuffer>, start: number, kind: string): KnownList | undefined;
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
  /** Returns the item of an earlier reply. Default: unknown. */
  readonly referred?: (id: string) => readonly ItemPart[] | undefined;
}

/** A protocol with its readers. */
export interface Reading {
  readonly protocol: Protocol;
  readonly readers: RequestReaders;
}

/** The visible messages and tools of a request. */
export interface RequestPrompt extends ArrangedPrompt {
  readonly items: readonly WireItem[];
  readonly messages: readonly Message[];
  /** Index of each message among all items; −1 for added ones. */
  readonly places: readonly number[];
  /** Visible and added functions. */
  readonly tools: readonly ToolDefinition[];
  /** Upstream id of the response to continue, if the client's differs. */
  readonly follows?: string | undefined;
  /** Default values of fields. Default: none. */
  readonly fields?: Readonly<Record<string, string>> | undefined;
  /**
   * Called with the message counts before cache breakpoints, 0 being after the tools, unless the whole prompt
   * is cached.
   */
  readonly marked?: (ends: readonly number[]) => void;
}
