import { sliceText } from "@tare/messages/internal";
import type { Interface } from "node:readline";
import type { Approval, ApprovalAnswer } from "../agent_client.ts";
import type { AskUser } from "./watch_turn.ts";
import { changeInShort, renderDiff } from "./render_diff.ts";
import { printableText, QUESTION_MARK } from "./printable_text.ts";

const MAX_VISIBLE = 20_000;

interface ApprovalQuestion {
  readonly ask: AskUser;
  /** Writes lines above an open prompt and its input. */
  readonly write: (text: string) => void;
}

export function askUser(
  lines: Interface,
  { write, isColored = false, onAsk = () => {} }: {
    readonly write: (text: string) => void;
    readonly isColored?: boolean;
    /** Called before a line is read, and after it. Default: none. */
    readonly onAsk?: (isAsking: boolean) => void;
  },
): ApprovalQuestion {
  let isOpen = false;
  const writeAbove = (text: string) => {
    if (!isOpen || text === "") return write(text);
    const line = text.endsWith("\n") ? text : `${text}\n`;
    if (lines.terminal) {
      const { rows } = lines.getCursorPos();
      // The line editor moves up by this many rows before it draws.
      write(`${rows > 0 ? `\x1b[${rows}A` : ""}\r\x1b[J${line}${"\n".repeat(rows)}`);
    } else write(`\n${line}`);
    lines.prompt(true);
  };
  return {
    write: writeAbove,
    async ask(approval, signal) {
      write(`${questionOf(approval, { isColored })}\n`);
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

const ANSWERS = "  y = yes, a = always in this session, n = no; or type a reason to deny: ";

export function questionOf(
  { name, arguments: text, why, effects, change }: Pick<
    Approval,
    "name" | "arguments" | "why" | "effects" | "change"
  >,
  { isColored = false }: { readonly isColored?: boolean } = {},
): string {
  const printable = text.length <= MAX_VISIBLE
    ? text
    : `${sliceText(text, 0, MAX_VISIBLE)}… and ${text.length - MAX_VISIBLE} more characters`;
  // Arguments are visible unless the diff contains all of them.
  const isAllSeen = change !== undefined && change.omitted === undefined;
  const lines = [
    `Allow ${name} ${isAllSeen ? changeInShort(change) : printable}`,
    ...(effects?.writes ?? []).map((path) => `Writes ${path}`),
    ...(effects?.reads ?? []).map((path) => `Reads ${path}`),
    ...(effects?.searches ?? []).map((path) => `Searches ${path}`),
    ...(why === undefined ? [] : [`Reason: ${why}`]),
  ];
  const changes = change ? renderDiff(change, { isColored }) : [];
  const [first = "", ...rest] = lines.map((line) => printableText(line, { isWhole: true }));
  // The reversed mark is escaped in all other text, so that no reply can imitate a request.
  return [first, ...changes, ...rest].map((line) => `\x1b[7m${QUESTION_MARK}?\x1b[27m ${line}`).join("\n");
}

/** Parses an answer. Anything but a single word for yes or always denies. */
export function answerOf(line: string): ApprovalAnswer {
  const answer = line.trim();
  switch (answer.toLowerCase()) {
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
      return { decision: "deny", reason: answer };
  }
}
