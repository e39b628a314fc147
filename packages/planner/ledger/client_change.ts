import { contentText, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens, hashBytes } from "@tare/messages/internal";
import type { History } from "../edits/view.ts";
import type { LedgerEntry } from "./entry.ts";

/** A client's change to content that it had sent before; everything after it is read again. */
export type ClientChange = NonNullable<LedgerEntry["changed"]>;

const QUOTED_CHARS = 120;
const CHARS_BEFORE = 40;

/** Lines above a changed line that may name its section. */
const LINES_ABOVE = 40;

/**
 * Returns the first change to the client's previous request; `undefined` if it only appended messages or
 * removed the end.
 */
export function findClientChange(
  before: History | undefined,
  now: History,
  countTokens: CountTokens,
): ClientChange | undefined {
  if (!before) return undefined;
  const again = (messages: readonly Message[]) => {
    const stood = new Set(before.messages.map(hashBytes));
    return messages.filter((message) => stood.has(hashBytes(message)));
  };
  const tokensOf = (messages: readonly Message[]) =>
    again(messages).reduce((sum, message) => sum + countMessageTokens(message, countTokens), 0);
  const [least, most] = [before.tools.length, now.tools.length].sort((a, b) => a - b);
  // Messages may be appended; an added or removed tool changes everything after it.
  const tool = firstOther(before.tools, now.tools) ?? (least === most ? undefined : least);
  if (tool !== undefined) {
    const after = now.tools.slice(tool).reduce((sum, one) => sum + countToolTokens(one, countTokens), 0);
    return { ...changeOfTools(before.tools, now.tools, tool), tokens: after + tokensOf(now.messages) };
  }
  const place = firstOther(before.messages, now.messages);
  const [one, other] = [before.messages[place ?? -1], now.messages[place ?? -1]];
  if (place === undefined || !one || !other || again(now.messages.slice(place + 1)).length === 0) {
    return undefined;
  }
  const isInstructions = other.role === "system" || other.role === "developer";
  return {
    where: isInstructions ? "instructions" : "message",
    place,
    ...changeOfText(contentText(one.content), contentText(other.content)),
    tokens: countMessageTokens(other, countTokens) + tokensOf(now.messages.slice(place + 1)),
  };
}

function firstOther<T extends Message | ToolDefinition>(
  before: readonly T[],
  now: readonly T[],
): number | undefined {
  const at = before.findIndex((one, at) => {
    const other = now[at];
    return one !== other && other !== undefined && hashBytes(one) !== hashBytes(other);
  });
  return at < 0 ? undefined : at;
}

function changeOfTools(
  before: readonly ToolDefinition[],
  now: readonly ToolDefinition[],
  place: number,
): Omit<ClientChange, "tokens"> {
  const namesOf = (tools: readonly ToolDefinition[]) => tools.map((tool) => tool.function.name);
  const [names, others] = [namesOf(before), namesOf(now)];
  const changed = { where: "tools", place } as const;
  const [gone, come] = [
    names.filter((name) => !others.includes(name)),
    others.filter((name) => !names.includes(name)),
  ];
  if (gone.length + come.length > 0) {
    return {
      ...changed,
      kind: "list",
      line: null,
      before: quoted(gone.join(", ")),
      after: quoted(come.join(", ")),
    };
  }
  if (names[place] !== others[place]) {
    const order = (list: readonly string[]) => quoted(list.slice(place).join(", "));
    return { ...changed, kind: "order", line: null, before: order(names), after: order(others) };
  }
  const text = (tool: ToolDefinition | undefined) => JSON.stringify(tool?.function, null, 1) ?? "";
  return { ...changed, ...changeOfText(text(before[place]), text(now[place])), line: null };
}

function changeOfText(before: string, now: string): Pick<ClientChange, "kind" | "line" | "before" | "after"> {
  const [lines, others] = [before.split("\n"), now.split("\n")];
  const at = lines.findIndex((line, at) => line !== others[at]);
  const place = at < 0 ? lines.length : at;
  const [one = "", other = ""] = [lines[place], others[place]];
  const differs = Array.from(one).findIndex((character, at) => character !== other[at]);
  const from = Math.max(0, (differs < 0 ? one.length : differs) - CHARS_BEFORE);
  return {
    kind: kindOf(one, other, others.slice(Math.max(0, place - LINES_ABOVE), place)),
    line: place + 1,
    before: quoted(one.slice(from)),
    after: quoted(other.slice(from)),
  };
}

const DATE =
  /\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}:\d{2}|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d/i;
const GIT =
  /git ?status|recent commits|current branch|^\s*(?:[MADRCU?!]{1,2})\s+\S+[./]\S*$|^[0-9a-f]{7,40} /im;
const VARYING = /[0-9a-f]{8}-[0-9a-f-]{20,}|[0-9a-f]{6,}|\d+/gi;

function kindOf(before: string, now: string, above: readonly string[]): ClientChange["kind"] {
  if (/\bcch=/.test(before) && /\bcch=/.test(now)) return "bill";
  if (GIT.test(before) || GIT.test(now) || above.some((line) => /git ?status/i.test(line))) {
    return "git_status";
  }
  if (DATE.test(before) && DATE.test(now)) return "date";
  const still = (line: string) => line.replaceAll(VARYING, "#");
  return still(before) === still(now) ? "number" : "text";
}

function quoted(text: string): string {
  return text.length <= QUOTED_CHARS ? text : `${text.slice(0, QUOTED_CHARS - 1)}…`;
}

const EXPLAINED: readonly LedgerEntry["uncached"][number]["cause"][] = [
  "own_rewrite",
  "not_marked",
  "provider_lost",
  "new",
];

/** Returns a ledger entry with the tokens read again because of a client's change. */
export function withClientChange(
  entry: LedgerEntry,
  changed: ClientChange,
): LedgerEntry {
  if (changed.where === "tools") return { ...entry, changed };
  let left = changed.tokens;
  const uncached = entry.uncached.map(({ cause, tokens }) => {
    const its = EXPLAINED.includes(cause) ? Math.min(left, tokens) : 0;
    left -= its;
    return { cause, tokens: tokens - its };
  }).filter(({ tokens }) => tokens > 0);
  const tokens = changed.tokens - left;
  return {
    ...entry,
    changed,
    uncached: tokens > 0 ? [{ cause: "client_changed", tokens }, ...uncached] : uncached,
  };
}
