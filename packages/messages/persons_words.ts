import type { Content, Message } from "./message.ts";

/** Blocks that agents add whose names have neither `_` nor `-`. */
const AGENTS_BLOCKS: readonly string[] = [
  "INSTRUCTIONS",
  "attachments",
  "context",
  "reminder",
  "reminderInstructions",
  "skill",
  "summary",
];

/** Blocks in which agents put what the person wrote. */
const PERSONS_BLOCKS: readonly string[] = ["prompt", "task", "user_message", "user_query", "userRequest"];
const PERSONS_ENDS = new RegExp(`</(?:${PERSONS_BLOCKS.join("|")})>`, "g");

/** What agents put in front of a summary from which a conversation goes on, and of rules. */
const SUMMARY =
  /^(?:This session is being continued from a previous conversation|Another language model started to solve this problem|The conversation history before this point was compacted)/;
const RULES_LINE = /^#+ [\w.-]+\.md instructions\b.*$/m;

/** So many blocks of a text are looked at: what is behind them is taken as it is. */
const MOST_BLOCKS = 64;

/** A line that a block begins. The names of HTML's own elements have neither `_` nor `-`. */
const BLOCK = /^[ \t]*<([A-Za-z][\w-]*)(?: [^<>\n]*)?>/gm;

/**
 * What a person wrote of a message: nothing of rules, surroundings and reminders, which agents send as blocks such as
 * `<environment_context>` or `<system-reminder>` beside it or as messages of their own, nor of a summary from which the
 * conversation goes on. Empty where nobody wrote anything, as in the messages of others than users.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { personsWords } from "@tare/messages";
 *
 * const content = "<current_datetime>2026-11-20</current_datetime>\n\nFind it.";
 * assertEquals(personsWords({ role: "user", content }), "Find it.");
 * ```
 */
export function personsWords(
  { role, content }: Pick<Message, "role"> & { readonly content?: Content | null },
): string {
  if (role !== "user" || !content) return "";
  const texts = typeof content === "string"
    ? [content]
    : content.flatMap((part) => part.type === "text" ? [part.text] : []);
  return texts.map(wordsOf).filter((text) => text !== "").join("\n");
}

function wordsOf(text: string): string {
  if (SUMMARY.test(text.trimStart())) return "";
  let [words, from, looked] = ["", 0, 0];
  for (const { 0: { length }, 1: name = "", index } of text.matchAll(BLOCK)) {
    const isPersons = PERSONS_BLOCKS.includes(name);
    if (index < from || !(isPersons || AGENTS_BLOCKS.includes(name) || /[_-]/.test(name))) continue;
    if (++looked > MOST_BLOCKS) break;
    const end = text.indexOf(`</${name}>`, index + length);
    if (end < 0) continue;
    words += text.slice(from, index);
    from = isPersons ? index + length : end + name.length + "</>".length;
  }
  return (words + text.slice(from)).replaceAll(PERSONS_ENDS, "").replace(RULES_LINE, "").trim();
}
