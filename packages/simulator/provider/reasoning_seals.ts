import { hashText } from "@tare/messages/internal";
import type { JsonRecord } from "@tare/wire";
import { ApiError, asRecord, MESSAGES_PROTOCOL, RESPONSES_PROTOCOL } from "@tare/wire/internal";
import { LRUCache } from "lru-cache";

const MAX_REPLIES = 100_000;

/** Key and model of a reasoning; others can't read it. */
type Author = readonly string[];

/** Seals and signatures of reasoning, checked at least as strictly as by real providers. */
export class ReasoningSeals {
  /** Reasoning of a response's item, or of a message's first call, by id. */
  readonly #thought = new LRUCache<string, string>({ max: MAX_REPLIES });

  seal(thought: string, author: Author): string {
    return hashText(JSON.stringify([...author, thought])).toString(36);
  }

  remember(ids: readonly string[], thought: string): void {
    for (const id of ids) this.#thought.set(id, thought);
  }

  /**
   * Checks a request's input items: reasoning is sealed for this author and precedes its item, and no item lacks its reasoning.
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

  #checkItem(item: JsonRecord, author: Author): void {
    const [part] = RESPONSES_PROTOCOL.readItem(item);
    const { id, reasoning_content: thought = "" } = { reasoning_content: "", id: "", ...part?.message };
    // Encrypted content identifies the item.
    if (id === item.id) {
      const message =
        `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false.`;
      throw new ApiError(404, message);
    }
    if (id === `sealed ${hashText(this.seal(thought ?? "", author))}`) return;
    throw refusal(`The encrypted content for item ${item.id} could not be verified.`);
  }

  /**
   * Checks a Messages request: signed reasoning is unchanged and complete in the current tool loop, and begins the loop if
   * the model `mustThink`.
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
        if (type !== "thinking" || signature === this.seal(String(thinking), author)) return;
        throw refusal(`messages.${at}.content.${place}: Invalid \`signature\` in \`thinking\` block`);
      });
    });
    const start =
      blocks.findLastIndex(({ role, content }) =>
        role === "user" && !content.some(({ type }) => type === "tool_result")
      ) + 1;
    blocks.slice(start).forEach(({ role, content }, more) => {
      const parts = MESSAGES_PROTOCOL.readItem({ role, content });
      const calls = parts.flatMap(({ message }) =>
        message.role === "assistant" ? message.tool_calls ?? [] : []
      );
      const thought = this.#thought.get(calls[0]?.id ?? "");
      const isThere = content[0]?.type === "thinking" && content[0].thinking === thought;
      if (thought === undefined || isThere) return;
      throw refusal(
        `messages.${
          start + more
        }.content: \`thinking\` blocks of the tool loop cannot be modified or left out`,
      );
    });
    const first = blocks.slice(start).find(({ role }) => role === "assistant")?.content[0]?.type;
    if (!mustThink || first === undefined || first === "thinking") return;
    throw refusal(`messages.${start}.content.0.type: Expected \`thinking\`, but found \`${first}\``);
  }
}

function refusal(message: string): ApiError {
  return new ApiError(400, message);
}
