import type { Message, ToolDefinition, Usage } from "@tare/messages";
import type { Span } from "./json_spans.ts";

/** A call of the recall tool in a reply. */
export interface RecallCall {
  /** Id that the answer must carry. */
  readonly id: string;
  /** JSON text of the arguments, as the model wrote it. */
  readonly arguments: string;
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
  /** Calls of the recall tool. */
  readonly recalls: readonly RecallCall[];
  /** Whether it calls tools of the client. */
  readonly callsClient: boolean;
  /** The items by which the upstream knows it, each as JSON, calls of the recall tool included. */
  readonly items: readonly string[];
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
  /** Whether the client didn't ask for the usage that streams are asked for. */
  readonly hidesUsage: boolean;
  /** Name of the tool whose calls aren't the client's business. Default: all are. */
  readonly recall?: string | undefined;
}

/**
 * A wire format of model calls: the only place that knows how messages, tools and replies are written. Sessions and
 * planner know messages alone.
 */
export interface WireFormat {
  /** Name, by which sessions of different formats are kept apart. */
  readonly name: string;
  /** Path behind the upstream's base URL. */
  readonly path: string;
  /** Name of the field that holds the list of messages. */
  readonly listField: string;
  /** Name of an item's field that holds the text of a tool result. */
  readonly resultField: string;
  /** Whether streams tell usage only if they are asked to, in `stream_options`. */
  readonly asksForUsage: boolean;
  /** Makes a message of what stands before the list, such as instructions. Default: nothing stands there. */
  readonly head?: {
    /** The fields, in order. */
    readonly fields: readonly string[];
    /** Makes a message of their values. */
    readonly read: (values: readonly unknown[]) => Message;
  };
  /** Makes a message of an item of the list. @throws {UnknownShape} if it isn't as the format says. */
  readItem(value: unknown): Message;
  /** The JSON of a message that isn't the client's: a line for what left, or the answer to a recall. */
  writeMessage(message: Message): string;
  /** Makes a definition of a tool; nothing of a tool that is no function. @throws {UnknownShape} likewise. */
  readTool(value: unknown): ToolDefinition | undefined;
  /** The JSON of a tool that shows this definition, in place of `original`. */
  writeTool(tool: ToolDefinition, original?: unknown): string;
  /** Passes on the replies of a turn. */
  writer(options: TurnWriterOptions): TurnWriter;
}

/** A request has a shape that the format doesn't have. It is passed on as it is. */
export class UnknownShape extends Error {
  /** Always `UnknownShape`. */
  override readonly name = "UnknownShape";
}

/** A body of JSON with the places of its fields. */
export interface WireBody {
  /** As it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Places of the values of its fields, by name. */
  readonly fields: ReadonlyMap<string, Span>;
}
