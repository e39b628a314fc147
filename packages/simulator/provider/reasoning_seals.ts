import { hashText } from "@tare/messages/internal";
import type { JsonRecord } from "@tare/wire";
import { ApiError, asRecord, MESSAGES_PROTOCOL, RESPONSES_PROTOCOL } from "@tare/wire/internal";
import { LRUCache } from "lru-cache";

const MAX_REPLIES = 100_000;

/** Whose thoughts they are: the key and the model. Nobody else's can be read. */
type Author = readonly string[];

/** Seals and signatures of reasoning, and the checks of what comes back, as strict as real providers' or stricter. */
export class ReasoningSeals {
  /** What was thought for an item of a response, or for the first call of a message, by its id. */
  readonly #thought = new LRUCache<string, string>({ max: MAX_REPLIES });

  /** What shows that this author has thought so. */
  seal(thought: string, author: Author): string {
    return hashText(JSON.stringify([...author, thought])).toString(36);
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

  #checkItem(item: JsonRecord, author: Author): void {
    const [part] = RESPONSES_PROTOCOL.readItem(item);
    const { id, reasoning_content: thought = "" } = { reasoning_content: "", id: "", ...part?.message };
    // By what is sealed it is known, if that came.
    if (id === item.id) {
      const message =
        `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false.`;
      throw new ApiError(404, message);
    }
    if (id === `sealed ${hashText(this.seal(thought ?? "", author))}`) return;
    throw refusal(`The encrypted content for item ${item.id} could not be verified.`);
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
