import { hashText, type Message } from "@tare/messages";
import { ApiError, asRecord, type JsonRecord } from "@tare/wire";
import { LRUCache } from "lru-cache";

/** Replies that a provider remembers. */
const MAX_REPLIES = 100_000;

/** Who a seal is for: the key and the model. Nobody else's can be read. */
type Author = readonly string[];

/**
 * What a provider seals or signs of its models' reasoning, and how it sees that this comes back as it was and with what it
 * was thought for. As strict as the real ones, or stricter.
 */
export class ReasoningSeals {
  /** What was thought for an item of a response, or for the first call of a message, by its id. */
  readonly #thought = new LRUCache<string, string>({ max: MAX_REPLIES });

  /** A seal of this text, in which it can be read again. */
  seal(text: string, author: Author): string {
    return btoa(encodeURIComponent(JSON.stringify({ text, mark: markOf(text, author) })));
  }

  /** Remembers what was thought for what has these ids. */
  remember(ids: readonly string[], thought: string): void {
    for (const id of ids) this.#thought.set(id, thought);
  }

  /**
   * Checks the items of a request's input: a thought is sealed, for this author, and stands before what it was thought for;
   * and nothing comes without its thought.
   *
   * @throws {ApiError}
   */
  checkItems(items: readonly JsonRecord[], author: Author): void {
    items.forEach((item, at) => {
      const before = items[at - 1];
      const { type, id } = item;
      if (type === "reasoning") {
        this.#checkItem(item, author);
        const next = items[at + 1];
        const isFollowed = next?.type === "reasoning" || next?.type === "function_call" ||
          next?.type === "message" && next.role === "assistant";
        if (isFollowed) return;
        throw refusal(`Item '${id}' of type 'reasoning' was provided without its required following item.`);
      }
      const thought = typeof id === "string" ? this.#thought.get(id) : undefined;
      if (thought === undefined || before?.type === "reasoning" && before.id === thought) return;
      throw refusal(
        `Item '${id}' of type '${type}' was provided without its required 'reasoning' item: '${thought}'.`,
      );
    });
  }

  #checkItem({ id, encrypted_content: sealed }: JsonRecord, author: Author): void {
    if (typeof sealed !== "string") {
      const message =
        `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false.`;
      throw new ApiError(404, message);
    }
    if (isSealed(sealed, author)) return;
    throw refusal(`The encrypted content for item ${id} could not be verified.`, "invalid_encrypted_content");
  }

  /**
   * Checks the messages of a request in the Messages format: what was signed is as it was; of the tool loop that goes on no
   * thought is missing; and if the model `mustThink` the loop began with one.
   *
   * @throws {ApiError}
   */
  checkMessages(messages: readonly JsonRecord[], author: Author, mustThink: boolean): void {
    const blocks = messages.map(({ role, content }) => ({
      role,
      content: (Array.isArray(content) ? content : []).map((block) => asRecord(block) ?? {}),
    }));
    blocks.forEach(({ role, content }, at) => {
      if (role !== "assistant") return;
      content.forEach(({ type, thinking, signature }, place) => {
        if (type !== "thinking" || isSignature(signature, String(thinking), author)) return;
        throw refusal(`messages.${at}.content.${place}: Invalid \`signature\` in \`thinking\` block`);
      });
    });
    const start =
      blocks.findLastIndex(({ role, content }) =>
        role === "user" && !content.some(({ type }) => type === "tool_result")
      ) + 1;
    blocks.slice(start).forEach(({ content }, more) => {
      const call = content.find(({ type }) => type === "tool_use");
      const thought = this.#thought.get(String(call?.id));
      const isThere = content[0]?.type === "thinking" && content[0].thinking === thought;
      if (thought === undefined || isThere) return;
      throw refusal(
        `messages.${
          start + more
        }.content: \`thinking\` blocks of the tool loop cannot be modified or left out`,
      );
    });
    const first = blocks.slice(start).find(({ role }) => role === "assistant")?.content[0]?.type;
    if (!mustThink || first === undefined || first === "thinking" || first === "redacted_thinking") return;
    throw refusal(`messages.${start}.content.0.type: Expected \`thinking\`, but found \`${first}\``);
  }
}

/** The signature of what was thought. */
export function signatureOf(thought: string, author: Author): string {
  return markOf(thought, author);
}

function markOf(text: string, author: Author): string {
  return hashText(JSON.stringify([...author, text])).toString(36);
}

function isSignature(signature: unknown, thought: string, author: Author): boolean {
  return signature === markOf(thought, author);
}

function isSealed(sealed: string, author: Author): boolean {
  try {
    const { text, mark } = JSON.parse(decodeURIComponent(atob(sealed)));
    return mark === markOf(text, author);
  } catch {
    // Whatever it is, it isn't ours.
    return false;
  }
}

function refusal(message: string, code?: string): ApiError {
  return new ApiError(400, message, code === undefined ? {} : { code });
}

/** The messages of a request's items: what a reply says stands in one, as models are asked. */
export function joinReplies(messages: readonly Message[]): Message[] {
  const all: Message[] = [];
  for (const message of messages) {
    const last = all.at(-1);
    if (message.role !== "assistant" || last?.role !== "assistant") {
      all.push(message);
      continue;
    }
    const { id: _, ...one } = last as typeof last & { readonly id?: unknown };
    const reasoning = [last, message].flatMap(({ reasoning_content: text }) => text || []).join("\n");
    const calls = [...last.tool_calls ?? [], ...message.tool_calls ?? []];
    all[all.length - 1] = {
      ...one,
      content: message.content || one.content || null,
      ...(reasoning !== "" && { reasoning_content: reasoning }),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
  }
  return all;
}
