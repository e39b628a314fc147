import type { TurnLedger } from "@tare/loop";
import { contentText } from "@tare/messages";
import { PLAN_TOOL_NAME, planAfter, type WorkPlan } from "@tare/messages/internal";
import type { SessionEvent } from "@tare/server";
import { drawnMarkdown } from "./terminal/drawn_markdown.ts";
import { shownDiff } from "./terminal/shown_diff.ts";
import { rowsOf, shownText } from "./terminal/shown_text.ts";
import type { ShownRows } from "./terminal/waiting.ts";

const COLUMNS = 108;

/** Most lines that are shown of what a call has changed. */
const MAX_LINES = 60;

/** Most rows that are shown of what a call writes while it runs. */
const MAX_ROWS = 8;

/** So much of the newest of that is kept, in UTF-16 code units. */
const KEPT = 8_192;

const INDENT = "  ";

/** What a call writes while it runs. */
class Written {
  #newest = "";
  #breaks = 0;

  add(text: string): void {
    this.#breaks += text.split("\n").length - 1;
    this.#newest = (this.#newest + text).slice(-KEPT);
  }

  /** How many lines there were. */
  get lines(): number {
    return this.#breaks + (this.#newest.endsWith("\n") ? 0 : 1);
  }

  /** The newest rows, and whether there were others. Of a line that was written anew behind `\r` its last text counts. */
  newest(columns: number): { readonly rows: readonly string[]; readonly isAll: boolean } {
    const lines = this.#newest.replace(/\n$/, "").split("\n").map((line) => {
      const ended = line.replace(/\r+$/, "");
      return shownText(ended.slice(ended.lastIndexOf("\r") + 1).replaceAll("\t", "    "));
    });
    let rows: readonly string[] = [];
    let shown = 0;
    for (; shown < lines.length && rows.length < MAX_ROWS; shown++) {
      rows = [...rowsOf(Math.max(1, columns - INDENT.length), lines.at(-1 - shown)!), ...rows];
    }
    return {
      rows: rows.slice(-MAX_ROWS).map((row) => INDENT + row),
      isAll: rows.length <= MAX_ROWS && shown === this.lines && this.#newest.length < KEPT,
    };
  }
}

/**
 * Prints a turn's events for a person: each step as it happens, what calls have changed, and at the end the ledger in
 * one line.
 *
 * @param options.isColoured Whether what has changed is shown in colours, and what the model says as Markdown. Default: false.
 * @param options.columns How wide the terminal is.
 * @param options.showAbove Shows rows for as long as a call runs, or none any more: the newest of what it writes, of which as
 * many stay once it has ended. Default: all of it is printed as it comes.
 * @param options.plan What the model means to do, as far as it has said so before. Default: nothing.
 */
export function eventPrinter(
  write: (text: string) => void,
  options: {
    readonly isColoured?: boolean;
    readonly columns?: number;
    readonly showAbove?: (rows: ShownRows | undefined) => void;
    readonly plan?: WorkPlan | undefined;
  } = {},
): (event: SessionEvent) => void {
  let lineOpen = false;
  let { plan } = options;
  const { columns = 100, showAbove } = options;
  const calls = new Map<string, string>();
  /** Calls whose change a question has shown. */
  const seen = new Set<string>();
  /** What calls that run have written, the one that wrote last at the end. */
  const written = new Map<string, Written>();
  const put = (text: string) => {
    write(text);
    if (text !== "") lineOpen = !text.endsWith("\n");
  };
  const drawn = options.isColoured ? drawnMarkdown(put, options) : undefined;
  const line = (text: string) => {
    drawn?.end();
    put(`${lineOpen ? "\n" : ""}${shownText(text)}\n`);
  };
  const stream = (text: string) => {
    drawn?.end();
    put(shownText(text));
  };
  const showWritten = () => {
    const last = [...written.values()].at(-1);
    showAbove?.(last && ((columns) => last.newest(columns).rows));
  };
  const endWritten = (id: string) => {
    const of = written.get(id);
    if (!of) return;
    written.delete(id);
    showWritten();
    const { rows, isAll } = of.newest(columns - 1);
    if (!isAll) line(`${INDENT}… the end of ${number(of.lines)} line${of.lines === 1 ? "" : "s"}:`);
    rows.forEach(line);
  };
  return (event) => {
    switch (event.type) {
      case "turn_start":
      case "message_added":
      case "reasoning_delta":
        return;
      case "assistant_message":
        return drawn?.end();
      case "step_start":
        return line(`── step ${event.step}`);
      case "user_message":
        return line(`> ${contentText(event.input)}`);
      case "warning":
        return line(`! ${event.message}`);
      case "context_rewritten":
        return line(
          `~ ${event.mechanism}: ${event.removed} (${event.reason}); ` +
            `${number(event.tokensBefore)} → ${number(event.tokensAfter)} tokens`,
        );
      case "text_delta":
        return drawn ? drawn.write(event.text) : stream(event.text);
      case "tool_call":
        calls.set(event.id, `${event.name} ${event.arguments}`);
        if (event.name === PLAN_TOOL_NAME) {
          plan = planAfter(plan, event);
          if (plan) return shownPlan(plan).forEach(line);
        }
        return line(`${indent(event)}→ ${oneLine(`${event.name} ${event.arguments}`, COLUMNS)}`);
      case "turn_resumed":
        return line("! the server was started again, and the turn goes on");
      case "helper_started":
        return line(`↳ a helper works in session ${event.session}`);
      case "tool_output": {
        if (!showAbove) return stream(event.text);
        const of = written.get(event.id) ?? new Written();
        of.add(event.text);
        written.delete(event.id);
        written.set(event.id, of);
        return showWritten();
      }
      case "tool_result": {
        endWritten(event.id);
        // The plan itself was shown.
        if (event.name === PLAN_TOOL_NAME && plan && !event.error) return;
        line(
          `${indent(event)}← ${oneLine(calls.get(event.id) ?? event.name, COLUMNS / 2)}: ` +
            `${event.error ? "error, " : ""}${number(event.bytes)} bytes, ` +
            `${number(Math.round(event.durationMs))} ms${madeText(event.made)}`,
        );
        if (event.error && event.content !== "") {
          line(`${indent(event)}  ${oneLine(event.content.split("\n", 1)[0]!, 2 * COLUMNS)}`);
        }
        if (!event.change || seen.delete(event.id)) return;
        const lines = shownDiff(event.change, options);
        for (const one of lines.slice(0, MAX_LINES)) write(`  ${one}\n`);
        return lines.length > MAX_LINES
          ? line(`  … and ${number(lines.length - MAX_LINES)} lines more`)
          : undefined;
      }
      case "step_end":
      case "reply_unfinished":
        return;
      case "approval_asked":
        // Whoever asks a person shows it whole.
        calls.set(event.id, `${event.name} ${event.arguments}`);
        if (event.change) seen.add(event.id);
        return;
      case "approval_answered":
        return line(
          `! ${oneLine(calls.get(event.id) ?? event.id, COLUMNS / 2)}: ${event.decision} by ${event.by}` +
            (event.reason === undefined ? "" : `: ${oneLine(event.reason, COLUMNS / 2)}`),
        );
      case "turn_end":
        [...written.keys()].forEach(endWritten);
        if (event.reason !== "completed" && event.reason !== "approval") {
          line(`! ${event.reason}: ${event.message ?? "the turn ended"}`);
        }
        return line(ledgerLine(event.ledger));
      default:
        return event satisfies never;
    }
  };
}

/** What the model means to do, a line a step. */
export function shownPlan({ steps, done }: WorkPlan): readonly string[] {
  return steps.map((step, at) => `  ${at < done ? "☑" : at === done ? "▶" : "☐"} ${oneLine(step, COLUMNS)}`);
}

/** What a program calls stands below it. */
function indent({ parent }: { readonly parent?: string }): string {
  return parent === undefined ? "" : INDENT;
}

/** What the calls of a program came to. */
function madeText(made: Extract<SessionEvent, { readonly type: "tool_result" }>["made"]): string {
  if (!made) return "";
  const failed = made.failed > 0 ? `, ${number(made.failed)} failed` : "";
  const calls = made.calls === 1 ? "1 call" : `${number(made.calls)} calls`;
  return `; ${calls}${failed}, ${number(made.keptTokens)} tokens kept outside`;
}

/** A turn's ledger in one line. */
export function ledgerLine(
  { calls, promptTokens, cachedTokens, outputTokens, saved, estimated, tokenUnits, usd }: TurnLedger,
): string {
  const savings = Object.entries(saved).filter(([, tokens]) => tokens !== 0).map(([mechanism, tokens]) =>
    `${mechanism} ${number(tokens)}`
  );
  const costs = [
    ...(usd === undefined ? [] : [usdText(usd)]),
    ...(tokenUnits === undefined ? [] : [`${number(Math.round(tokenUnits))} token units`]),
  ];
  return `ledger: ${number(calls)} call${calls === 1 ? "" : "s"}, ${
    number(promptTokens)
  } prompt tokens, of these ` +
    `${number(cachedTokens)} cached, ${number(outputTokens)} output tokens; ${
      costs.length > 0 ? `cost: ${costs.join(", ")}; ` : ""
    }` +
    `tokens saved: ${savings.join(", ") || "none"}${estimated ? " (counted here)" : ""}`;
}

/** Money for people. */
export function usdText(usd: number): string {
  return usd > 0 && usd < 0.0001 ? "under $0.0001" : `$${usd.toFixed(usd < 1 ? 4 : 2)}`;
}

function number(value: number): string {
  return value.toLocaleString("en");
}

function oneLine(text: string, columns: number): string {
  const flat = text.replaceAll(/\s+/g, " ");
  return flat.length <= columns ? flat : `${flat.slice(0, columns - 1)}…`;
}
