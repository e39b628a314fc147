import type { Prices } from "../bill.ts";
import type { Entry, ModelTurn, Reply } from "../model.ts";

export type Fields = Readonly<Record<string, unknown>>;

export interface ReadRequest {
  readonly turn: ModelTurn;
  /** Prompt in cache order: tools, system, messages. A deferred tool appears at the reference to it. */
  readonly pieces: readonly Piece[];
  /** Sealed reasoning of earlier replies, which must return unchanged. */
  readonly seals: readonly string[];
}

export interface Piece {
  /** Unique key; cache breakpoints don't count. */
  readonly key: string;
  /**
   * Content that the model sees and a provider counts: texts, names and arguments, but neither ids nor
   * surrounding JSON.
   */
  readonly rendered: string;
  /**
   * Cache lifetime of a breakpoint after this piece, for protocols with breakpoints. Default: no breakpoint.
   */
  readonly mark?: "5m" | "1h" | undefined;
}

export interface CallUsage {
  readonly prompt: number;
  readonly cached: number;
  /** Prompt tokens written to the cache, if the protocol reports them. */
  readonly written?: number;
  readonly hourWritten?: number;
  readonly output: number;
}

export interface ReplyHead {
  readonly number: number;
  readonly model: string;
  readonly usage: CallUsage;
  /** Sealed reasoning, if the client requested it. */
  readonly seal?: string;
}

/** Protocol of a provider: streams only, since agents request nothing else. */
export interface SpokenProtocol {
  readonly path: string;
  readonly prices: Prices;
  readonly read: (body: Fields) => ReadRequest;
  readonly seals: (body: Fields) => boolean;
  readonly write: (reply: Reply, head: ReplyHead) => readonly string[];
  readonly refuse: (status: number, message: string) => Fields;
}

export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: Fields) =>
    typeof part.text === "string" ? part.text : IMAGES.test(String(part.type)) ? VISIBLE_IMAGE : ""
  ).join("\n");
}

const IMAGES = /^(?:image|image_url|input_image)$/;

/** Text with as many tokens as OpenAI counts for an image of 1,024 pixels. */
const VISIBLE_IMAGE = " picture".repeat(765);

export function render(role: string, entries: readonly Entry[]): string {
  const texts = entries.map((item) => item.type === "call" ? `${item.name}\n${item.args}` : item.text);
  return [role, ...texts].join("\n");
}

export function renderTool({ name, description, schema }: Fields): string {
  return [name, description, JSON.stringify(schema)].map((part) => part ?? "").join("\n");
}

/** Returns a list of objects; empty if it is none. */
export function list(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value : [];
}

export function namedEvent(event: Fields & { readonly type: string }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
