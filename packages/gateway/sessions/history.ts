import { contentText } from "@tare/messages";
import type { WireItem } from "@tare/wire";

/** The shortest and the longest text by which one conversation is found again in another, in UTF-16 code units. */
export const QUOTED_CHARS = { least: 24, most: 400 } as const;

/** Whether a model has answered in a history. */
export function hasAnswers(items: readonly WireItem[]): boolean {
  return items.some(({ parts }) => parts.some(({ message: { role } }) => role === "assistant"));
}

/** All that is said in a history. */
export function textOf(items: readonly WireItem[]): string {
  return items.flatMap(({ parts }) => parts.map(({ message }) => contentText(message.content))).join("\n");
}

/** How many items of instructions a history begins with. */
export function countInstructions(items: readonly WireItem[]): number {
  const first = items.findIndex(({ parts }) =>
    parts.some(({ message: { role } }) => role !== "system" && role !== "developer")
  );
  return first < 0 ? items.length : first;
}

/** Position of the first item in which a user says something. */
export function openingOf(items: readonly WireItem[]): number {
  return Math.max(0, items.findIndex(({ parts }) => parts.some(({ message }) => message.role === "user")));
}

/** A line of what the user asked for first, behind rules and surroundings that other conversations share. */
export function openingText(items: readonly WireItem[]): string | undefined {
  const messages = items.flatMap(({ parts }) => parts.map(({ message }) => message));
  const from = messages.findIndex(({ role }) => role === "user");
  const length = messages.slice(from).findIndex(({ role }) => role === "assistant" || role === "tool");
  const asked = messages.slice(from, length < 0 ? undefined : from + length)
    .findLast(({ role }) => role === "user")?.content ?? "";
  const text = typeof asked === "string" ? asked : contentText(asked.slice(-1));
  return text.split("\n").map((line) => line.trim())
    .find(({ length }) => length >= QUOTED_CHARS.least)?.slice(0, QUOTED_CHARS.most);
}
