import { contentText, type ToolMessage } from "@tare/messages";
import { exitCodeIn } from "@tare/messages/internal";

/** UTF-16 code units at either end of a text that are inspected. */
const HEAD_CHARS = 1_000;
const TAIL_CHARS = 1_000;

/** Codes by which terminals color. */
// deno-lint-ignore no-control-regex
const COLORS = /\x1b\[[\d;]*m/g;

/** Why a program could not do what it was called for, behind its name and what it was about. */
const REASONS =
  "no such file or directory|permission denied|command not found|not found|is a directory|not a directory|" +
  "operation not permitted|connection (?:refused|timed out)|cannot [a-z]+ .+";

const FIRST_LINES: readonly RegExp[] = [
  // `Error: …`, `error[E0308]: …`, `error TS2304: …`, but no count, and no key of a file.
  /^error(?:\s*[[(][^\])]{1,40}[\])]|\s+[A-Z]{1,8}\d+)?:\s+(?!(?:0|none|null|false|undefined|string|boolean)\b)\S/i,
  // Sentences, as agents and frameworks begin them.
  /^error (?:executing|running|reading|writing|calling|invoking|processing|parsing|opening|loading|while|during|occurred|code:? \S)/i,
  /^an? (?:unexpected |internal )?(?:error|exception) (?:occurred|happened|was thrown)\b/i,
  /^cannot (?!be\b)[a-z]+\b/i,
  /^(?:failed|unable) to [a-z]+\b/i,
  /^could not [a-z]+\b/i,
  /^(?:file|directory|path|tool|command) (?:not found|does not exist)\b/i,
  /^<tool_use_error>/,
  /^(?:mcp|tool|execution|runtime|fatal) error\b.{0,40}:\s*\S/i,
  /^request failed with status\b/i,
  // Exceptions: `TypeError: …`, `java.io.IOException: …`.
  /^(?:(?:uncaught|unhandled)\b.{0,30}\s)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\s*[[(][^\])]{1,40}[\])])?:\s*\S/,
  /^(?:uncaught|unhandled) .{0,40}(?:error|exception|rejection)\b/i,
  /^traceback \(most recent call last\):\s*$/i,
  /^exception in thread "/i,
  /^panic: \S/,
  /^thread '.*' (?:\(\d+\) )?panicked at\b/,
  /^segmentation fault\b/i,
  // Programs: git, npm, make, apt, curl, compilers, shells.
  /^fatal: \S/i,
  /^(?:npm|pnpm|yarn) (?:err!|error\b)/i,
  /^\s?ERR_[A-Z_]+/,
  /^g?make(?:\[\d+\])?: \*\*\* /,
  /^E: [A-Z]/,
  /^curl: \(\d+\) /,
  /^\S+:\d+:\d+: (?:fatal )?error: /,
  /^\S+\(\d+,\d+\): error\b/,
  new RegExp(`^(?:/\\S*/)?[\\w.-]+: (?:.{0,200}: )?(?:${REASONS})\\s*$`, "i"),
  /^'.{1,200}' is not recognized as an internal or external command/,
  /^[A-Z][\w-]+ ?: (?:cannot|access|the term) /i,
  // JSON that holds nothing before its error.
  /^\{\s*"error"\s*:\s*(?!null\b|false\b|0\b|""|\{\s*\}|\[\s*\])\S/i,
  /^\{\s*"is_?error"\s*:\s*true\b/i,
  /^\{\s*"(?:success|ok)"\s*:\s*false\b/i,
];

/** Last lines with which a program ends that has failed. */
const LAST_LINES: readonly RegExp[] = [
  /^(?:npm|pnpm|yarn) (?:err!|error\b)/i,
  /^g?make(?:\[\d+\])?: \*\*\* /,
  /^error: (?:build failed|could not compile|aborting due to)\b/i,
  /^(?:exit status|command failed with exit code) [1-9]\d*\.?$/i,
];

const TRACEBACK = { begins: /^traceback \(most recent call last\):\s*$/im, ends: /^[A-Za-z_][\w.]*(?:: |$)/ };

/**
 * Returns whether the text of a tool result reports an error: by the exit code in it, or if there is none by the form of
 * its first or last line, such as `Error: …`, `TypeError: …`, `Traceback (most recent call last):`, `fatal: …` or
 * `npm ERR! …`. Words alone are no error: a text that begins with "Error handling" is a text.
 */
export function looksLikeError(message: ToolMessage): boolean {
  const text = contentText(message.content);
  const code = exitCodeIn(text);
  if (code !== undefined) return code !== 0;
  const head = text.slice(0, HEAD_CHARS).replaceAll(COLORS, "").trimStart();
  const [first = ""] = head.split("\n", 1);
  if (FIRST_LINES.some((form) => form.test(first.trimEnd()))) return true;
  const tail = text.slice(-TAIL_CHARS).replaceAll(COLORS, "").trimEnd();
  const last = tail.slice(tail.lastIndexOf("\n") + 1);
  return LAST_LINES.some((form) => form.test(last)) ||
    TRACEBACK.begins.test(tail) && TRACEBACK.ends.test(last);
}

/**
 * Returns whether a tool result reports an error: by `failed`, where its protocol or client states it; else by what
 * `isError` returns, which is {@linkcode looksLikeError} by default.
 */
export function reportsError(
  message: ToolMessage,
  index: number,
  { isError = looksLikeError }: {
    readonly isError?: ((message: ToolMessage, index: number) => boolean) | undefined;
  } = {},
): boolean {
  return message.failed ?? isError(message, index);
}
