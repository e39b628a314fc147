import {
  contentText,
  type Message,
  type StableMessages,
  type ToolCall,
  type ToolDefinition,
  type ToolMessage,
  type Usage,
} from "@tare/messages";
import { describeCall, hashBytes, hashPiece, hashText, tellBy } from "@tare/messages/internal";
import {
  arrayItems,
  asRecord,
  editJson,
  findField,
  isRecord,
  joinBytes,
  jsonBytes,
  type JsonEdit,
  type JsonRecord,
  objectFields,
  readJsonAt,
  type Span,
} from "./json.ts";
import { saidArguments } from "./meaning.ts";

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
    /** The header with this key: its name and value. */
    readonly header: (key: string) => readonly [string, string];
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
  readHints(body: WireBody, headers: Headers): {
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
  };
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
  readTool(value: unknown): {
    /** What it is to the planner. */
    readonly definition: ToolDefinition;
    /** Whether it stands in front of the prompt: a tool that is deferred stands nowhere until it is found. */
    readonly inFront: boolean;
  };
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
    written: readonly {
      /** The item. Default: it is none. */
      readonly item?: WireItem;
      /** What is seen of its parts, each in its place; nothing of one that isn't. */
      readonly seen: readonly (Message | undefined)[];
      /** What goes upstream; nothing of an item that left, or that stands before the list. */
      readonly bytes?: Uint8Array<ArrayBuffer> | undefined;
      /** How many messages are seen up to its end. */
      readonly end: number;
    }[],
    prompt: {
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
    },
  ) => { readonly items: readonly Uint8Array<ArrayBuffer>[]; readonly ends: readonly number[] };
  /**
   * Behind how many of the messages the client asks the provider to cache the prompt; 0 is behind the tools. Default: the
   * provider caches all of it.
   */
  readonly markedEnds?: (
    request: WireRequest,
    written: Parameters<NonNullable<Protocol["arrange"]>>[1],
  ) => readonly number[];
  /** How definitions of tools are kept out of prompts until the provider's own search finds them. Default: there is no way. */
  readonly toolSearch?: {
    /** The tool by which its model searches. */
    readonly tool: NonNullable<WireRequest["tools"]>[number];
    /** Whether a tool of a client, as it was sent, shows that the client defers its tools itself, or can't have them deferred. */
    forbids(tool: unknown): boolean;
    /** A tool that is deferred: the prompt can't be cached up to there. */
    defer(tool: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
    /** The name of the only tool that the model may call in a request; nothing if it may choose. */
    forced(request: WireBody): string | undefined;
    /** An item without all searches and what they found; the same object if it has none. */
    without(item: unknown): unknown;
  };
  /** Passes the replies of one turn on to the client: more than one if the model recalls. */
  writer(request: WireRequest, options: {
    /** Name of the tool whose calls aren't the client's business. Default: all are. */
    readonly recall?: string | undefined;
    /** Whether what the provider's search for tools puts into replies isn't the client's business. Default: it is. */
    readonly hidesSearches?: boolean;
    /** Whether replies tell what the model said. Default: no. */
    readonly keepsText?: boolean;
    /** Told of each item of a reply that may be referred to by an id. */
    readonly seen?: ((id: string, parts: readonly ItemPart[]) => void) | undefined;
  }): {
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
    hidden(answers: readonly (readonly string[])[]): {
      /** Items of the client's history, as {@linkcode anchorOf} names them, in whose place these items stand. */
      readonly replaces: readonly string[];
      /** Items of the client's history, named likewise, before which they stand: before the first that the client has kept. */
      readonly before: readonly string[];
      /** What of the client's is thought there, named likewise, and stands among these items already. */
      readonly thoughts: readonly string[];
      /** The items, each as JSON. */
      readonly items: readonly string[];
    }[];
  };
  /** How a prompt is kept warm while nothing is asked. Default: there is no way to do so for less than a reply. */
  readonly pings?: {
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
  };
  /** The answer to a request that isn't passed on. `code` names the error for programs. */
  refuse(status: number, message: string, code: string): Response;
}

/** Passes on the replies of a turn. */
export type TurnWriter = ReturnType<Protocol["writer"]>;

/** How the replies of a turn are passed on. */
export type TurnWriterOptions = Parameters<Protocol["writer"]>[1];

/** What stands in the upstream's prompt for what the client knows of a reply. */
export type HiddenItems = ReturnType<TurnWriter["hidden"]>[number];

/** What becomes of an item, or of a message that is none of theirs. */
export type WrittenItem = Parameters<NonNullable<Protocol["arrange"]>>[1][number];

/** What is known of a list that was changed. */
export type ArrangedPrompt = Parameters<NonNullable<Protocol["arrange"]>>[2];

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
  header: (key) => ["authorization", `Bearer ${key}`],
};

/** A body of JSON with the places of its fields. */
export interface WireBody {
  /** As it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Places of the values of its fields, by name. */
  readonly fields: ReadonlyMap<string, Span>;
  /** What is known of its list of items. */
  readonly known?: ReturnType<ListReader["find"]>;
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
  readonly tools:
    | readonly (ReturnType<Protocol["readTool"]> & {
      /** Its JSON, as it was sent. */
      readonly bytes: Uint8Array<ArrayBuffer>;
    })[]
    | undefined;
  /** Whether the tools are others than in the body, or stand in another order. Default: they are those of the body. */
  readonly hasOtherTools?: boolean;
}

/** What is made of a tool. */
export type ReadTool = ReturnType<Protocol["readTool"]>;

/** A tool of a request. */
export type WireTool = NonNullable<WireRequest["tools"]>[number];

/** The tools that stand in front of a request's prompt, in their order. */
export function toolsInFront({ tools = [] }: Pick<WireRequest, "tools">): readonly ToolDefinition[] {
  return tools.flatMap(({ definition, inFront }) => inFront ? [definition] : []);
}

/** A tool that is no function, as it is shown: in place of a name, so that nothing of it ever gives way to less. */
export function wholeTool(tool: JsonRecord): ReadTool {
  const name = `${tool.name ?? tool.type} ${JSON.stringify(tool)}`;
  return { definition: { type: "function", function: { name } }, inFront: true };
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
      readonly spelling?: {
        /** What each part of the piece says, as JSON; nothing where its bytes tell it. */
        said(made: T): readonly string[] | undefined;
        /** What was made of the piece, whose parts have these names by what they say. */
        named(made: T, names: readonly string[]): T;
        /** What was made of one spelling, with all that it shares with what was made of another. */
        adopt(made: T, known: T): T;
      };
    },
  ): {
    /** Names it: the names of two pieces differ if what they say does. */
    readonly key: string;
    /** What was made of it: the same object whenever the same bytes come again, as long as they are remembered. */
    readonly value: T;
  };
}

type KnownList = NonNullable<ReturnType<ListReader["find"]>>;
type PairedPiece = Omit<KnownList["items"][number], keyof Span>;
type ReadPiece = PairedPiece["piece"];

/** Remembers lists of items: a client that sends its whole history again starts with the list that it sent before. */
export interface ListReader {
  /** Items with which the list starts at this byte, like one that was read before, byte for byte. */
  find(bytes: Uint8Array<ArrayBuffer>, start: number, kind: string): {
    /** Each where it stands, counted from the list's first byte. */
    readonly items: readonly (Span & {
      /** Its calls, and what answers them, have ids by what is called. */
      readonly piece: ReturnType<JsonReader<readonly ItemPart[]>["read"]>;
      /** Whether a model said all of it. */
      readonly isReply: boolean;
      /** Its calls: the ids that their client gave, what they call, and the ids that they have. */
      readonly calls: readonly { readonly clientId: string; readonly what: string; readonly id: string }[];
      /** The ids, as its client gave them, of the calls that it answers. */
      readonly answers: readonly string[];
    })[];
    /** The byte behind the last of them. */
    readonly end: number;
  } | undefined;
  /** These are all items of a list; with those that were known of it. */
  keep(bytes: Uint8Array<ArrayBuffer>, list: {
    readonly start: number;
    readonly kind: string;
    readonly items: NonNullable<ReturnType<ListReader["find"]>>["items"];
    readonly known: ReturnType<ListReader["find"]>;
  }): void;
}

/** What the parts of requests are read with. */
export interface RequestReaders {
  /** Default: no list is remembered. */
  readonly lists?: ListReader | undefined;
  readonly items: JsonReader<readonly ItemPart[]>;
  readonly tools: JsonReader<ReturnType<Protocol["readTool"]>>;
  /** The item of an earlier reply with this id. Default: none is known. */
  readonly referred?: (id: string) => readonly ItemPart[] | undefined;
}

/**
 * The places of a body's fields, and what is known of its list of items.
 *
 * @throws {SyntaxError} if it is no object.
 */
export function readWireBody(
  bytes: Uint8Array<ArrayBuffer>,
  { protocol, lists }: { readonly protocol?: Protocol } & Pick<RequestReaders, "lists"> = {},
): WireBody {
  let known: KnownList | undefined;
  const fields = objectFields(bytes, 0, (name, start) => {
    if (!protocol || name !== protocol.listField) return undefined;
    known = bytes[start] === OPEN_ARRAY ? lists?.find(bytes, start, protocol.name) : undefined;
    return known?.end;
  });
  return { bytes, fields, known };
}

/** A field's value; nothing if there is no such field. @throws {SyntaxError} if it is no JSON. */
export function readField({ bytes, fields }: WireBody, name: string): unknown {
  const span = fields.get(name);
  return span && readJsonAt(bytes, span);
}

/** Bytes of a body that {@linkcode peekField} reads: others wait meanwhile. */
const PEEKED_BYTES = 2 ** 24;

/**
 * A field of a body that may be cut off, or no JSON at all; nothing if the field isn't there, or behind so much else that
 * looking for it would hold others up. The first of its name.
 */
export function peekField(bytes: Uint8Array<ArrayBuffer>, name: string): unknown {
  try {
    const span = findField(bytes.subarray(0, PEEKED_BYTES), name);
    return span && readJsonAt(bytes, span);
  } catch {
    return undefined;
  }
}

/** What any protocol's client may say of a request, in body or headers: which session it belongs to, and what it is for. */
export function readCommonHints(
  body: WireBody,
  headers: Headers,
): Pick<ReturnType<Protocol["readHints"]>, "key" | "purpose" | "forbidsTools" | "forcesTool"> {
  const key = readField(body, "prompt_cache_key") ?? headers.get("x-session-id");
  const kind = readRequestKind(body, headers);
  const choice = readField(body, "tool_choice");
  const purpose = /compact|summar/i.test(kind ?? "") ? "compaction" : "other";
  return {
    ...(typeof key === "string" && { key }),
    ...(kind !== undefined && { purpose: kind === "turn" ? "turn" : purpose }),
    ...((isRecord(choice) ? choice.type : choice) === "none" && { forbidsTools: true }),
    ...(isRecord(choice) && ["tool", "function", "custom"].includes(String(choice.type)) && {
      forcesTool: true,
    }),
  };
}

/** The kind of request that a client names in its metadata of the turn. */
function readRequestKind(body: WireBody, headers: Headers): string | undefined {
  const metadata = readField(body, "client_metadata");
  for (const [name, value] of [...headers, ...Object.entries(isRecord(metadata) ? metadata : {})]) {
    if (!name.endsWith("-turn-metadata") || typeof value !== "string") continue;
    try {
      const said: unknown = JSON.parse(value);
      if (isRecord(said) && typeof said.request_kind === "string") return said.request_kind;
    } catch {
      // Whatever it is, it names no kind.
    }
  }
  return undefined;
}

/**
 * Reads a request.
 *
 * @throws {UnknownShape} if an item or a tool isn't as the protocol says.
 * @throws {SyntaxError} if there is no list of items.
 */
export function readRequest(
  body: WireBody,
  protocol: Protocol,
  readers: RequestReaders,
): WireRequest {
  const steps = readingRequest(body, protocol, readers);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Longest text of one message, or of the tools, in UTF-16 code units, that is read: it is worked through in one go. */
const MAX_TEXT_CHARS = 2 ** 21;

/** @throws {RangeError} if a text of these parts is so long that to work through it would hold others up. */
function assertShort(parts: readonly ItemPart[]): readonly ItemPart[] {
  for (const { message } of parts) {
    const { content } = message;
    let chars = contentText(content).length;
    if (message.role === "assistant") {
      chars += message.reasoning_content?.length ?? 0;
      for (const call of message.tool_calls ?? []) chars += describeCall(call).arguments.length;
    }
    if (chars > MAX_TEXT_CHARS) {
      throw new RangeError(`one of its texts has more than ${MAX_TEXT_CHARS} characters`);
    }
  }
  return parts;
}

/** Like {@linkcode readRequest}, an item at each step: a long list takes a while, and others may be let in between. */
export function* readingRequest(
  body: WireBody,
  protocol: Protocol,
  readers: RequestReaders,
): Generator<void, WireRequest> {
  const { bytes, fields, known } = body;
  const { head, listField, name: kind } = protocol;
  const items: WireItem[] = [];
  if (head) {
    const json = jsonBytes(head.fields.map((name) => readField(body, name) ?? null));
    const read = (values: unknown) => assertShort(head.read(values as readonly unknown[]));
    const { key, value } = readers.items.read(json, {
      start: 0,
      end: json.length,
      kind: `${kind} head`,
      read,
      spelling: SPELLING,
    });
    items.push({ key, parts: value });
    yield;
  }
  const list = fields.get(listField);
  if (list && bytes[list.start] === QUOTE) {
    const item = readItem(bytes, list, { protocol, readers });
    const [part] = item.parts;
    items.push(part ? { ...item, bytes: encoder.encode(protocol.writeMessage(part.message)) } : item);
  } else if (list) {
    const { start } = list;
    const listed = [...known?.items ?? []];
    for (const span of arrayItems(bytes, start, known?.end)) {
      const piece = readPiece(bytes, span, { protocol, readers });
      listed.push({ start: span.start - start, end: span.end - start, ...paired(piece, listed) });
      yield;
    }
    const said = listed.map(({ piece, start: from, end }) =>
      itemOf(piece, bytes.subarray(start + from, start + end), readers)
    );
    items.push(...withThoughts(said));
    readers.lists?.keep(bytes, { start, kind, items: listed, known });
  }
  const listed = fields.get("tools");
  if (listed && listed.end - listed.start > MAX_TEXT_CHARS) {
    throw new RangeError(`its tools have more than ${MAX_TEXT_CHARS} bytes`);
  }
  yield;
  const tools = listed !== undefined && bytes[listed.start] === OPEN_ARRAY
    ? arrayItems(bytes, listed.start).map((span) => ({
      bytes: bytes.subarray(span.start, span.end),
      ...readers.tools.read(bytes, { ...span, kind, read: protocol.readTool }).value,
    }))
    : undefined;
  return {
    ...body,
    protocol,
    model: String(readField(body, "model")),
    stream: readField(body, "stream") === true,
    ...readReplyTokens(body, protocol),
    items: withFoundTools(items, tools),
    tools,
  };
}

/** Most tokens of the reply; nothing if the client doesn't say. */
function readReplyTokens(
  body: WireBody,
  { replyFields }: Pick<Protocol, "replyFields">,
): Pick<WireRequest, "replyTokens"> {
  const replyTokens = replyFields.map((name) => readField(body, name)).find((value) =>
    typeof value === "number"
  );
  return replyTokens === undefined ? {} : { replyTokens };
}

/** The items with the definitions of the tools that they find. Those that find none are the same objects. */
export function withFoundTools(
  items: readonly WireItem[],
  tools: WireRequest["tools"] = [],
): readonly WireItem[] {
  const isFinder = ({ parts }: WireItem) => parts.some(({ finds }) => finds !== undefined);
  if (!items.some(isFinder)) return items;
  const known = new Map(tools.map(({ definition }) => [definition.function.name, definition]));
  const find = ({ finds = [], ...part }: ItemPart): ItemPart => {
    const found = finds.flatMap((name) => known.get(name) ?? []);
    return found.length === 0 ? part : { ...part, message: withTools(part.message, found) };
  };
  return items.map((item) => isFinder(item) ? { ...item, parts: item.parts.map(find) } : item);
}

const found = new WeakMap<Message, Message & Pick<ToolMessage, "findsTools">>();

/** A message that finds tools: the same object for the same message and tools, so that what is known of it stays known. */
function withTools(message: Message, tools: readonly ToolDefinition[]): Message {
  const known = found.get(message);
  const { findsTools = [] } = known ?? {};
  const isKnown = findsTools.length === tools.length && tools.every((tool, at) => tool === findsTools[at]);
  if (known && isKnown) return known;
  const now = { ...message, findsTools: tools };
  tellBy(now, hashText([message, ...tools].map(hashPiece).join()));
  found.set(message, now);
  return now;
}

/** What items are read with. */
export type Reading = Parameters<typeof readItems>[1];

/** The items, in order, of these pieces of JSON. @throws what {@linkcode readRequest} throws. */
export function readItems(pieces: readonly string[], reading: {
  readonly protocol: Protocol;
  readonly readers: RequestReaders;
}): readonly WireItem[] {
  const read: (PairedPiece & { readonly bytes: Uint8Array<ArrayBuffer> })[] = [];
  for (const json of pieces) {
    const bytes = encoder.encode(json);
    const piece = readPiece(bytes, { start: 0, end: bytes.length }, reading);
    read.push({ bytes, ...paired(piece, read) });
  }
  return read.map(({ piece, bytes }) => itemOf(piece, bytes, reading.readers));
}

/** The item that stands at a place. */
function readItem(bytes: Uint8Array<ArrayBuffer>, span: Span, reading: Reading): WireItem {
  return itemOf(readPiece(bytes, span, reading), bytes.subarray(span.start, span.end), reading.readers);
}

/** So many items back a call is looked for that an item answers, and what else a reply called. */
const PAIR_REACH = 256;

/**
 * A piece behind these others whose calls have ids by name, arguments and which of such they are in their reply, and what
 * answers them the same. Clients shorten or rewrite the ids that they were given, all at once.
 */
function paired(piece: ReadPiece, before: readonly PairedPiece[]): PairedPiece {
  const { key, value } = piece;
  const calls: PairedPiece["calls"][number][] = [];
  const answers: string[] = [];
  const ids: string[] = [];
  for (const { message } of value) {
    if (message.role === "tool") {
      const { tool_call_id: clientId } = message;
      ids.push(answeredBy(clientId, answers, before) ?? clientId);
      answers.push(clientId);
    } else if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) {
        const what = nameOfCall(call);
        const same = [{ calls }, ...replyUpTo(before, before.length)].flatMap(({ calls }) => calls)
          .filter((other) => other.what === what).length;
        const id = same === 0 ? what : `${what} ${same + 1}`;
        ids.push(id);
        calls.push({ clientId: call.id, what, id });
      }
    }
  }
  const isReply = value.every(({ message }) => message.role === "assistant");
  if (ids.length === 0) return { piece, isReply, calls, answers };
  const told = answers.length === 0 ? key : [key, ...ids].join(" ");
  return { piece: { key: told, value: withIds(value, ids) }, isReply, calls, answers };
}

function nameOfCall(call: ToolCall): string {
  const { name } = describeCall(call);
  return `${name} ${hashText(JSON.stringify(saidCall(call))).toString(36)}`;
}

/** What the model said up to this place, if nobody else has said anything since. */
function replyUpTo(pieces: readonly PairedPiece[], end: number): readonly PairedPiece[] {
  let from = end;
  while (end - from < PAIR_REACH && pieces[from - 1]?.isReply) from--;
  return pieces.slice(from, end);
}

/** The id of the call that is meant by a client's id, behind these and so many that answer others of that id already. */
function answeredBy(
  clientId: string,
  answered: readonly string[],
  before: readonly PairedPiece[],
): string | undefined {
  const count = (ids: readonly string[]) => ids.filter((id) => id === clientId).length;
  let place = count(answered);
  for (let at = before.length - 1; at >= Math.max(0, before.length - PAIR_REACH); at--) {
    const { calls, answers } = before[at]!;
    place += count(answers);
    if (!calls.some((call) => call.clientId === clientId)) continue;
    const meant = replyUpTo(before, at + 1)
      .flatMap(({ calls }) => calls.filter((call) => call.clientId === clientId));
    return (meant[place] ?? meant.at(-1))?.id;
  }
  return undefined;
}

const withOtherIds = new WeakMap<
  readonly ItemPart[],
  { readonly ids: string; readonly parts: readonly ItemPart[] }
>();

/** The parts with these ids of calls, in order: the same ones for the same ids, so that what is known of them stays known. */
function withIds(parts: readonly ItemPart[], ids: readonly string[]): readonly ItemPart[] {
  const known = withOtherIds.get(parts);
  if (known?.ids === ids.join("\n")) return known.parts;
  let at = 0;
  const now = parts.map((part): ItemPart => {
    const { message } = part;
    if (message.role === "tool") {
      const answer = { ...message, tool_call_id: ids[at++]! };
      tellBy(answer, hashText(`${hashPiece(message)} ${answer.tool_call_id}`));
      return { ...part, message: answer };
    }
    if (message.role !== "assistant" || !message.tool_calls?.length) return part;
    const reply = { ...message, tool_calls: message.tool_calls.map((call) => ({ ...call, id: ids[at++]! })) };
    tellBy(reply, hashPiece(message));
    return { ...part, message: reply };
  });
  withOtherIds.set(parts, { ids: ids.join("\n"), parts: now });
  return now;
}

/**
 * Items with what a model thought before it said them, and behind them where nothing else follows that it said: it leaves
 * with them, and whoever leaves it away sends the same items.
 */
export function withThoughts(items: readonly WireItem[]): readonly WireItem[] {
  if (!items.some(isThought)) return items;
  const all: WireItem[] = [];
  let thoughts: WireItem[] = [];
  const endThoughts = () => {
    const last = all.at(-1);
    if (thoughts.length > 0 && last && isReply(last)) {
      all[all.length - 1] = { ...last, bytes: spanned([last, ...thoughts]) };
    } else all.push(...thoughts);
    thoughts = [];
  };
  for (const item of items) {
    if (isThought(item)) thoughts.push(item);
    else if (thoughts.length > 0 && isReply(item)) {
      all.push(thinking(thoughts, item, spanned([...thoughts, item])));
      thoughts = [];
    } else {
      endThoughts();
      all.push(item);
    }
  }
  endThoughts();
  return all;
}

/** An item without what was thought before it and has one of these names, as {@linkcode anchorOf} gives them. */
export function withoutThoughts(item: WireItem, names: readonly string[]): WireItem {
  const { thought } = item;
  if (!thought) return item;
  const isLeft = ({ parts: [part] }: WireItem) => !part || !names.includes(anchorOf(part.message));
  const left = thought.before.filter(isLeft);
  if (left.length === thought.before.length) return item;
  if (left.length === 0) return thought.item;
  return thinking(left, thought.item, listed([...left, thought.item]));
}

/**
 * Items in whose place their client has one of its own, with their calls under the ids by which it has them: what answers
 * these goes by such. The same objects each time, so that what is known of them stays known.
 */
export function underClientIds(
  items: readonly WireItem[],
  client: WireItem,
  { idPaths }: Pick<Protocol, "idPaths">,
): readonly WireItem[] {
  if (!idPaths) return items;
  const wanted = callIds(client, idPaths);
  if (wanted.length === 0) return items;
  const isAnswer = ({ parts }: WireItem) => parts.some(({ message }) => message.role === "tool");
  const answered = new Set(items.filter(isAnswer).flatMap((item) => callIds(item, idPaths)));
  const left = items.filter((item) => !isAnswer(item)).flatMap((item) => callIds(item, idPaths))
    .filter((id) => !answered.has(id));
  if (left.length !== wanted.length || left.every((id, at) => id === wanted[at])) return items;
  const before = respelled.get(items);
  if (before?.ids === wanted.join("\n")) return before.items;
  const ids = new Map(left.map((id, at) => [id, wanted[at]!]));
  const now = items.map((item) => withCallIds(item, ids, idPaths));
  respelled.set(items, { ids: wanted.join("\n"), items: now });
  return now;
}

const respelled = new WeakMap<
  readonly WireItem[],
  { readonly ids: string; readonly items: readonly WireItem[] }
>();

/** The ids of an item's calls, in order, or of those that it answers, as they stand in its JSON. */
function callIds(
  { bytes, thought }: WireItem,
  idPaths: NonNullable<Protocol["idPaths"]>,
): readonly string[] {
  const own = thought?.item.bytes ?? bytes;
  if (!own) return [];
  const known = idsIn.get(own);
  if (known) return known;
  const item = readJsonAt(own);
  const ids = idPaths(item).map((path) => String(valueAt(item, path)));
  idsIn.set(own, ids);
  return ids;
}

const idsIn = new WeakMap<Uint8Array, readonly string[]>();

/** An item whose calls, or those that it answers, have other ids in its JSON. */
function withCallIds(
  item: WireItem,
  others: ReadonlyMap<string, string>,
  idPaths: NonNullable<Protocol["idPaths"]>,
): WireItem {
  const { bytes } = item;
  const ids = callIds(item, idPaths).map((id) => others.get(id) ?? id);
  if (!bytes || ids.length === 0) return item;
  const paths = idPaths(readJsonAt(bytes));
  const edits = paths.map((path, at) => ({ path, value: jsonBytes(ids[at]) }));
  return { ...item, bytes: editJson(bytes, edits) };
}

function valueAt(value: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (at, step) => Array.isArray(at) ? at[Number(step)] : asRecord(at)?.[step],
    value,
  );
}

function isThought({ parts: [part] }: WireItem): boolean {
  return part?.isThought === true;
}

function isReply({ bytes, parts }: WireItem): boolean {
  return bytes !== undefined && parts.length > 0 &&
    parts.every(({ message }) => message.role === "assistant");
}

/** The bytes of items that stand side by side: those of the list that they are of, if it is one. */
function spanned(items: readonly WireItem[]): Uint8Array<ArrayBuffer> {
  const [from, to] = [items[0]!.bytes!, items.at(-1)!.bytes!];
  const { buffer, byteOffset } = from;
  return buffer === to.buffer
    ? new Uint8Array(buffer, byteOffset, to.byteOffset + to.length - byteOffset)
    : listed(items);
}

/** The bytes of these items, one behind the other. */
function listed(items: readonly WireItem[]): Uint8Array<ArrayBuffer> {
  return joinBytes(items.flatMap(({ bytes }, at) => [...at === 0 ? [] : [COMMA], bytes!]));
}

const withThought = new WeakMap<Message, { readonly bytesHash: number; readonly message: Message }>();

function thinking(
  before: readonly WireItem[],
  item: WireItem,
  bytes: Uint8Array<ArrayBuffer>,
): WireItem {
  const text = before.flatMap(({ parts }) => parts.map(({ message }) => thoughtOf(message)))
    .filter(Boolean).join("\n");
  const thought = { before, item };
  const [part, ...others] = item.parts;
  if (!part || part.message.role !== "assistant") return { ...item, bytes, thought };
  // What is sealed stands in no text, and the provider's cache holds it all the same.
  const bytesHash = hashText(
    [...before.flatMap(({ parts }) => parts), part].map(({ message }) => hashBytes(message)).join(),
  );
  const known = withThought.get(part.message);
  const message = known?.bytesHash === bytesHash
    ? known.message
    : { ...part.message, ...(text !== "" && { reasoning_content: text }) };
  if (known?.message !== message) {
    tellBy(message, hashPiece(part.message), bytesHash);
    withThought.set(part.message, { bytesHash, message });
  }
  return { ...item, parts: [{ ...part, message }, ...others], bytes, thought };
}

function thoughtOf(message: Message): string {
  return message.role === "assistant" ? message.reasoning_content ?? "" : "";
}

/** What stands at a place, as {@linkcode RequestReaders.items} reads it. */
export function readPiece(
  bytes: Uint8Array<ArrayBuffer>,
  { start, end }: Span,
  { protocol, readers }: Reading,
): ReadPiece {
  const { name: kind, readItem } = protocol;
  // Nothing shorter can hold a long text.
  const read: typeof readItem = end - start > MAX_TEXT_CHARS
    ? (json) => assertShort(readItem(json))
    : readItem;
  return readers.items.read(bytes, { start, end, kind, read, spelling: SPELLING });
}

function itemOf(
  { key, value }: ReadPiece,
  bytes: Uint8Array<ArrayBuffer>,
  { referred }: RequestReaders,
): WireItem {
  const [{ refersTo } = {}] = value;
  return { key, parts: (refersTo === undefined ? undefined : referred?.(refersTo)) ?? value, bytes };
}

const SPELLING: NonNullable<Parameters<RequestReaders["items"]["read"]>[1]["spelling"]> = {
  said: (parts) =>
    parts.every(({ said }) => said !== undefined) ? parts.map(({ said }) => JSON.stringify(said)) : undefined,
  named: (parts, names) =>
    parts.map(({ said: _, ...part }, at) => {
      tellBy(part.message, hashText(names[at]!));
      return part;
    }),
  adopt: withMessages,
};

/** The parts of an item with the messages that another spelling of it has, where that shows the same: what is known of them stays known. */
function withMessages(made: readonly ItemPart[], known: readonly ItemPart[]): readonly ItemPart[] {
  return made.map((part, at) => {
    const { message = part.message } = known[at] ?? {};
    return hashBytes(message) === hashBytes(part.message) ? { ...part, message } : part;
  });
}

const encoder = new TextEncoder();
const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;

/**
 * The body for the upstream: the client's own bytes wherever nothing is changed.
 *
 * @throws {UnknownShape} if a message was changed that can't be written in another way.
 */
export function writeRequest(
  request: WireRequest,
  prompt: Parameters<NonNullable<Protocol["arrange"]>>[2] & {
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
  },
): Uint8Array<ArrayBuffer> {
  const { bytes, fields, protocol } = request;
  const values = new Map(protocol.addedFields(request));
  const list = writeList(request, prompt);
  if (list) values.set(protocol.listField, joinArray(list));
  const tools = writeTools(request, prompt.tools);
  if (tools) values.set("tools", tools);
  const { followsField: field } = protocol;
  if (field !== undefined && prompt.follows !== undefined && prompt.follows !== readField(request, field)) {
    values.set(field, jsonBytes(prompt.follows));
  }
  for (const [name, text] of Object.entries(prompt.fields ?? {})) {
    if (!fields.has(name)) values.set(name, jsonBytes(text));
  }
  if (values.size === 0) return bytes;
  return editJson(bytes, [...values].map(([name, value]) => ({ path: [name], value })), fields);
}

/** The items of the list; nothing if they are the request's own. @throws what {@linkcode writeRequest} throws. */
export function writeList(
  request: WireRequest,
  prompt: Omit<Parameters<typeof writeRequest>[1], "tools">,
): readonly Uint8Array<ArrayBuffer>[] | undefined {
  const { protocol, items } = request;
  const entries = writeItems(prompt, protocol);
  const written = entries.flatMap(({ bytes }) => bytes ?? []);
  const whole = items.flatMap(({ bytes }) => bytes ?? []);
  const ends = prompt.marked && protocol.markedEnds?.(request, entries);
  const isChanged = (items: readonly Uint8Array<ArrayBuffer>[]) =>
    items.length !== whole.length || items.some((item, at) => item !== whole[at]);
  const arranged = (prompt.completesMarks || isChanged(written))
    ? protocol.arrange?.(request, entries, prompt)
    : undefined;
  if (ends) prompt.marked?.([...ends, ...arranged?.ends ?? []]);
  const list = arranged?.items ?? written;
  return isChanged(list) ? list : undefined;
}

/** The list's items. Messages that are none of theirs stand beside the items, never inside of one. */
function writeItems(
  { items, messages, places }: Parameters<typeof writeList>[1],
  protocol: Protocol,
): WrittenItem[] {
  const written: WrittenItem[] = [];
  const write = (message: Message, end: number): WrittenItem => ({
    seen: [],
    bytes: encoder.encode(protocol.writeMessage(message)),
    end,
  });
  let at = 0;
  let start = 0;
  for (const item of items) {
    const end = start + item.parts.length;
    const seen: (Message | undefined)[] = [];
    let behind: WrittenItem[] | undefined;
    for (; at < messages.length; at++) {
      const message = messages[at];
      const place = places[at];
      if (!message || place === undefined || place >= end) break;
      if (place >= start) seen[place - start] = message;
      else (seen.length > 0 ? behind ??= [] : written).push(write(message, at + 1));
    }
    written.push({ item, seen, bytes: seen.length > 0 ? writeItem(item, seen) : undefined, end: at });
    if (behind) written.push(...behind);
    start = end;
  }
  return [...written, ...messages.slice(at).map((message, more) => write(message, at + more + 1))];
}

/** An item of which only these parts are seen, perhaps with other texts; nothing of what stands before the list. */
function writeItem(
  { bytes, parts }: WireItem,
  seen: WrittenItem["seen"],
): Uint8Array<ArrayBuffer> | undefined {
  if (parts.every((part, at) => seen[at] === part.message)) return bytes;
  const edits = parts.flatMap((part, at): JsonEdit[] => {
    const message = seen[at];
    if (message === part.message) return [];
    if (message && part.text) {
      return [{ path: part.text, value: jsonBytes(message.content) }];
    }
    if (message || !part.at) throw new UnknownShape("a message that was changed has no place in its item");
    return [{ path: part.at }];
  });
  return bytes && editJson(bytes, edits);
}

/** The list of tools; nothing if it is the client's own. */
export function writeTools(
  { tools = [], protocol, hasOtherTools = false }: Pick<WireRequest, "tools" | "protocol" | "hasOtherTools">,
  shown: readonly ToolDefinition[],
): Uint8Array<ArrayBuffer> | undefined {
  const full = toolsInFront({ tools });
  if (!hasOtherTools && shown.length === full.length && shown.every((tool, at) => tool === full[at])) {
    return undefined;
  }
  let at = 0;
  const written = tools.map(({ definition, inFront, bytes }) => {
    const now = inFront ? shown[at++] : undefined;
    if (!now || now === definition) return bytes;
    return encoder.encode(protocol.writeTool(now, readJsonAt(bytes)));
  });
  const more = shown.slice(full.length).map((tool) => encoder.encode(protocol.writeTool(tool)));
  return joinArray([...written, ...more]);
}

/** A JSON array of these items. */
function joinArray(items: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  return joinBytes([OPEN, ...items.flatMap((item, at) => at === 0 ? [item] : [COMMA, item]), CLOSE]);
}

const OPEN = encoder.encode("[");
const CLOSE = encoder.encode("]");
const COMMA = encoder.encode(",");

/**
 * Names what the model said by its content: the text, its calls, and the id of an item that has no text. Clients send
 * back what they got in their own spelling, ids of calls too.
 */
export function anchorOf(message: Message): string {
  const known = anchors.get(message);
  if (known !== undefined) return known;
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  const { id } = message as { readonly id?: unknown };
  const said = [message.role, contentText(message.content).trim(), calls.map(saidCall), id ?? null];
  const anchor = JSON.stringify(said);
  anchors.set(message, anchor);
  return anchor;
}

const anchors = new WeakMap<Message, string>();

function saidCall(call: ToolCall): unknown {
  const { name, arguments: args } = describeCall(call);
  return [name, call.type === "custom" ? args : saidArguments(args)];
}
