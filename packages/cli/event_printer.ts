import type { TurnLedger } from "@tare/loop";
import { contentText } from "@tare/messages";
import { PLAN_TOOL_NAME, type WorkPlan } from "@tare/messages/internal";
import type { SessionEvent } from "@tare/server";
import { counted, formatCount, oneLine } from "@tare/server/internal/format";
import { type EntryOf, TranscriptReducer } from "@tare/server/internal/transcript";
import { usdText } from "./dollars.ts";
import { MECHANISM_NAMES } from "./ledger_names.ts";
import { drawnMarkdown } from "./terminal/drawn_markdown.ts";
import { renderDiff } from "./terminal/render_diff.ts";
import { printableText, rowsOf } from "./terminal/printable_text.ts";
import type { RenderRows } from "./terminal/waiting.ts";

const COLUMNS = 108;

const MAX_LINES = 60;

const MAX_ROWS = 8;

const NEWEST = 8_192;

const INDENT = "  ";

const ANSWERED_BY: Readonly<Record<Extract<SessionEvent, { type: "approval_answered" }>["by"], string>> = {
  user: "by the user",
  time: "after a timeout",
  message: "by the next message",
  cancel: "by cancellation",
};

/** Returns the last rows of an output and whether they are complete. Text after `\r` replaces its line. */
function newestRows(output: string, columns: number) {
  const newest = output.slice(-NEWEST);
  const lines = newest.replace(/\n$/, "").split("\n").map((line) => {
    const ended = line.replace(/\r+$/, "");
    return printableText(ended.slice(ended.lastIndexOf("\r") + 1).replaceAll("\t", "    "));
  });
  let rows: readonly string[] = [];
  let printed = 0;
  for (; printed < lines.length && rows.length < MAX_ROWS; printed++) {
    rows = [...rowsOf(Math.max(1, columns - INDENT.length), lines.at(-1 - printed)!), ...rows];
  }
  return {
    rows: rows.slice(-MAX_ROWS).map((row) => INDENT + row),
    isAll: rows.length <= MAX_ROWS && printed === lines.length && output.length < NEWEST,
  };
}

/**
 * Returns a printer of a turn's events: steps, calls, changed files, and at the end the ledger in one line.
 *
 * @param options.isColored Whether to color changes and render replies as Markdown. Default: false.
 * @param options.columns Width of the terminal. Default: 100.
 * @param options.showAbove Shows the last rows of a running call's output. Default: the whole output is printed.
 * @param options.plan The model's current plan.
 */
export function eventPrinter(
  write: (text: string) => void,
  options: {
    readonly isColored?: boolean;
    readonly columns?: number;
    readonly showAbove?: (rows: RenderRows | undefined) => void;
    readonly plan?: WorkPlan | undefined;
  } = {},
): (event: SessionEvent) => void {
  let lineOpen = false;
  const transcript = new TranscriptReducer(options);
  const { columns = 100, showAbove } = options;
  let writer = -1;
  const put = (text: string) => {
    write(text);
    if (text !== "") lineOpen = !text.endsWith("\n");
  };
  const drawn = options.isColored ? drawnMarkdown(put, options) : undefined;
  const line = (text: string) => {
    drawn?.end();
    put(`${lineOpen ? "\n" : ""}${printableText(text)}\n`);
  };
  const stream = (text: string) => {
    drawn?.end();
    put(printableText(text));
  };
  const showOutput = () => {
    const open = transcript.openCalls.filter(({ output }) => output !== undefined);
    const last = open.find(({ key }) => key === writer) ?? open.at(-1);
    showAbove?.(last && ((columns) => newestRows(last.output!, columns).rows));
  };
  const endOutput = ({ output }: EntryOf<"call">) => {
    if (!showAbove || output === undefined) return;
    showOutput();
    const { rows, isAll } = newestRows(output, columns - 1);
    const lines = output.replace(/\n$/, "").split("\n").length;
    if (!isAll) line(`${INDENT}… last rows of ${counted(lines, "line")}:`);
    rows.forEach(line);
  };
  const called = (call: EntryOf<"call">) => {
    const { plan } = transcript;
    if (call.name === PLAN_TOOL_NAME && plan) return renderPlan(plan).forEach(line);
    line(`${indent(call)}→ ${oneLine(nameOf(call), COLUMNS)}`);
  };
  const ended = (call: EntryOf<"call">) => {
    endOutput(call);
    const { content, error, bytes = 0, durationMs = 0, change, made } = call.result!;
    if (call.name === PLAN_TOOL_NAME && transcript.plan && !error) return;
    line(
      `${indent(call)}← ${oneLine(nameOf(call), COLUMNS / 2)}: ${error ? "error, " : ""}` +
        `${formatCount(bytes)} bytes, ${formatCount(Math.round(durationMs))} ms${madeText(made)}`,
    );
    if (error && content !== "") {
      line(`${indent(call)}  ${oneLine(content.split("\n", 1)[0]!, 2 * COLUMNS)}`);
    }
    // The approval request showed it.
    if (!change || call.proposed) return;
    const lines = renderDiff(change, options);
    for (const one of lines.slice(0, MAX_LINES)) write(`  ${one}\n`);
    if (lines.length > MAX_LINES) line(`  … and ${formatCount(lines.length - MAX_LINES)} more lines`);
  };
  return (event) => {
    const open = transcript.openCalls;
    const changes = transcript.apply(event);
    if (event.type === "turn_start" || event.type === "message_added") return;
    if (event.type === "step_start") line(`── step ${event.step}`);
    if (event.type === "subagent_started") line(`↳ subagent started in session ${event.session}`);
    if (event.type === "turn_end") open.forEach(endOutput);
    if (event.type === "approval_answered") {
      const [{ entry } = {}] = changes;
      const name = entry?.kind === "call" ? nameOf(entry) : event.id;
      const reason = event.reason === undefined ? "" : `: ${oneLine(event.reason, COLUMNS / 2)}`;
      const decision = event.always ? "always allowed" : event.decision === "deny" ? "denied" : "allowed";
      return line(`! ${oneLine(name, COLUMNS / 2)}: ${decision} ${ANSWERED_BY[event.by]}${reason}`);
    }
    for (const { entry, before } of changes) {
      switch (entry?.kind) {
        case "reply":
          if (event.type === "text_delta") (drawn?.write ?? stream)(event.text);
          else if (event.type === "assistant_message") {
            if (before?.kind !== "reply" || before.text === "") (drawn?.write ?? stream)(entry.text);
            drawn?.end();
          }
          break;
        case "call":
          if (event.type === "tool_call") called(entry);
          else if (event.type === "tool_output") {
            writer = entry.key;
            if (showAbove) showOutput();
            else stream(event.text);
          } else if (entry.result) ended(entry);
          break;
        case "user":
          line(`> ${contentText(entry.content)}`);
          break;
        case "warning":
          line(`! ${entry.message}`);
          break;
        case "rewrite": {
          const { mechanism, removed, reason, tokensBefore, tokensAfter } = entry.rewrite;
          line(
            `~ ${mechanism}: ${removed} (${reason}); ${formatCount(tokensBefore)} → ${
              formatCount(tokensAfter)
            } tokens`,
          );
          break;
        }
        case "end":
          if (entry.reason !== "completed" && entry.reason !== "approval") {
            line(`! ${entry.reason}: ${entry.message ?? "the turn ended"}`);
          }
          line(ledgerLine(entry.ledger));
      }
    }
  };
}

function nameOf({ name, arguments: text }: EntryOf<"call">): string {
  return text === "" ? name : `${name} ${text}`;
}

export function renderPlan({ steps, done }: WorkPlan): readonly string[] {
  return steps.map((step, at) => `  ${at < done ? "☑" : at === done ? "▶" : "☐"} ${oneLine(step, COLUMNS)}`);
}

function indent({ parent }: { readonly parent?: string }): string {
  return parent === undefined ? "" : INDENT;
}

function madeText(made: Extract<SessionEvent, { readonly type: "tool_result" }>["made"]): string {
  if (!made) return "";
  const failed = made.failed > 0 ? `, ${formatCount(made.failed)} failed` : "";
  return `; ${counted(made.calls, "call")}${failed}, ${
    formatCount(made.omittedTokens)
  } tokens kept out of the prompt`;
}

export function ledgerLine(
  { calls, promptTokens, cachedTokens, outputTokens, saved, estimated, costUnits, usd }: TurnLedger,
): string {
  // Loops may have mechanisms of their own.
  const names: Readonly<Record<string, string>> = MECHANISM_NAMES;
  const savings = Object.entries(saved).filter(([, tokens]) => tokens !== 0).map(([mechanism, tokens]) =>
    `${names[mechanism] ?? mechanism} ${formatCount(tokens)}`
  );
  const costs = [
    ...(usd === undefined ? [] : [usdText(usd)]),
    ...(costUnits === undefined || usd !== undefined ? [] : [counted(Math.round(costUnits), "cost unit")]),
  ];
  return `ledger: ${counted(calls, "call")}, ${formatCount(promptTokens)} prompt tokens (` +
    `${formatCount(cachedTokens)} cached), ${formatCount(outputTokens)} output tokens; ` +
    (costs.length > 0 ? `cost: ${costs.join(", ")}; ` : "") +
    `tokens removed from prompts: ${savings.join(", ") || "none"}${estimated ? " (usage estimated)" : ""}`;
}
