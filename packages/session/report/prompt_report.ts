import { contentText, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import {
  countMessageTokens,
  countToolTokens,
  describeCall,
  firstWords,
  hashPiece,
  meantCall,
  pairCalls,
  transcribe,
} from "@tare/messages/internal";
import { parsePlaceholder } from "@tare/prune/internal";
import type { History, Pin, SessionView } from "@tare/planner";
import { fittingPins, isSummary } from "@tare/planner/internal";

/** A pin and its state. */
export interface PinReport extends Omit<Pin, "hash"> {
  /** `waiting` for the next rewrite, or `done`. */
  readonly state: "waiting" | "done";
}

/** A block without its text. */
export interface BlockSummary {
  /** `tool-0`, `message-12`, `line-0`. */
  readonly id: string;
  readonly kind: "tool" | "message" | "line";
  readonly role: string;
  readonly tool: string | null;
  readonly subject: string | null;
  /** Position in the history; null for tools and lines. */
  readonly place: number | null;
  readonly tokens: number;
  /** Tokens of the original; zero for a line. */
  readonly originalTokens: number;
  /**
   * Visible part: all (`visible`); all new parts, normalized (`deduplicated`); a line in its place (`replaced`); head and tail
   * (`truncated`); a summary with others (`summarized`); a mention (`evicted`); a tool's names and types (`compact`).
   */
  readonly state:
    | "visible"
    | "deduplicated"
    | "replaced"
    | "truncated"
    | "summarized"
    | "evicted"
    | "compact";
  readonly pin: PinReport | null;
  readonly mayPin: readonly Pin["wish"][];
  readonly title: string;
}

/** Range of blocks. */
export interface BlocksOptions {
  readonly from?: number;
  readonly limit?: number;
}

/** Start of the texts. */
export interface BlockOptions {
  readonly offset?: number;
}

/** A text, or a part of it if it is long. */
export interface BlockText {
  /** At most 100,000 characters. */
  readonly text: string;
  /** Start within the whole text, in UTF-16 code units. */
  readonly offset: number;
  readonly chars: number;
}

/** Blocks of a prompt. */
export interface PromptReport {
  /** Estimated tokens of the prompt. */
  readonly tokens: number;
  readonly originalTokens: number;
  readonly total: number;
  readonly blocks: readonly BlockSummary[];
  readonly hasMore: boolean;
}

/** A block with its texts. */
export interface BlockReport extends BlockSummary {
  readonly now: BlockText | null;
  readonly original: BlockText | null;
}

const TEXT_CHARS = 100_000;

/** A history and its view. */
export interface PromptSnapshot {
  readonly history: History;
  readonly view: Pick<SessionView, "messages" | "tools" | "places">;
  readonly pins: readonly Pin[];
  readonly countTokens: CountTokens;
  /** Returns whether a message can be pinned. Default: none can. */
  readonly mayPin?: (pin: Pick<Pin, "place" | "wish">) => boolean;
}

interface Sides {
  readonly id: string;
  readonly now?: Message | ToolDefinition;
  readonly original?: Message | ToolDefinition;
  readonly place?: number;
  readonly line?: Message | undefined;
}

/**
 * Returns the prompt as the model sees it: a block for each tool and message, including evicted ones.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { reportPrompt } from "@tare/session/internal/report";
 *
 * const history = { messages: [{ role: "user", content: "Hello." }], tools: [] } as const;
 * const seen = { history, view: { ...history, places: [0] }, pins: [], countTokens: estimateTokens };
 * assertEquals(reportPrompt(seen).blocks.map(({ id, state }) => [id, state]), [["message-0", "visible"]]);
 * ```
 */
export function reportPrompt(
  seen: PromptSnapshot,
  { from = 0, limit = Infinity }: BlocksOptions = {},
): PromptReport {
  const { history, view, countTokens } = seen;
  const sides = sidesOf(seen);
  const describe = describer(seen);
  const tokensOf = ({ messages, tools }: History) =>
    messages.reduce((sum, message) => sum + countMessageTokens(message, countTokens), 0) +
    tools.reduce((sum, tool) => sum + countToolTokens(tool, countTokens), 0);
  return {
    tokens: tokensOf(view),
    originalTokens: tokensOf(history),
    total: sides.length,
    blocks: sides.slice(from, from + limit).map(describe),
    hasMore: from + limit < sides.length,
  };
}

/**
 * Returns a block with its texts from an offset; `undefined` if there is none of this id.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { reportBlock } from "@tare/session/internal/report";
 *
 * const history = { messages: [{ role: "user", content: "Hello." }], tools: [] } as const;
 * const seen = { history, view: { ...history, places: [0] }, pins: [], countTokens: estimateTokens };
 * assertEquals(reportBlock(seen, "message-0")?.now?.text, "Hello.");
 * ```
 */
export function reportBlock(
  seen: PromptSnapshot,
  id: string,
  { offset = 0 }: BlockOptions = {},
): BlockReport | undefined {
  const sides = sidesOf(seen).find((one) => one.id === id);
  if (!sides) return undefined;
  const text = (piece: Message | ToolDefinition | undefined): BlockText | null => {
    if (!piece) return null;
    const whole = textOf(piece);
    return { text: whole.slice(offset, offset + TEXT_CHARS), offset, chars: whole.length };
  };
  return { ...describer(seen)(sides), now: text(sides.now), original: text(sides.original) };
}

/**
 * Returns the pins of existing messages with their states.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { reportPins } from "@tare/session/internal/report";
 *
 * const history = { messages: [{ role: "user", content: "Hello." }], tools: [] } as const;
 * const seen = { history, view: { ...history, places: [0] }, pins: [], countTokens: estimateTokens };
 * assertEquals(reportPins(seen), []);
 * ```
 */
export function reportPins({ history, view, pins }: Omit<PromptSnapshot, "countTokens">): PinReport[] {
  const messagesByPlace = new Map(view.places.map((place, row) => [place, view.messages[row]!]));
  return fittingPins(pins, history.messages).map(({ place, wish, by }) => {
    const now = messagesByPlace.get(place);
    const isDone = wish === "retain"
      ? now !== undefined && isSame(now, history.messages[place]!)
      : now === undefined || stateOf(now, history.messages[place]!) === "replaced";
    return { place, wish, by, state: isDone ? "done" : "waiting" };
  });
}

function sidesOf({ history, view }: PromptSnapshot): Sides[] {
  const { places } = view;
  const sides: Sides[] = history.tools.map((original, at) => ({
    id: `tool-${at}`,
    original,
    ...(view.tools[at] && { now: view.tools[at] }),
  }));
  let row = 0;
  let lines = 0;
  const takeLines = () => {
    for (; places[row] === -1; row++) sides.push({ id: `line-${lines++}`, now: view.messages[row]! });
  };
  let nextLine = places.indexOf(-1);
  for (const [place, original] of history.messages.entries()) {
    const id = `message-${place}`;
    let visibleRow = row;
    while (places[visibleRow] === -1) visibleRow++;
    if (places[visibleRow] === place) {
      takeLines();
      sides.push({ id, place, original, now: view.messages[row++]! });
      continue;
    }
    while (nextLine >= 0 && nextLine < row) nextLine = places.indexOf(-1, nextLine + 1);
    sides.push({ id, place, original, line: view.messages[nextLine] });
  }
  takeLines();
  return sides;
}

function describer(
  { history, view, pins, countTokens, mayPin = () => false }: PromptSnapshot,
): (sides: Sides) => BlockSummary {
  const answered = new Map(
    pairCalls(history.messages).flatMap(({ call, answer }) =>
      answer ? [[answer.at, meantCall(call)] as const] : []
    ),
  );
  const pinned = new Map(reportPins({ history, view, pins }).map((pin) => [pin.place, pin]));
  const count = (piece: Message | ToolDefinition | undefined) =>
    !piece ? 0 : isTool(piece) ? countToolTokens(piece, countTokens) : countMessageTokens(piece, countTokens);
  return ({ id, now, original, place, line }) => {
    const piece = original ?? now!;
    const call = place === undefined ? undefined : answered.get(place);
    const tool = isTool(piece) ? piece.function.name : call?.name;
    return {
      id,
      kind: isTool(piece) ? "tool" : original ? "message" : "line",
      role: isTool(piece) ? "tools" : piece.role,
      tool: tool ?? null,
      subject: call ? subjectOf(call.arguments) : null,
      place: place ?? null,
      tokens: count(now),
      originalTokens: count(original),
      state: original ? stateOf(now, original, line) : "visible",
      pin: (place === undefined ? undefined : pinned.get(place)) ?? null,
      mayPin: place === undefined ? [] : WISHES.filter((wish) => mayPin({ place, wish })),
      title: titleOf(piece),
    };
  };
}

const WISHES = ["retain", "evict"] as const;

function stateOf(
  now: Message | ToolDefinition | undefined,
  original: Message | ToolDefinition,
  line?: Message,
): BlockSummary["state"] {
  if (!now) return line && isSummary(line) ? "summarized" : "evicted";
  if (isSame(now, original)) return "visible";
  if (isTool(now)) return "compact";
  const lines = contentText(now.content).split("\n");
  if (parsePlaceholder(lines[0] ?? "")?.of === "result") return "replaced";
  return lines.some((line) => parsePlaceholder(line)) ? "truncated" : "deduplicated";
}

function isSame(now: Message | ToolDefinition, original: Message | ToolDefinition): boolean {
  return now === original || hashPiece(now) === hashPiece(original);
}

function isTool(piece: Message | ToolDefinition): piece is ToolDefinition {
  return "type" in piece && piece.type === "function" && "function" in piece;
}

function textOf(piece: Message | ToolDefinition): string {
  if (isTool(piece)) return JSON.stringify(piece.function, undefined, 2);
  if (piece.role !== "assistant") return transcribe(piece).slice(piece.role.length + 2);
  const reasoning = piece.reasoning_content ? `(reasoning)\n${piece.reasoning_content}\n\n` : "";
  return reasoning + transcribe(piece).slice(piece.role.length + 2);
}

function titleOf(piece: Message | ToolDefinition): string {
  if (isTool(piece)) return firstWords(piece.function.description);
  const calls = piece.role === "assistant" ? piece.tool_calls ?? [] : [];
  return firstWords(piece.content) || firstWords(
    calls.map((call) => {
      const { name, arguments: input } = describeCall(call);
      return `${name} ${input.slice(0, 200)}`;
    }).join(", "),
  );
}

/** Argument names of subjects without `_` and `-`, the most specific first. */
const PATHS = ["path", "filepath", "file", "filename", "absolutepath", "targetfile", "notebookpath", "url"];
const COMMANDS = ["command", "cmd", "script", "code"];
const SOUGHT = ["pattern", "query", "regex", "search"];

/** Shell option that precedes a command. */
const RUNS = /^-\w*c$/;

/**
 * Returns the subject of a call in one line: command, path, search term and place, or first text argument; null if
 * there is none.
 */
function subjectOf(args: string): string | null {
  let value: unknown;
  try {
    value = JSON.parse(args);
  } catch {
    return firstWords(args) || null;
  }
  if (typeof value !== "object" || value === null) return firstWords(String(value)) || null;
  const texts = new Map(
    Object.entries(value).flatMap(([name, given]): [string, string][] => {
      const text = textBy(given);
      return text ? [[name.replaceAll(/[_-]/g, "").toLowerCase(), text]] : [];
    }),
  );
  const first = (names: readonly string[]) => names.map((name) => texts.get(name)).find((text) => text);
  const [path, sought] = [first(PATHS), first(SOUGHT)];
  const subject = first(COMMANDS) ?? (path && sought ? `${sought} in ${path}` : path ?? sought) ??
    texts.values().next().value;
  return firstWords(subject) || null;
}

function textBy(given: unknown): string {
  if (typeof given === "string") return given;
  if (!Array.isArray(given) || !given.every((word) => typeof word === "string")) return "";
  return RUNS.test(given[1] ?? "") ? given.slice(2).join(" ") : given.join(" ");
}
