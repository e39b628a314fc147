import { sliceText } from "@tare/messages/internal";
import { counted } from "@tare/server/internal/format";
import type { Interface } from "node:readline";
import type { Approval, ApprovalAnswer } from "../agent_client.ts";
import { argumentText, callTitle } from "../call_title.ts";
import type { AskUser } from "./watch_turn.ts";
import { changeInShort, renderDiff } from "./render_diff.ts";
import { printableText, QUESTION_MARK } from "./printable_text.ts";
import { wrappedRows } from "./word_wrap.ts";

const MAX_VISIBLE = 20_000;

interface ApprovalQuestion {
  readonly ask: AskUser;
  /** Writes lines above an open prompt and its input. */
  readonly write: (text: string) => void;
}

export function askUser(
  lines: Interface,
  { write, isColored = false, columns, onAsk = () => {} }: {
    readonly write: (text: string) => void;
    readonly isColored?: boolean;
    /** Returns the width. Default: unlimited. */
    readonly columns?: () => number;
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
      write(`\n${questionOf(approval, { isColored, columns })}\n`);
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
        lines.question(PROMPT, { signal }, end);
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

const ANSWERS = "y = yes, a = always in this session, n = no; or type a reason to deny.";

const PROMPT = "y/a/n › ";

type Question =
  & Pick<Approval, "name" | "arguments" | "why" | "effects" | "change">
  & Partial<Pick<Approval, "expiresAtMs">>;

/**
 * Returns the rows of an approval request, which contain all arguments.
 *
 * @param options.columns Returns the width. Default: unlimited.
 */
export function questionOf(
  { name, arguments: text, why, effects, change, expiresAtMs }: Question,
  { isColored = false, columns, now = Date.now }: {
    readonly isColored?: boolean;
    readonly columns?: (() => number) | undefined;
    readonly now?: () => number;
  } = {},
): string {
  const bar = isColored ? `\x1b[33m${QUESTION_MARK}\x1b[39m ` : `${QUESTION_MARK} `;
  const bold = (text: string) => isColored ? `\x1b[1m${text}\x1b[22m` : text;
  const rows = (line: string, hang = INDENT) => wrappedRows(line, { columns, start: bar, hang });
  const escaped = (line: string) => printableText(line, { isWhole: true });
  // Arguments are visible unless the diff contains all of them.
  const isAllSeen = change !== undefined && change.omitted === undefined;
  const { title, rest } = callTitle({ name, args: cut(text) });
  const verb = isAllSeen ? title.split(" ", 1)[0] : "";
  const [first = "", ...more] = isAllSeen ? [escaped(`${verb} ${changeInShort(change)}`)] : shown(title);
  const args = isAllSeen ? [] : Object.entries(rest).flatMap(([key, value]) => {
    const [first = "", ...more] = shown(argumentText(value));
    return [INDENT + `${escaped(key)}: ${first}`, ...more.map((line) => INDENT + INDENT + line)];
  });
  const details = [
    ...(effects?.writes ?? []).map((path) => `Writes ${path}`),
    ...(effects?.reads ?? []).map((path) => `Reads ${path}`),
    ...(effects?.searches ?? []).map((path) => `Searches ${path}`),
    ...(why === undefined ? [] : [`Reason: ${why}`]),
    ...(expiresAtMs === undefined ? [] : [`Denied without an answer in ${duration(expiresAtMs - now())}.`]),
  ].map(escaped);
  const changes = change ? renderDiff(change, { isColored }) : [];
  return [
    ...rows(bold("Approval needed")),
    ...rows(first),
    ...[...more.map((line) => INDENT + INDENT + line), ...args].flatMap((line) =>
      rows(line, INDENT + INDENT)
    ),
    ...changes.flatMap((line) => rows(line)),
    ...details.flatMap((line) => rows(line)),
    ...rows(ANSWERS, ""),
  ].join("\n");
}

const INDENT = "  ";

/** Longer arguments are shown as JSON, so that the request fits on a screen. */
const MAX_LINES = 20;

/** Returns the escaped lines of an argument. */
function shown(text: string): readonly string[] {
  const lines = text.split("\n");
  return (lines.length > MAX_LINES ? [JSON.stringify(text)] : lines)
    .map((line) => printableText(line, { isWhole: true }));
}

function cut(text: string): string {
  if (text.length <= MAX_VISIBLE) return text;
  return `${sliceText(text, 0, MAX_VISIBLE)}… and ${counted(text.length - MAX_VISIBLE, "more character")}`;
}

function duration(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  return minutes < 100 ? counted(minutes, "minute") : counted(Math.round(minutes / 60), "hour");
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
