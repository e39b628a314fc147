import { sliceText } from "@tare/messages/internal";
import type { Interface } from "node:readline";
import type { Approval, ApprovalAnswer } from "../agent_client.ts";
import type { AskPerson } from "./watch_turn.ts";
import { changeInShort, shownDiff } from "./shown_diff.ts";
import { QUESTION_MARK, shownText } from "./shown_text.ts";

/** Longest text of a call that is shown, in UTF-16 code units. */
const MAX_SHOWN = 20_000;

interface AskedPerson {
  readonly ask: AskPerson;
  /** Writes lines above an open question and its input. */
  readonly write: (text: string) => void;
}

/** Requests approvals at the terminal, and reads the answers line by line. */
export function askPerson(
  lines: Interface,
  { write, isColoured = false, onAsk = () => {} }: {
    readonly write: (text: string) => void;
    /** Whether changes are colored. Default: false. */
    readonly isColoured?: boolean;
    /** Called before a line is read, and afterwards. */
    readonly onAsk?: (isAsking: boolean) => void;
  },
): AskedPerson {
  let isOpen = false;
  const tell = (text: string) => {
    if (!isOpen || text === "") return write(text);
    const told = text.endsWith("\n") ? text : `${text}\n`;
    if (lines.terminal) {
      const { rows } = lines.getCursorPos();
      // The line editor goes up by as many rows before it draws.
      write(`${rows > 0 ? `\x1b[${rows}A` : ""}\r\x1b[J${told}${"\n".repeat(rows)}`);
    } else write(`\n${told}`);
    lines.prompt(true);
  };
  return {
    write: tell,
    async ask(approval, signal) {
      write(`${questionOf(approval, { isColoured })}\n`);
      onAsk(true);
      try {
        const { promise, resolve } = Promise.withResolvers<string | undefined>();
        const end = (line?: string) => {
          isOpen = false;
          resolve(line);
        };
        const leave = () => end();
        if (signal.aborted) return undefined;
        signal.addEventListener("abort", leave);
        lines.once("close", leave);
        isOpen = true;
        lines.question(ANSWERS, { signal }, end);
        const line = await promise;
        signal.removeEventListener("abort", leave);
        lines.off("close", leave);
        return line === undefined ? undefined : answerOf(line);
      } finally {
        onAsk(false);
      }
    },
  };
}

const ANSWERS = "  y yes, a always in this session, n no, or why not: ";

/** Returns an approval request with everything that would run and its effects. */
export function questionOf(
  { name, arguments: text, why, effects, change }: Pick<
    Approval,
    "name" | "arguments" | "why" | "effects" | "change"
  >,
  { isColoured = false }: { readonly isColoured?: boolean } = {},
): string {
  const shown = text.length <= MAX_SHOWN
    ? text
    : `${sliceText(text, 0, MAX_SHOWN)}… and ${text.length - MAX_SHOWN} characters more`;
  // Everything that would run is visible.
  const isAllSeen = change !== undefined && change.omitted === undefined;
  const said = [
    `May this run: ${name} ${isAllSeen ? changeInShort(change) : shown}`,
    ...(effects?.writes ?? []).map((path) => `It writes ${path}`),
    ...(effects?.reads ?? []).map((path) => `It reads ${path}`),
    ...(effects?.searches ?? []).map((path) => `It looks through ${path}`),
    ...(why === undefined ? [] : [`Why you are asked: ${why}`]),
  ];
  const changes = change ? shownDiff(change, { isColoured }) : [];
  const [first = "", ...rest] = said.map((line) => shownText(line, { isWhole: true }));
  // In reverse, with a mark that no other text can have, so that no reply looks like it.
  return [first, ...changes, ...rest].map((line) => `\x1b[7m${QUESTION_MARK}?\x1b[27m ${line}`).join("\n");
}

/** Parses an answer: yes and always are single words, anything else is a no. */
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
