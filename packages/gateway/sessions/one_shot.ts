import { contentText } from "@tare/messages";
import type { Prompts } from "@tare/conversation";
import type { ItemPart, WireItem, WireRequest } from "@tare/wire";
import type { About } from "./sessions.ts";

/** A request that isn't a turn. */
export interface OneShot {
  readonly purpose: NonNullable<ItemPart["purpose"]>;
  /** The session that it is about, if one is known. */
  readonly about: About | undefined;
}

/** What else is known of a request than what it consists of. */
export interface RequestMarks {
  /** What the client says that it is for. Default: it doesn't say. */
  readonly purpose?: NonNullable<ItemPart["purpose"]>;
  /** Whether its model may call tools. */
  readonly hasTools: boolean;
  /** Looks for the session that it is about. */
  readonly about: () => About | undefined;
}

/** Shortest instruction to sum a conversation up, in UTF-16 code units: a person's own words are shorter, or of a thing. */
const INSTRUCTION_CHARS = 300;

/** So near to the beginning or the end of what else a text holds it stands, in UTF-16 code units. */
const REACH_CHARS = 50_000;

const SUMMARY = "\\b(?:summar(?:y|ies|i[sz]\\w+)|recap|compact(?:ed|ing|ion)?|hand-?off)\\b";
const TALK = "\\b(?:conversation|context|chat|session|history|transcript|discussion)\\b";

/** A summary and what it is of, in one sentence. */
const ASKS_FOR_SUMMARY = new RegExp(`${SUMMARY}[^.]{0,80}${TALK}|${TALK}[^.]{0,80}${SUMMARY}`, "i");

/**
 * Tells requests for summaries, titles and the like from turns; nothing of a turn. Such a request says so itself; or its
 * model may call no tool where the conversation has tools; or behind a conversation that is known its last words ask to
 * sum it up, at the length at which programs ask.
 */
export function oneShotOf(
  { items }: Pick<WireRequest, "items">,
  { purpose, hasTools, about: look }: RequestMarks,
): OneShot | undefined {
  const said = items.at(-1)?.parts.at(-1)?.purpose ?? purpose;
  if (said !== undefined) return said === "turn" ? undefined : { purpose: said, about: look() };
  const asks = asksForSummary(items);
  if (hasTools && !asks) return undefined;
  const about = look();
  const lacksTools = !hasTools && (about ? about.session.facts.hasTools : hasResults(items));
  if (asks && (lacksTools || (about && about.shared > 0))) return { purpose: "compaction", about };
  return lacksTools ? { purpose: "other", about } : undefined;
}

/** What decides what such a request sees of its session; nothing if their histories begin otherwise. */
export function viewFor(
  { about }: OneShot,
  { items }: Pick<WireRequest, "items">,
): Prompts | undefined {
  if (!about || about.shared === 0) return undefined;
  const { session, shared } = about;
  return session.conversation.glimpse(session.lengthOf(items.slice(0, shared)));
}

/** Whether people, or programs in their name, ask for a summary behind all that models and tools did. */
function asksForSummary(items: readonly WireItem[]): boolean {
  for (const { parts } of items.toReversed()) {
    for (const { message } of parts.toReversed()) {
      if (message.role !== "user") return false;
      const { content } = message;
      const texts = typeof content === "string" ? [content] : content.map((part) => contentText([part]));
      if (texts.some((text) => text.length >= INSTRUCTION_CHARS && namesSummary(text))) return true;
    }
  }
  return false;
}

function namesSummary(text: string): boolean {
  if (text.length <= 2 * REACH_CHARS) return ASKS_FOR_SUMMARY.test(text);
  return ASKS_FOR_SUMMARY.test(text.slice(0, REACH_CHARS)) || ASKS_FOR_SUMMARY.test(text.slice(-REACH_CHARS));
}

function hasResults(items: readonly WireItem[]): boolean {
  return items.some(({ parts }) => parts.some(({ message: { role } }) => role === "tool"));
}
