import { firstWords } from "@tare/messages";

/** Names under which tools take what they work on, as they are without `_` and `-`, those that say most first. */
const PATHS = ["path", "filepath", "file", "filename", "absolutepath", "targetfile", "notebookpath", "url"];
const COMMANDS = ["command", "cmd", "script", "code"];
const SOUGHT = ["pattern", "query", "regex", "search"];

/** By this a shell is told that a command follows. */
const RUNS = /^-\w*c$/;

/**
 * What a call is about, in one line: its command, its path, what it looks for and where, or else the first text among its
 * arguments. Null if they hold none.
 */
export function subjectOf(args: string): string | null {
  let value: unknown;
  try {
    value = JSON.parse(args);
  } catch {
    return firstWords(args) || null;
  }
  if (typeof value !== "object" || value === null) return firstWords(String(value)) || null;
  const texts = new Map(
    Object.entries(value).flatMap(([name, given]): [string, string][] => {
      const text = textOf(given);
      return text ? [[name.replaceAll(/[_-]/g, "").toLowerCase(), text]] : [];
    }),
  );
  const first = (names: readonly string[]) => names.map((name) => texts.get(name)).find((text) => text);
  const [path, sought] = [first(PATHS), first(SOUGHT)];
  const subject = first(COMMANDS) ?? (path && sought ? `${sought} in ${path}` : path ?? sought) ??
    texts.values().next().value;
  return firstWords(subject) || null;
}

/** What an argument says: a text, or a command in words. */
function textOf(given: unknown): string {
  if (typeof given === "string") return given;
  if (!Array.isArray(given) || !given.every((word) => typeof word === "string")) return "";
  return RUNS.test(given[1] ?? "") ? given.slice(2).join(" ") : given.join(" ");
}
