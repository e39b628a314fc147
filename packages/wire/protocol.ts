import type { Message, StableMessages, ToolDefinition, Usage } from "@tare/messages";
import type { Span } from "./json.ts";

/** A message of an item, as the planner knows it, and where in the item it stands. */
export interface ItemPart {
  readonly message: Message;
  /**
   * What the message says, however its client spells it: of two that say the same it has the same JSON. Ids of calls aren't
   * in it, nor what a model thought beside what it said. Default: the item's bytes tell it.
   */
  readonly said?: unknown;
  /** Whether the item holds nothing but what a model thought: clients may leave it away. Default: no. */
  readonly isThought?: boolean;
  /** Where the item holds the text that may give way to another. Default: none may. */
  readonly text?: readonly (string | number)[];
  /** Where the part stands in an item that has others. Default: it is the whole item. */
  readonly at?: readonly (string | number)[];
  /** A mark of the provider's cache that stands with it, as JSON. Default: none does. */
  readonly mark?: string;
  /** Whether the mark leaves with the text that may give way to another. Default: it stands beside it. */
  readonly holdsMark?: boolean;
  /** Id of an item of an earlier reply, of which only the id was sent. */
  readonly refersTo?: string;
  /** Names of tools of the request that the provider shows the model there, and not in front. Default: none. */
  readonly finds?: readonly string[];
  /**
   * What a request is for that ends in this item: the next step of a conversation, a summary that shall stand in its
   * place, or something else. Default: the item doesn't say.
   */
  readonly purpose?: "turn" | "compaction" | "other";
}

/** A reply of the upstream, as far as the gateway has to know it. */
export interface WireReply {
  /** Tokens that it took, if the upstream told. */
  readonly usage?: Usage;
  /** Its id, if it can be referred to. */
  readonly id?: string;
  /** Why it ended, in the upstream's word, if that told. */
  readonly finish?: string;
  /** Calls of the recall tool. */
  readonly recalls: readonly {
    /** Id that the answer must carry. */
    readonly id: string;
    /** JSON text of the arguments, as the model wrote it. */
    readonly arguments: string;
  }[];
  /** Whether it calls tools of the client. */
  readonly callsClient: boolean;
  /** The items by which the upstream knows it, each as JSON, recalls included; of a turn without, none may be told that isn't asked to keep its text. */
  readonly items: readonly string[];
  /** What the model said, if the writer was asked to keep it. */
  readonly text?: string;
  /** Whether the provider broke off in the middle of what its client doesn't see, to go on when it is sent back. Default: no. */
  readonly isPaused?: boolean;
}

/**
 * A protocol of model calls: all that is to be known of how requests, replies and errors are written. Whoever decides
 * what a model sees knows messages alone.
 */
export interface Protocol {
  /** Name, by which sessions of different protocols are kept apart. */
  readonly name: string;
  /** Path behind the upstream's base URL. */
  readonly path: string;
  /** Where the same requests are sent to have their tokens counted. Default: nowhere. */
  readonly countPath?: string;
  /** Name of the field that holds the list of items. */
  readonly listField: string;
  /** Makes an item of what stands before the list, such as instructions. Default: nothing stands there. */
  readonly head?: {
    /** The fields, in order. */
    readonly fields: readonly string[];
    /** Makes messages of their values. */
    readonly read: (values: readonly unknown[]) => readonly ItemPart[];
  };
  /** How requests carry the provider's key. */
  readonly auth: {
    /** Headers by which clients show who they are, in lower case. */
    readonly headers: readonly string[];
    /** Name of the header with the key. */
    readonly name: string;
    /** Text of its value before the key. */
    readonly prefix: string;
  };
  /** Names of the fields that say how many tokens a reply may have. */
  readonly replyFields: readonly string[];
  /** Smallest limit on a reply's tokens that the protocol accepts with a reply: who sets it wants the prompt read, and no answer. */
  readonly minReplyTokens: number;
  /** How agents that speak it compact a conversation that their window doesn't hold, where no more is known of one. */
  readonly compaction: {
    /**
     * Characters of each result in the request for a summary, which holds nothing but what leaves. Default: it holds the
     * whole prompt, and begins as that does.
     */
    readonly resultChars?: number;
    /** Characters of the newest messages that stay, as JSON. Default: none. */
    readonly keptChars?: () => number;
    /** Tokens of other things with which the client goes on, behind the session's first prompt. Default: none. */
    readonly keptTokens?: number;
    /** Whether that first prompt is as it was, so that a warm cache serves it. */
    readonly keepsFront: boolean;
  };
  /** Whether a request to a path that protocols share is this protocol's. Default: it isn't. */
  readonly speaks?: (headers: Headers) => boolean;
  /** Name of the field that names the response which a request goes on from. Default: there is none. */
  readonly followsField?: string;
  /** What the client says of its session. */
  readHints(body: WireBody, headers: Headers): RequestHints;
  /**
   * How long the request asks its prompt to be cached, in milliseconds since the last use: zero if not at all.
   * Default: that isn't asked for.
   */
  readonly cacheTtlMs?: (request: WireRequest) => number;
  /** The messages of an item. @throws {UnknownShape} if it isn't as the protocol says. */
  readItem(value: unknown): readonly ItemPart[];
  /** Where an item holds the ids of its calls, in order, or of those that it answers. Default: it has none. */
  readonly idPaths?: (value: unknown) => readonly (readonly (string | number)[])[];
  /** Name of the field by which a tool says that the prompt is to be cached up to it. Default: there is none. */
  readonly markField?: string;
  /**
   * The body without a number that some clients put in front of their instructions, a new one with each request, and that
   * only the provider itself knows to leave out of the prompt. Nothing if it has none. Default: there is no such number.
   */
  readonly withoutNonce?: (body: WireBody) => Uint8Array<ArrayBuffer> | undefined;
  /** Makes a definition of a tool. @throws {UnknownShape} likewise. */
  readTool(value: unknown): ReadTool;
  /** The item, as JSON, of a message that isn't the client's: a line for what left. */
  writeMessage(message: Message): string;
  /** The items, each as JSON, that answer these calls. */
  writeAnswers(answers: readonly { readonly id: string; readonly text: string }[]): readonly string[];
  /** The JSON of a tool that shows this definition, in place of `original`. */
  writeTool(tool: ToolDefinition, original?: unknown): string;
  /** Fields that a request must have beside the client's own, as JSON by name. */
  addedFields(request: WireRequest): ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  /**
   * The items of a list that was changed, put right. `ends` tells behind how many messages the provider is asked to cache
   * the prompt that the client didn't ask for. Default: they are right as they are.
   */
  readonly arrange?: (
    request: WireRequest,
    written: readonly WrittenItem[],
    prompt: ArrangedPrompt,
  ) => { readonly items: readonly Uint8Array<ArrayBuffer>[]; readonly ends: readonly number[] };
  /**
   * Behind how many of the messages the client asks the provider to cache the prompt; 0 is behind the tools. Default: the
   * provider caches all of it.
   */
  readonly markedEnds?: (
    request: WireRequest,
    written: readonly WrittenItem[],
  ) => readonly number[];
  /** How definitions of tools are kept out of prompts until the provider's own search finds them. Default: there is no way. */
  readonly toolSearch?: ToolSearch;
  /** Passes the replies of one turn on to the client: more than one if the model recalls. */
  writer(request: WireRequest, options: TurnWriterOptions): TurnWriter;
  /** How a prompt is kept warm while nothing is asked. Default: there is no way to do so for less than a reply. */
  readonly pings?: KeepAlive;
  /** The answer to a request that isn't passed on. `code` names the error for programs. */
  refuse(status: number, message: string, code: string): Response;
}

/** What is known of a list that was changed. */
export interface ArrangedPrompt {
  /** How many messages, from the first, the request before showed too, if it showed others behind them. */
  readonly kept?: number | undefined;
  /** What of the messages stays as it is. Default: nothing is known of it. */
  readonly stable?: StableMessages;
  /** Whether no request continues from this one. Default: one may. */
  readonly isLast?: boolean;
  /**
   * Whether the provider is asked to cache what the client marks too few places for, though nothing of the list was
   * changed: where it marks `some`, or in `any` request. Default: it isn't.
   */
  readonly completesMarks?: "some" | "any" | undefined;
}

/** What becomes of an item, or of a message that is none of theirs. */
export interface WrittenItem {
  /** The item. Default: it is none. */
  readonly item?: WireItem;
  /** What is seen of its parts, each in its place; nothing of one that isn't. */
  readonly seen: readonly (Message | undefined)[];
  /** What goes upstream; nothing of an item that left, or that stands before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer> | undefined;
  /** How many messages are seen up to its end. */
  readonly end: number;
}

/** What is made of a tool. */
export interface ReadTool {
  /** What it is to the planner. */
  readonly definition: ToolDefinition;
  /** Whether it stands in front of the prompt: a tool that is deferred stands nowhere until it is found. */
  readonly inFront: boolean;
}

/** What a client says of its session and of a request. */
export interface RequestHints {
  /** Keeps apart histories that begin alike. Default: only their content does. */
  readonly key?: string;
  /** Its own name for the session, whatever the history. Default: it has none. */
  readonly name?: string;
  /** Id of the response that the request goes on from. */
  readonly follows?: string;
  /** What the request is for. Default: the client doesn't say. */
  readonly purpose?: NonNullable<ItemPart["purpose"]>;
  /** Whether the model may call no tool, whatever tools there are. Default: it may. */
  readonly forbidsTools?: boolean;
  /** Whether the model has to call one named tool, as for structured output. Default: it chooses. */
  readonly forcesTool?: boolean;
  /** Whether it asks for a context window of a million tokens, where its model has one of that size too. Default: no. */
  readonly asksForMillion?: boolean;
  /** Whether the upstream keeps the history itself. */
  readonly isStateful: boolean;
  /**
   * Whether the upstream appends the items of each request and reply to a conversation that it stores: requests that the
   * client didn't send would add to it. Default: no.
   */
  readonly isAppended?: boolean;
  /** Whether a reply can't be gone on with, or isn't there to be read: there is nothing to plan for. */
  readonly isDetached: boolean;
}

/** How a prompt is kept in the provider's cache while nothing is requested. */
export interface KeepAlive {
  /**
   * What of a reply may stand behind its request in a ping: its blocks, each as JSON. Nothing if it isn't finished, can't be
   * put together exactly as the provider knows it, or the provider wouldn't find from its end what it holds.
   */
  readAnswerBlocks(
    body: Uint8Array<ArrayBuffer>,
    reply: Uint8Array<ArrayBuffer>,
    isStream: boolean,
  ): readonly string[] | undefined;
  /** The request that keeps this body's prompt warm for as long as it was; with the answer behind it, for an hour. */
  write(body: Uint8Array<ArrayBuffer>, answer?: readonly string[]): Uint8Array<ArrayBuffer>;
  /** What the reply to one took; nothing if it doesn't tell. @throws {SyntaxError} if it is no JSON. */
  readUsage(reply: Uint8Array<ArrayBuffer>): Usage | undefined;
  /** Whether an answer with these headers says that one of its client's limits leaves nothing. */
  leavesNothing(headers: Headers): boolean;
  /** Whether a request with these headers is of somebody who has signed in: pings would count toward a subscription's limits. */
  isSubscription(headers: Headers): boolean;
  /** Whether a request has its model think so long that it can't be asked for no reply. */
  mustReply(request: WireBody): boolean;
}

/** How definitions of tools are kept out of prompts until the provider's own search finds them. */
export interface ToolSearch {
  /** The tool by which its model searches. */
  readonly tool: WireTool;
  /** Whether a tool of a client, as it was sent, shows that the client defers its tools itself, or can't have them deferred. */
  forbids(tool: unknown): boolean;
  /** A tool that is deferred: the prompt can't be cached up to there. */
  defer(tool: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /** The name of the only tool that the model may call in a request; nothing if it may choose. */
  forced(request: WireBody): string | undefined;
  /** An item without all searches and what they found; the same object if it has none. */
  without(item: unknown): unknown;
}

/** Forwards the replies of one turn to the client: more than one if the model recalls. */
export interface TurnWriter {
  /** The id by which the client may refer to the turn, if there is one. */
  readonly id?: string | undefined;
  /** Takes bytes of a streamed reply and gives those that the client may see now. */
  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[];
  /** A streamed reply has ended. */
  end(): WireReply;
  /** Takes a whole reply. @throws {SyntaxError} if it is no JSON. */
  read(bytes: Uint8Array<ArrayBuffer>): WireReply;
  /** The turn ends with this reply: the rest of a stream, or the whole answer. */
  finish(): Uint8Array<ArrayBuffer>;
  /** The turn's next reply failed after something was streamed: what tells the client. */
  fail(message: string): Uint8Array<ArrayBuffer>;
  /** What the upstream has to see next time beside, or in place of, what the client knows of a reply; `answers` are those to recalls, by reply. */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[];
}

/** How the replies of a turn are forwarded. */
export interface TurnWriterOptions {
  /** Name of the tool whose calls aren't the client's business. Default: all are. */
  readonly recall?: string | undefined;
  /** Whether what the provider's search for tools puts into replies isn't the client's business. Default: it is. */
  readonly hidesSearches?: boolean;
  /** Whether replies tell what the model said. Default: no. */
  readonly keepsText?: boolean;
  /** Told of each item of a reply that may be referred to by an id. */
  readonly seen?: ((id: string, parts: readonly ItemPart[]) => void) | undefined;
}

/** What the upstream's prompt contains in place of, or in addition to, what the client knows of a reply. */
export interface HiddenItems {
  /** Items of the client's history, as {@linkcode anchorOf} names them, in whose place these items stand. */
  readonly replaces: readonly string[];
  /** Items of the client's history, named likewise, before which they stand: before the first that the client has kept. */
  readonly before: readonly string[];
  /** What of the client's is thought there, named likewise, and stands among these items already. */
  readonly thoughts: readonly string[];
  /** The items, each as JSON. */
  readonly items: readonly string[];
}

/** A request has a shape that the protocol doesn't have. It is passed on as it is. */
export class UnknownShape extends Error {
  /** Always `UnknownShape`. */
  override readonly name = "UnknownShape";
  /** The field of the request that is at fault, if it is one. */
  readonly param?: string;

  /** An error that says what the shape is. */
  constructor(message: string, { param }: { readonly param?: string } = {}) {
    super(message);
    if (param !== undefined) this.param = param;
  }
}

/** A key as OpenAI's clients send it. */
export const BEARER: Protocol["auth"] = {
  headers: ["authorization"],
  name: "authorization",
  prefix: "Bearer ",
};

/** A body of JSON with the places of its fields. */
export interface WireBody {
  /** As it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Places of the values of its fields, by name. */
  readonly fields: ReadonlyMap<string, Span>;
  /** What is known of its list of items. */
  readonly known?: KnownList | undefined;
}

/** An item of a request's list, or of what shall stand in it. */
export interface WireItem {
  /** Names what it says: two items have the same one if they differ in nothing but their spelling. */
  readonly key: string;
  /** What it is to the planner: calls, and what answers them, have ids by what is called. */
  readonly parts: readonly ItemPart[];
  /** Its JSON, behind that of what was thought before it; nothing for what stands before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer>;
  /** What a model thought before it said the item, as items of their own, and the item without. Default: nothing. */
  readonly thought?: { readonly before: readonly WireItem[]; readonly item: WireItem };
}

/** A request, read as far as the gateway has to know it. */
export interface WireRequest extends WireBody {
  readonly protocol: Protocol;
  /** The model that it asks for. */
  readonly model: string;
  /** Whether the answer shall be streamed. */
  readonly stream: boolean;
  /** Most tokens of the reply. Absent: the client doesn't say. */
  readonly replyTokens?: number;
  /** What stands before the list, then the list's items. */
  readonly items: readonly WireItem[];
  /** The tools; nothing if the request has none. */
  readonly tools: readonly WireTool[] | undefined;
  /** Whether the tools are others than in the body, or stand in another order. Default: they are those of the body. */
  readonly hasOtherTools?: boolean;
}

/** A tool of a request. */
export interface WireTool extends ReadTool {
  /** Its JSON, as it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A piece of JSON that was read. */
export interface JsonPiece<T> {
  /** Names it: the names of two pieces differ if what they say does. */
  readonly key: string;
  /** What was made of it: the same object whenever the same bytes come again, as long as they are remembered. */
  readonly value: T;
}

/** What all spellings of a piece share. */
export interface Spelling<T> {
  /** What each part of the piece says, as JSON; nothing where its bytes tell it. */
  said(made: T): readonly string[] | undefined;
  /** What was made of the piece, whose parts have these names by what they say. */
  named(made: T, names: readonly string[]): T;
  /** What was made of one spelling, with all that it shares with what was made of another. */
  adopt(made: T, known: T): T;
}

/** Reads pieces of JSON, and may remember those that come again and again. */
export interface JsonReader<T> {
  /** The piece at this place, and what is to be made of it. @throws {SyntaxError} if it is no JSON. @throws whatever `read` throws. */
  read(
    bytes: Uint8Array<ArrayBuffer>,
    place: Span & {
      /** Keeps apart what is read in different ways. */
      readonly kind: string;
      /** Makes of the JSON what is remembered of it. */
      readonly read: (value: unknown) => T;
      /** Of pieces in several spellings: what all of them share. Default: bytes that differ are different pieces. */
      readonly spelling?: Spelling<T>;
    },
  ): JsonPiece<T>;
}

/** What was made of an item. */
export type ReadPiece = JsonPiece<readonly ItemPart[]>;

/** An item of a list, without its place. */
export interface PairedPiece {
  /** Its calls, and what answers them, have ids by what is called. */
  readonly piece: ReadPiece;
  /** Whether a model said all of it. */
  readonly isReply: boolean;
  /** Its calls: the ids that their client gave, what they call, and the ids that they have. */
  readonly calls: readonly { readonly clientId: string; readonly what: string; readonly id: string }[];
  /** The ids, as its client gave them, of the calls that it answers. */
  readonly answers: readonly string[];
}

/** An item where it is, counted from the list's first byte. */
export interface ListedPiece extends PairedPiece, Span {}

/** Items with which a list starts. */
export interface KnownList {
  /** Each where it stands, counted from the list's first byte. */
  readonly items: readonly ListedPiece[];
  /** The byte behind the last of them. */
  readonly end: number;
}

/** Remembers lists of items: a client that sends its whole history again starts with the list that it sent before. */
export interface ListReader {
  /** Items with which the list starts at this byte, like one that was read before, byte for byte. */
  find(bytes: Uint8Array<ArrayBuffer>, start: number, kind: string): KnownList | undefined;
  /** These are all items of a list; with those that were known of it. */
  keep(bytes: Uint8Array<ArrayBuffer>, list: {
    readonly start: number;
    readonly kind: string;
    readonly items: readonly ListedPiece[];
    readonly known: KnownList | undefined;
  }): void;
}

/** What the parts of requests are read with. */
export interface RequestReaders {
  /** Default: no list is remembered. */
  readonly lists?: ListReader | undefined;
  readonly items: JsonReader<readonly ItemPart[]>;
  readonly tools: JsonReader<ReadTool>;
  /** The item of an earlier reply with this id. Default: none is known. */
  readonly referred?: (id: string) => readonly ItemPart[] | undefined;
}

/** What items are read with. */
export interface Reading {
  readonly protocol: Protocol;
  readonly readers: RequestReaders;
}

/** What a request shows of its messages and tools. */
export interface RequestPrompt extends ArrangedPrompt {
  /** All items that could stand in the list. */
  readonly items: readonly WireItem[];
  /** What is seen of the messages of these items. */
  readonly messages: readonly Message[];
  /** Which of them each is, counted over all items; −1 for a message that is none of theirs. */
  readonly places: readonly number[];
  /** What is seen of the request's functions, in their order; then such as aren't the client's. */
  readonly tools: readonly ToolDefinition[];
  /** The response that the request goes on from, if the upstream has another name for it than the client. */
  readonly follows?: string | undefined;
  /** Texts of fields that the request gets if its client has set none of that name. Default: none. */
  readonly fields?: Readonly<Record<string, string>> | undefined;
  /**
   * Told behind how many of the messages the provider is asked to cache the prompt, 0 being behind the tools; not told where
   * it caches all of it.
   */
  readonly marked?: (ends: readonly number[]) => void;
}
