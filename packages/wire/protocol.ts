import type { Message, ToolDefinition, Usage } from "@tare/messages";
import type { JsonPath } from "./edit_json.ts";
import type { WireBody, WireRequest } from "./read_request.ts";
import type { WrittenItem } from "./write_request.ts";

/** A message of an item, as the planner knows it, and where in the item it stands. */
export interface ItemPart {
  readonly message: Message;
  /** Where the item holds the text that may give way to another. Default: none may. */
  readonly text?: JsonPath;
  /** Where the part stands in an item that has others. Default: it is the whole item. */
  readonly at?: JsonPath;
  /** A mark of the provider's cache that stands with it, as JSON. Default: none does. */
  readonly mark?: string;
  /** Whether the mark leaves with the text that may give way to another. Default: it stands beside it. */
  readonly holdsMark?: boolean;
  /** Id of an item of an earlier reply, of which only the id was sent. */
  readonly refersTo?: string;
  /** What a request is for that ends in this item. Default: the item doesn't say. */
  readonly purpose?: Purpose;
}

/** What a request is for: the next step of a conversation, a summary that shall stand in its place, or something else. */
export type Purpose = "turn" | "compaction" | "other";

/** What a client says of the session that its request belongs to. */
export interface SessionHints {
  /** Keeps apart histories that begin alike. Default: only their content does. */
  readonly key?: string;
  /** Its own name for the session, whatever the history. Default: it has none. */
  readonly name?: string;
  /** Id of the response that the request goes on from. */
  readonly follows?: string;
  /** What the request is for. Default: the client doesn't say. */
  readonly purpose?: Purpose;
  /** Whether the model may call no tool, whatever tools there are. Default: it may. */
  readonly forbidsTools?: boolean;
  /** Whether the upstream keeps the history itself. */
  readonly isStateful: boolean;
  /** Whether a reply can't be gone on with, or isn't there to be read: there is nothing to plan for. */
  readonly isDetached: boolean;
}

/** How requests carry a key. */
export interface WireAuth {
  /** Headers by which clients show who they are, in lower case. */
  readonly headers: readonly string[];
  /** The header with this key: its name and value. */
  readonly header: (key: string) => readonly [string, string];
}

/** A call of a tool that isn't the client's, in a reply. */
export interface RecallCall {
  /** Id that the answer must carry. */
  readonly id: string;
  /** JSON text of the arguments, as the model wrote it. */
  readonly arguments: string;
}

/** The answer to a {@linkcode RecallCall}. */
export interface RecallAnswer {
  readonly id: string;
  readonly text: string;
}

/** What stands in the upstream's prompt beside, or in place of, what the client knows of a reply. */
export interface HiddenItems {
  /** The item of the client's history, as {@linkcode anchorOf} names it, before which these items stand. */
  readonly anchor: string;
  /** Whether they stand in its place. */
  readonly replaces: boolean;
  /** The items, each as JSON. */
  readonly items: readonly string[];
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
  readonly recalls: readonly RecallCall[];
  /** Whether it calls tools of the client. */
  readonly callsClient: boolean;
  /** The items by which the upstream knows it, each as JSON, recalls included; of a turn without, none may be told that isn't asked to keep its text. */
  readonly items: readonly string[];
  /** What the model said, if the writer was asked to keep it. */
  readonly text?: string;
}

/** Passes the replies of one turn on to the client: more than one if the model recalls. */
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
  /** What the upstream has to see next time that the client doesn't know of; `answers` are those to recalls, by reply. */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[];
}

/** How the replies of a turn are passed on. */
export interface TurnWriterOptions {
  /** Name of the tool whose calls aren't the client's business. Default: all are. */
  readonly recall?: string | undefined;
  /** Whether replies tell what the model said. Default: no. */
  readonly keepsText?: boolean;
  /** Told of each item of a reply that may be referred to by an id. */
  readonly seen?: ((id: string, parts: readonly ItemPart[]) => void) | undefined;
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
  readonly auth: WireAuth;
  /** Whether a request to a path that protocols share is this protocol's. Default: it isn't. */
  readonly speaks?: (headers: Headers) => boolean;
  /** Name of the field that names the response which a request goes on from. Default: there is none. */
  readonly followsField?: string;
  /** What the client says of its session. */
  readHints(body: WireBody, headers: Headers): SessionHints;
  /**
   * How long the request asks its prompt to be cached, in milliseconds since the last use: zero if not at all.
   * Default: that isn't asked for.
   */
  readonly cacheTtlMs?: (request: WireRequest) => number;
  /** The messages of an item. @throws {UnknownShape} if it isn't as the protocol says. */
  readItem(value: unknown): readonly ItemPart[];
  /** An item, or the head's values, without what doesn't tell it from another. Default: its bytes tell it. */
  readonly plain?: (value: unknown) => unknown;
  /** Makes a definition of a tool; nothing of a tool that is no function. @throws {UnknownShape} likewise. */
  readTool(value: unknown): ToolDefinition | undefined;
  /** The item, as JSON, of a message that isn't the client's: a line for what left. */
  writeMessage(message: Message): string;
  /** The items, each as JSON, that answer these calls. */
  writeAnswers(answers: readonly RecallAnswer[]): readonly string[];
  /** The JSON of a tool that shows this definition, in place of `original`. */
  writeTool(tool: ToolDefinition, original?: unknown): string;
  /** Fields that a request must have beside the client's own, as JSON by name. */
  addedFields(request: WireRequest): ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  /**
   * The items of a list that was changed, put right. `kept` of the messages, from the first, were shown by the request
   * before; absent if that only goes on. Default: they are right as they are.
   */
  readonly arrange?: (
    request: WireRequest,
    written: readonly WrittenItem[],
    kept: number | undefined,
  ) => readonly Uint8Array<ArrayBuffer>[];
  /** Passes on the replies of a turn. */
  writer(request: WireRequest, options: TurnWriterOptions): TurnWriter;
  /** The answer to a request that isn't passed on. `code` names the error for programs. */
  refuse(status: number, message: string, code: string): Response;
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
export const BEARER: WireAuth = {
  headers: ["authorization"],
  header: (key) => ["authorization", `Bearer ${key}`],
};
