import type { TurnLedger } from "@tare/loop";
import { contentText } from "@tare/messages";
import { PLAN_TOOL_NAME, type WorkPlan } from "@tare/messages/internal";
import type { SessionEvent } from "@tare/server";
import { counted, formatCount, oneLine } from "@tare/server/internal/format";
import { type EntryOf, TranscriptReducer } from "@tare/server/internal/transcript";
import { callInShort } from "./call_title.ts";
import { usdText } from "./dollars.ts";
import { drawnMarkdown } from "./terminal/drawn_markdown.ts";
import { renderDiff } from "./terminal/render_diff.ts";
import { printableText } from "./terminal/printable_text.ts";
import type { RenderRows } from "./terminal/waiting.ts";
import { wordWrap, wrappedRows } from "./terminal/word_wrap.ts";

const MAX_TITLE = 200;

const MAX_REASON = 60;

const MAX_DIFF_LINES = 60;

/** Rows of a running command's output. */
const MAX_ROWS = 8;

/** First and last lines of a finished command's output. */
const FIRST_LINES = 3;
const LAST_LINES = 5;

const MAX_ERROR_LINES = 3;

const NEWEST = 8_192;

const INDENT = "  ";

/** Tools whose output is shown in part. Of other results, only the number of lines is. */
const COMMANDS: readonly string[] = ["shell", "background", "run_program", "delegate"];

const STATUS = /^(?:exit code (\d+)|(ended by \w+))[^\n]*/;

const LONG_MS = 1_000;

const ANSWERED_BY: Readonly<Record<Extract<SessionEvent, { type: "approval_answered" }>["by"], string>> = {
  user: "by the user",
  time: "after a timeout",
  message: "by the next message",
  cancel: "by cancellation",
};

/** Returns the lines of an output. Text after `\r` replaces its line. */
function outputLines(output: string): readonly string[] {
  return output.replace(/\n$/, "").split("\n").map((line) => {
    const ended = line.replace(/\r+$/, "");
    return printableText(ended.slice(ended.lastIndexOf("\r") + 1).replaceAll("\t", "    "));
  });
}

/** Returns the last rows of an output. */
function newestRows(output: string, columns: number): readonly string[] {
  const lines = outputLines(output.slice(-NEWEST)).slice(-MAX_ROWS);
  return lines.flatMap((line) => wrappedRows(line, { columns: () => columns, start: INDENT })).slice(
    -MAX_ROWS,
  );
}

/**
 * Returns a printer of a turn's events: replies, calls, changed files, and at the end the cost in one line.
 *
 * @param options.isColored Whether to use styles and render replies as Markdown. Default: false.
 * @param options.columns Returns the width of the terminal. Default: unlimited.
 * @param options.showAbove Shows the last rows of a running call's output. Default: the whole output is printed.
 * @param options.plan The model's current plan.
 */
export function eventPrinter(
  write: (text: string) => void,
  options: {
    readonly isColored?: boolean;
    readonly columns?: (() => number) | undefined;
    readonly showAbove?: (rows: RenderRows | undefined) => void;
    readonly plan?: WorkPlan | undefined;
  } = {},
): (event: SessionEvent) => void {
  const { isColored = false, columns, showAbove } = options;
  const transcript = new TranscriptReducer(options);
  const style = (code: number, text: string) =>
    isColored && text !== "" ? `\x1b[${code}m${text}\x1b[0m` : text;
  const dim = (text: string) => style(2, text);
  let lineOpen = false;
  let block: "user" | "call" | "reply" | "note" | undefined;
  let writer = -1;
  /** Calls whose title was printed before their result. */
  const begun = new Set<number>();
  const put = (text: string) => {
    write(text);
    if (text !== "") lineOpen = !text.endsWith("\n");
  };
  const plain = wordWrap(put, { columns });
  const reply = isColored ? drawnMarkdown(put, { columns }) : {
    write: (text: string) => plain.write(printableText(text)),
    end: plain.end,
  };
  /** Ends an open line, and separates blocks of different kinds by an empty line. */
  const open = (kind: typeof block) => {
    if (block === "reply" && kind === "reply") return;
    reply.end();
    put(lineOpen ? "\n" : "");
    if (block !== undefined && kind !== undefined && block !== kind) put("\n");
    block = kind;
  };
  const lines = (text: string, { start = "", hang = "" } = {}) => {
    for (const row of wrappedRows(text, { columns, start, hang })) put(`${row}\n`);
  };
  const note = (text: string) => {
    open("note");
    lines(text, { hang: INDENT });
  };
  const showOutput = () => {
    const running = transcript.openCalls.filter(({ output }) => output !== undefined);
    const last = running.find(({ key }) => key === writer) ?? running.at(-1);
    showAbove?.(last && ((columns) => newestRows(last.output!, columns)));
  };
  const preview = (output: string, start: string) => {
    const all = outputLines(output);
    const omitted = all.length - FIRST_LINES - LAST_LINES;
    const bar = `${start}${dim("│ ")}`;
    const rows = (part: readonly string[]) => part.forEach((line) => lines(line, { start: bar }));
    if (omitted <= 1) return rows(all);
    rows(all.slice(0, FIRST_LINES));
    lines(dim(`… ${counted(omitted, "more line")}; /output shows all`), { start: bar });
    rows(all.slice(-LAST_LINES));
  };
  const titleOf = (call: EntryOf<"call">) =>
    call.name === ""
      ? "A call"
      : printableText(oneLine(callInShort({ name: call.name, args: call.arguments }), MAX_TITLE));
  const title = (call: EntryOf<"call">, { mark = style(2, "●"), notes = [] as readonly string[] } = {}) => {
    open("call");
    const start = indent(call);
    const after = notes.filter(Boolean).map((one) => dim(` · ${one}`)).join("");
    lines(`${mark} ${style(1, titleOf(call))}${after}`, { start, hang: INDENT });
  };
  const begin = (call: EntryOf<"call">) => {
    if (begun.has(call.key)) return;
    begun.add(call.key);
    title(call);
  };
  /** Prints the title of the program that a call belongs to. */
  const beginParent = ({ parent }: EntryOf<"call">) => {
    const program = transcript.openCalls.find(({ id }) => id === parent);
    if (program) begin(program);
  };
  const printPlan = () => {
    open("call");
    for (const line of renderPlan(transcript.plan!)) lines(printableText(line), { hang: "    " });
  };
  const ended = (call: EntryOf<"call">) => {
    const { content, error = false, durationMs = 0, change, made } = call.result!;
    const { name, output } = call;
    showOutput();
    if (name === PLAN_TOOL_NAME && transcript.plan && !error) return printPlan();
    beginParent(call);
    const [status, code, signal] = name === "shell" && STATUS.exec(content) || [""];
    const isFailed = error || signal !== undefined || Number(code ?? 0) !== 0;
    const text = output ?? (status === "" ? content : content.slice(status.length + 1));
    const isCommand = COMMANDS.includes(name) || output !== undefined;
    const hasPreview = !error && isCommand && text !== "" &&
      (showAbove !== undefined || output === undefined);
    const notes = [
      ...error
        ? ["error"]
        : isFailed
        ? [signal ?? `exit code ${code}`]
        : change
        ? [`+${formatCount(change.added)} −${formatCount(change.removed)}`]
        : hasPreview || isCommand || content === ""
        ? []
        : [counted(content.replace(/\n$/, "").split("\n").length, "line")],
      ...durationMs >= LONG_MS ? [`${formatCount(durationMs / 1000)} s`] : [],
      ...madeText(made),
    ];
    const mark = isFailed ? style(31, "✗") : style(32, "●");
    const isLast = begun.has(call.key);
    const start = indent(call) + INDENT;
    if (!isLast) title(call, { mark, notes });
    else if (isFailed || notes.length > 0) {
      open("call");
      lines(`${isFailed ? `${style(31, "✗")} ` : ""}${dim(notes.join(" · "))}`, { start });
    }
    if (error) {
      const shown = content.trim().split("\n").slice(0, MAX_ERROR_LINES).join("\n");
      if (shown !== "") lines(printableText(shown), { start });
    } else if (hasPreview) preview(text, start);
    // The approval request showed it.
    if (!change || call.proposed) return;
    const diff = renderDiff(change, { isColored });
    for (const one of diff.slice(0, MAX_DIFF_LINES)) lines(one, { start });
    const omitted = diff.length - MAX_DIFF_LINES;
    if (omitted > 0) lines(dim(`… ${counted(omitted, "more line")}`), { start });
  };
  const cost = (ledger: TurnLedger) => {
    if (ledger.calls === 0) return;
    open("note");
    lines(dim(ledgerLine(ledger)), { hang: INDENT });
  };
  return (event) => {
    const running = transcript.openCalls;
    const changes = transcript.apply(event);
    switch (event.type) {
      case "turn_start":
        if (event.input !== undefined) block = "user";
        return;
      case "message_added":
        return;
      case "step_start":
        if (block !== "reply") break;
        open(undefined);
        block = "user";
        break;
      case "subagent_started": {
        const [{ entry } = {}] = changes;
        if (entry?.kind === "call") begin(entry);
        open("call");
        return lines(dim(`↳ session ${event.session}`), { start: INDENT });
      }
      case "turn_end":
        showAbove?.(undefined);
        for (const { output, ...call } of running) {
          if (!showAbove || output === undefined || event.reason === "approval") continue;
          if (!begun.has(call.key)) title(call);
          preview(output, indent(call) + INDENT);
        }
        break;
      case "approval_answered": {
        const [{ entry } = {}] = changes;
        const name = entry?.kind === "call" ? titleOf(entry) : event.id;
        const reason = event.reason === undefined ? "" : `: ${oneLine(event.reason, MAX_REASON)}`;
        const decision = event.always ? "always allowed" : event.decision === "deny" ? "denied" : "allowed";
        const mark = event.decision === "deny" ? style(31, "✗") : style(32, "✓");
        const what = printableText(
          `${oneLine(name, MAX_REASON)}: ${decision} ${ANSWERED_BY[event.by]}${reason}`,
        );
        open("call");
        return lines(`${mark} ${dim(what)}`, { hang: INDENT });
      }
    }
    for (const { entry, before } of changes) {
      switch (entry?.kind) {
        case "reply":
          if (event.type === "text_delta") {
            open("reply");
            reply.write(event.text);
          } else if (event.type === "assistant_message") {
            if ((before?.kind !== "reply" || before.text === "") && entry.text !== "") {
              open("reply");
              reply.write(entry.text);
            }
            reply.end();
            put(lineOpen ? "\n" : "");
          }
          break;
        case "call":
          if (event.type === "tool_output") {
            writer = entry.key;
            if (showAbove) showOutput();
            else {
              begin(entry);
              put(printableText(event.text));
            }
          } else if (entry.result) ended(entry);
          break;
        case "user":
          open("note");
          lines(printableText(`› ${contentText(entry.content)}`), { hang: INDENT });
          break;
        case "warning":
          note(`${style(33, "!")} ${printableText(entry.message)}`);
          break;
        case "rewrite": {
          const { mechanism, removed, reason, tokensBefore, tokensAfter } = entry.rewrite;
          note(
            dim(printableText(
              `~ ${mechanism}: ${removed} (${reason}); ${formatCount(tokensBefore)} → ${
                counted(tokensAfter, "token")
              }`,
            )),
          );
          break;
        }
        case "end":
          if (entry.reason === "approval") break;
          if (entry.reason !== "completed") {
            note(`${style(31, "!")} ${printableText(entry.message ?? `The turn ended: ${entry.reason}.`)}`);
          }
          cost(event.type === "turn_end" && event.whole || entry.ledger);
          if (isColored) put("\n");
          block = undefined;
      }
    }
  };
}

export function renderPlan({ steps, done }: WorkPlan): readonly string[] {
  return steps.map((step, at) =>
    `  ${at < done ? "☑" : at === done ? "▶" : "☐"} ${oneLine(step, MAX_TITLE)}`
  );
}

function indent({ parent }: { readonly parent?: string }): string {
  return parent === undefined ? "" : INDENT;
}

function madeText(made: Extract<SessionEvent, { readonly type: "tool_result" }>["made"]): readonly string[] {
  if (!made) return [];
  return [
    counted(made.calls, "call"),
    ...(made.failed > 0 ? [`${formatCount(made.failed)} failed`] : []),
    `${counted(made.omittedTokens, "token")} kept out of the prompt`,
  ];
}

/** Returns the cost of a turn in one line. */
export function ledgerLine(
  { calls, promptTokens, cachedTokens, outputTokens, saved, estimated, costUnits, usd }: TurnLedger,
): string {
  const removed = Object.values(saved).reduce((sum, tokens) => sum + tokens, 0);
  const cached = promptTokens === 0 ? 0 : Math.round(100 * cachedTokens / promptTokens);
  return [
    ...usd !== undefined
      ? [usdText(usd)]
      : costUnits !== undefined
      ? [counted(Math.round(costUnits), "cost unit")]
      : [],
    counted(calls, "call"),
    `${counted(promptTokens, "prompt token")} (${cached} % cached)`,
    `${formatCount(outputTokens)} output`,
    ...removed > 0 ? [`${formatCount(removed)} removed`] : [],
    ...estimated ? ["usage estimated"] : [],
  ].join(" · ");
}
