import type { Prices } from "../bill.ts";
import type { Asked, Reply, Said } from "../model.ts";

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** A request as the provider reads it. */
export interface ReadRequest {
  readonly asked: Asked;
  /**
   * The prompt in the order in which providers cache it: tools, system, messages. A tool that is deferred isn't among
   * them: its place is where a reference to it stands.
   */
  readonly pieces: readonly Piece[];
  /** What earlier replies must have held word for word: sealed reasoning. */
  readonly seals: readonly string[];
}

/** A piece of a prompt. */
export interface Piece {
  /** Tells it from every other; marks for the cache don't count. */
  readonly key: string;
  /** What the model is shown, and a provider counts: texts, names and arguments, but neither ids nor JSON around them. */
  readonly shown: string;
  /** How long what ends here is to be cached, where the protocol has marks. Default: it isn't marked. */
  readonly mark?: "5m" | "1h" | undefined;
}

/** What a call took, in tokens. */
export interface CallUsage {
  readonly prompt: number;
  /** Of these, read from the cache. */
  readonly cached: number;
  /** Of these, written to the cache, where that is told. */
  readonly written?: number;
  /** Of what was written, what stays for an hour. */
  readonly hourWritten?: number;
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
  readonly prices: Prices;
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
  return content.map((part: Fields) =>
    typeof part.text === "string" ? part.text : PICTURES.test(String(part.type)) ? SHOWN_PICTURE : ""
  ).join("\n");
}

/** What the protocols call pictures. */
const PICTURES = /^(?:image|image_url|input_image)$/;

/** As long as a picture of 1,024 pixels is, in OpenAI's tokens. */
const SHOWN_PICTURE = " picture".repeat(765);

/** What the model is shown of things that stand in a prompt, and who says them. */
export function shownOf(role: string, said: readonly Said[]): string {
  const texts = said.map((item) => item.type === "call" ? `${item.name}\n${item.args}` : item.text);
  return [role, ...texts].join("\n");
}

/** What the model is shown of a tool: its arguments are told as a JSON schema. */
export function shownTool({ name, description, schema }: Fields): string {
  return [name, description, JSON.stringify(schema)].map((part) => part ?? "").join("\n");
}

/** A list of objects, or none. */
export function list(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value : [];
}

/** One server-sent event with a name. */
export function namedEvent(event: Fields & { readonly type: string }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
