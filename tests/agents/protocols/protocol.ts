import type { Asked, Reply } from "../model.ts";

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** A request as the provider reads it. */
export interface ReadRequest {
  readonly asked: Asked;
  /** The prompt in the order in which providers cache it: tools, system, messages; each as JSON. */
  readonly pieces: readonly string[];
  /** Pieces that end with a breakpoint, where the protocol has them. */
  readonly breakpoints?: readonly number[];
  /** What earlier replies must have held word for word: sealed reasoning. */
  readonly seals: readonly string[];
}

/** What a call took, in tokens. */
export interface CallUsage {
  readonly prompt: number;
  /** Of these, read from the cache. */
  readonly cached: number;
  readonly output: number;
}

/** What a reply is written with. */
export interface ReplyHead {
  /** Number of the reply. */
  readonly number: number;
  readonly model: string;
  readonly usage: CallUsage;
  /** What stands for sealed reasoning, if the client asked for it. */
  readonly seal?: string;
}

/** How one protocol is spoken: streams alone, as agents ask for nothing else. */
export interface SpokenProtocol {
  readonly path: string;
  readonly read: (body: Fields) => ReadRequest;
  /** Whether reasoning is sealed and handed to the client. */
  readonly seals: (body: Fields) => boolean;
  /** The events of a stream. */
  readonly write: (reply: Reply, head: ReplyHead) => readonly string[];
  readonly refuse: (status: number, message: string) => Fields;
}

/** The text of a content that is a string or a list of parts. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: Fields) => typeof part.text === "string" ? part.text : "").join("\n");
}

/** A list of objects, or none. */
export function list(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value : [];
}

/** One server-sent event with a name. */
export function namedEvent(event: Fields & { readonly type: string }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
