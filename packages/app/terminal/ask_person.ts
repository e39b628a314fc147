import type { Interface } from "node:readline";
import type { Approval, ApprovalAnswer } from "../agent_client.ts";
import type { AskPerson } from "./watch_turn.ts";

/** Longest text of a call that is shown, in UTF-16 code units. */
const MAX_SHOWN = 20_000;

/** Asks at the terminal whether calls may run, and reads the answers line by line. */
export function askPerson(
  lines: Interface,
  { write, onAsk = () => {} }: {
    readonly write: (text: string) => void;
    /** Told before a line is read, and afterwards. */
    readonly onAsk?: (isAsking: boolean) => void;
  },
): AskPerson {
  return async (approval, signal) => {
    write(`${questionOf(approval)}\n`);
    onAsk(true);
    try {
      const { promise, resolve } = Promise.withResolvers<string | undefined>();
      const leave = () => resolve(undefined);
      if (signal.aborted) return undefined;
      signal.addEventListener("abort", leave);
      lines.once("close", leave);
      lines.question(ANSWERS, { signal }, resolve);
      const line = await promise;
      signal.removeEventListener("abort", leave);
      lines.off("close", leave);
      return line === undefined ? undefined : answerOf(line);
    } finally {
      onAsk(false);
    }
  };
}

const ANSWERS = "  y yes, a always in this session, n no, or why not: ";

/** What is asked, with all that would run. */
export function questionOf({ name, arguments: text }: Pick<Approval, "name" | "arguments">): string {
  const shown = text.length <= MAX_SHOWN
    ? text
    : `${text.slice(0, MAX_SHOWN)}… and ${text.length - MAX_SHOWN} characters more`;
  // What shows as nothing, or moves what stands beside it, could hide what is asked.
  const plain = `${name} ${shown}`.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`,
  );
  return `? May this run: ${plain}`;
}

/** What a line says: yes and always are single words, and all else is a no. */
export function answerOf(line: string): ApprovalAnswer {
  const said = line.trim();
  switch (said.toLowerCase()) {
    case "y":
    case "yes":
      return { decision: "allow" };
    case "a":
    case "always":
      return { decision: "always" };
    case "":
    case "n":
    case "no":
      return { decision: "deny" };
    default:
      return { decision: "deny", reason: said };
  }
}
