import type { TurnLedger } from "@tare/loop";
import { contentText, PLAN_TOOL_NAME, planAfter, type WorkPlan } from "@tare/messages";
import type { SessionEvent } from "@tare/server";
import { drawnMarkdown } from "./terminal/drawn_markdown.ts";
import { shownDiff } from "./terminal/shown_diff.ts";
import { shownText } from "./terminal/shown_text.ts";

const COLUMNS = 108;

/** Most lines that are shown of what a call has changed. */
const MAX_LINES = 60;

/**
 * Prints a turn's events for a person: each step as it happens, what calls have changed, and at the end the ledger in
 * one line.
 *
 * @param options.isColoured Whether what has changed is shown in colours, and what the model says as Markdown. Default: false.
 * @param options.columns How wide the terminal is.
 * @param options.plan What the model means to do, as far as it has said so before. Default: nothing.
 */
export function eventPrinter(
  write: (text: string) => void,
  options: {
    readonly isColoured?: boolean;
    readonly columns?: number;
    readonly plan?: WorkPlan | undefined;
  } = {},
): (event: SessionEvent) => void {
  let lineOpen = false;
  let { plan } = options;
  const calls = new Map<string, string>();
  /** Calls whose change a question has shown. */
  const seen = new Set<string>();
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
      case "tool_output":
        return stream(event.text);
      case "tool_result": {
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
  return parent === undefined ? "" : "  ";
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
