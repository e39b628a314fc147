import {
  type AssistantMessage,
  contentText,
  countRequestTokens,
  type Message,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { promptCost } from "@tare/planner/parts";
import { memoryArchive, pruneResults, RECALL_TOOL } from "@tare/prune";
import { chart } from "../../../packages/app/history/history_page.ts";
import { formatTable } from "../format_table.ts";
import { ask, type Bench } from "./bench.ts";
import { formatDuration } from "./clock.ts";
import { money, usd } from "./paid_model.ts";
import { nonce, prose, randomOf } from "./texts.ts";

/** One of the four sessions, as far as it has come. */
export interface ResumedSession {
  /** When its first request had been answered, in milliseconds since 1970. */
  readonly sentAtMs: number;
  /** What the model answered. */
  readonly reply: AssistantMessage;
  /** How long it was then left alone, in milliseconds. Absent: it still is. */
  readonly idleMs?: number;
  /** What the request that resumed it took. */
  readonly usage?: Usage;
}

/** What is compared. */
export interface MaintenanceSettings {
  /** Tokens of each session. */
  readonly tokens: number;
  /** How long the cold ones are left alone, in milliseconds. */
  readonly idleMs: number;
}

/** The four ways to resume a session. */
export const WAYS = ["warm, whole", "warm, pruned", "cold, whole", "cold, pruned"] as const;

/** One of {@linkcode WAYS}. */
export type Way = typeof WAYS[number];

/** Tokens of each tool result. */
const RESULT_TOKENS = 4_000;

const FIRST = "Before we go on: in one sentence, and without calling a tool, what did you read last?";
const NEXT = "Thank you. And in one sentence, without calling a tool, what did you read before that?";

/**
 * Sends four sessions that are equal but for a name at their start, so that no two share a prefix, and resumes them:
 * two at once, while the provider's cache holds what they sent, two after it has lost it; one of each pair as it is,
 * one with its old results pruned.
 */
export async function maintain(
  bench: Bench<ResumedSession>,
  { tokens, idleMs }: MaintenanceSettings,
): Promise<void> {
  const { model, clock, results, progress, isSimulated } = bench;
  const cold = WAYS.filter((way) => way.startsWith("cold"));
  const send = async (way: Way) => {
    const { messages, tools } = session(bench, way, tokens);
    const { message, usage } = await ask(model, { messages: [...messages, said(FIRST)], tools });
    // A call would want an answer.
    const reply: AssistantMessage = message.tool_calls?.length
      ? { role: "assistant", content: contentText(message.content) || "It was a note." }
      : message;
    const sent = { sentAtMs: clock.now(), reply };
    results.set(way, sent);
    progress(`${way}: sent a session of ${usage.promptTokens} tokens`);
    return sent;
  };
  const resume = async (way: Way, sent: ResumedSession) => {
    const { messages, tools } = session(bench, way, tokens);
    const whole = [...messages, said(FIRST), sent.reply, said(NEXT)];
    const shown = way.endsWith("pruned") ? await prune(bench, whole) : whole;
    const idleMs = clock.now() - sent.sentAtMs;
    const { usage } = await ask(model, { messages: shown, tools });
    results.set(way, { ...sent, idleMs, usage });
    progress(
      `${way}: resumed after ${formatDuration(idleMs)}, ${
        missed(usage)
      } of ${usage.promptTokens} tokens missed`,
    );
  };
  // The simulator has forgotten what an earlier run sent.
  if (isSimulated) { for (const way of cold) if (!results.get(way)?.usage) results.set(way, undefined); }
  for (const way of cold) if (!results.get(way)) await send(way);
  for (const way of WAYS) {
    if (!way.startsWith("warm") || results.get(way)?.usage) continue;
    // Anew, if an interruption came between sending and resuming.
    await resume(way, await send(way));
  }
  for (const way of cold) {
    const sent = results.get(way);
    if (!sent || sent.usage) continue;
    const leftMs = sent.sentAtMs + idleMs - clock.now();
    if (leftMs > 0) {
      progress(`${way}: waiting ${formatDuration(leftMs)}`);
      await clock.wait(leftMs);
    }
    await resume(way, sent);
  }
}

/** Tokens that the provider's cache didn't serve. */
function missed({ promptTokens, cachedTokens }: Usage): number {
  return promptTokens - cachedTokens;
}

function said(content: string): Message {
  return { role: "user", content };
}

/** Turns that each read a file, up to so many tokens. */
function session(
  { results, countTokens }: Bench<ResumedSession>,
  way: Way,
  tokens: number,
): { readonly messages: readonly Message[]; readonly tools: readonly ToolDefinition[] } {
  const name = nonce(results.seed, way);
  // The tools stand in front of the prompt.
  const tools = [readTool(name), RECALL_TOOL];
  const random = randomOf("maintenance");
  const messages: Message[] = [
    { role: "system", content: `${name}. You are an agent that reads notes for its user.` },
  ];
  let left = tokens - countRequestTokens({ messages, tools }, countTokens);
  for (let turn = 1; left > 0; turn++) {
    const id = `call_${turn}`;
    const path = `notes/${turn}.txt`;
    const added: Message[] = [
      said(`Please read ${path}.`),
      {
        role: "assistant",
        content: null,
        tool_calls: [{
          id,
          type: "function",
          function: { name: "read_file", arguments: JSON.stringify({ path }) },
        }],
      },
      {
        role: "tool",
        tool_call_id: id,
        content: prose(Math.min(RESULT_TOKENS, left), { random, countTokens }),
      },
      { role: "assistant", content: `I have read ${path}.` },
    ];
    messages.push(...added);
    left -= countRequestTokens({ messages: added }, countTokens);
  }
  return { messages, tools };
}

function readTool(name: string): ToolDefinition {
  const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
  return {
    type: "function",
    function: { name: "read_file", description: `${name}: reads a file.`, parameters },
  };
}

async function prune(
  { countTokens }: Bench<ResumedSession>,
  messages: readonly Message[],
): Promise<readonly Message[]> {
  const pruned = await pruneResults(messages, { archive: memoryArchive(), countTokens, recall: true });
  if (pruned.failure) throw pruned.failure;
  return pruned.messages;
}

/** How one session was resumed. */
export interface MaintenanceLine {
  readonly way: Way;
  readonly idleMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly missedTokens: number;
  /** What the request cost. */
  readonly usd: number;
}

/** What pruning did. Absent where a session is still missing. */
export interface MaintenanceSummary {
  readonly lines: readonly MaintenanceLine[];
  /** So many times as many tokens were missed as without pruning, in the warm cache. */
  readonly warmTimes?: number;
  /** The same in the cold one. */
  readonly coldTimes?: number;
  /**
   * After so many further calls on the warm prefix the smaller prompt has paid for the prune; infinite: never. Absent too
   * where no cache is reported.
   */
  readonly warmPaysAfterCalls?: number;
}

/** Sums up what was resumed. */
export function summariseMaintenance(
  { results, prices, profile }: Bench<ResumedSession>,
): MaintenanceSummary {
  const lines = WAYS.flatMap((way): MaintenanceLine[] => {
    const { usage, idleMs = 0 } = results.get(way) ?? {};
    if (!usage) return [];
    const { promptTokens, cachedTokens } = usage;
    return [{
      way,
      idleMs,
      promptTokens,
      cachedTokens,
      missedTokens: missed(usage),
      usd: usd(prices, profile, usage),
    }];
  });
  const line = (way: Way) => lines.find((line) => line.way === way);
  const times = (pruned?: MaintenanceLine, whole?: MaintenanceLine) =>
    pruned && whole ? pruned.missedTokens / whole.missedTokens : undefined;
  const [whole, pruned] = [line("warm, whole"), line("warm, pruned")];
  const warmTimes = times(pruned, whole);
  const coldTimes = times(line("cold, pruned"), line("cold, whole"));
  return {
    lines,
    ...(warmTimes !== undefined && { warmTimes }),
    ...(coldTimes !== undefined && { coldTimes }),
    ...(whole && pruned && !isUncached(lines) && {
      warmPaysAfterCalls: Math.max(
        0,
        Math.ceil(
          (promptCost(profile, pruned) - promptCost(profile, whole)) /
            ((whole.promptTokens - pruned.promptTokens) * profile.read),
        ),
      ),
    }),
  };
}

/** Whether a session that had just been sent was served nothing from a cache. */
function isUncached(lines: readonly MaintenanceLine[]): boolean {
  return lines.some(({ way, cachedTokens }) => way === "warm, whole" && cachedTokens === 0);
}

/** The lines as a table, and what they come to in words. */
export function maintenanceTable(
  { lines, warmTimes, coldTimes, warmPaysAfterCalls }: MaintenanceSummary,
): string {
  const table = formatTable([
    ["resumed", "idle", "prompt", "cached", "missed", "cost"],
    ...lines.map(({ way, idleMs, promptTokens, cachedTokens, missedTokens, usd }) => [
      way,
      formatDuration(idleMs),
      ...[promptTokens, cachedTokens, missedTokens].map((tokens) => tokens.toLocaleString("en")),
      money(usd),
    ]),
  ]);
  const words = [
    ...(isUncached(lines) ? [NO_CACHE] : []),
    ...(warmTimes !== undefined
      ? [`Warm, the pruned session missed ${warmTimes.toFixed(1)} times as many tokens.`]
      : []),
    ...(coldTimes !== undefined ? [`Cold, it missed ${coldTimes.toFixed(2)} times as many.`] : []),
    ...(warmPaysAfterCalls !== undefined
      ? [
        warmPaysAfterCalls < Infinity
          ? `Pruning the warm one pays after ${warmPaysAfterCalls} further calls.`
          : "Pruning the warm one never pays.",
      ]
      : []),
  ];
  return [table, "", ...words].join("\n");
}

const NO_CACHE =
  "Warning: of a session that had just been sent the provider reports nothing from a cache. It has none, or doesn't tell " +
  "of it: then what was missed is only how long the prompts were, and says nothing of what pruning costs there.";

/** Tokens missed in each session, as an SVG. */
export function maintenanceChart(lines: readonly MaintenanceLine[], title: string): string {
  return chart({
    title,
    x: {
      label: "how the session was resumed",
      most: lines.length + 0.5,
      ticks: lines.map((_, at) => at + 1),
      format: (at) => lines[at - 1]?.way ?? "",
    },
    y: {
      label: "tokens missed",
      most: Math.max(1, ...lines.map(({ missedTokens }) => missedTokens)) * 1.1,
      format: (value) => `${value / 1_000}k`,
    },
    points: lines.map(({ way, missedTokens }, at) => ({
      x: at + 1,
      y: missedTokens,
      label: missedTokens.toLocaleString("en"),
      ours: way.endsWith("pruned"),
    })),
  });
}
