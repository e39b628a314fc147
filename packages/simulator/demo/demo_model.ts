import { sliceText } from "@tare/messages/internal";
import { type SimulatedModel, type SimulatedReply, toolCall } from "../model.ts";
import { type DemoPlan, LIST_WORKSPACE, pathOf, withNoun } from "./plan.ts";
import { LOOK_BACK, REVIEW } from "./plans.ts";
import { countedPaths, type FoundLine, foundLines, listedEntries, readRange } from "./results.ts";
import { type CallArguments, type DemoTurn, readDemoTurn, RECALL, type WantedCall } from "./turn.ts";

const PLANS: readonly DemoPlan[] = [REVIEW, LOOK_BACK];

const KNOWN_TOOLS = ["list_files", "read_file", "search_files"];

const INTRODUCTION = "I am an offline demo model: I only follow fixed rules and understand nothing.";

/**
 * Returns the offline demo model, which follows fixed rules: it lists, searches and reads with the tools `list_files`,
 * `search_files` and `read_file`, as far as offered, in parallel calls, and then reports facts computed from its prompt.
 * It has no state: each reply depends only on the request. Every answer begins with a description of the model.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { demoModel } from "@tare/simulator";
 *
 * const tool = { type: "function", function: { name: "list_files" } } as const;
 * const reply = await demoModel()({
 *   model: "demo",
 *   messages: [{ role: "user", content: "Where are prompts counted?" }],
 *   tools: [tool],
 * });
 * assertEquals(reply.tool_calls?.map((call) => call.function.name), ["list_files"]);
 * ```
 */
export function demoModel(): SimulatedModel {
  return ({ messages, tools }) => {
    const turn = readDemoTurn(messages, tools);
    if (turn.question.trim() === "") return { content: `${INTRODUCTION} The request has no question.` };
    if (KNOWN_TOOLS.some((tool) => turn.offers(tool))) return nextReply(turn);
    const offered = tools.map((tool) => tool.function.name).join(", ") || "none";
    return {
      content: `${INTRODUCTION} I called no tool: none of the supported tools (${KNOWN_TOOLS.join(", ")}) ` +
        `is offered. Offered: ${offered}.`,
    };
  };
}

function nextReply(turn: DemoTurn): SimulatedReply {
  const plan: typeof KEYWORDS = PLANS.find(({ suits }) => suits(turn.question)) ?? KEYWORDS;
  const recalls = missingOriginals(turn, plan);
  if (recalls.length > 0) return calling("I recall results that are no longer fully visible.", recalls);
  for (const rule of plan.rules) {
    if (turn.calls.some(rule.made)) continue;
    const calls = rule.wants(turn).filter((call) => turn.offers(call.tool));
    const { text } = rule;
    if (calls.length > 0) return calling(typeof text === "string" ? text : text(turn), calls);
  }
  const facts = plan.answer(turn);
  return {
    content: `${INTRODUCTION} The following is computed from ${
      plan.from ?? "tool results of this turn"
    }.\n\n${facts}`,
  };
}

/** Returns recalls of results that the answer needs and that aren't fully visible. */
function missingOriginals({ calls, offers }: DemoTurn, { needs }: typeof KEYWORDS): WantedCall[] {
  if (!offers(RECALL, "ref")) return [];
  const recalled = new Set(calls.filter((call) => call.tool === RECALL).map((call) => call.args.ref));
  const missing = calls.filter((call) => needs(call) && call.seen !== "whole").map((call) => call.ref);
  return [...new Set(missing)]
    .filter((ref) => ref !== undefined && !recalled.has(ref))
    .map((ref) => ({ tool: RECALL, args: { ref } }));
}

function calling(text: string, calls: readonly WantedCall[]): SimulatedReply {
  return { content: text, tool_calls: calls.map(({ tool, args }) => toolCall(tool, args)) };
}

const MAX_KEYWORDS = 4;
const MAX_FILES = 3;
const MAX_QUOTES = 3;
const MAX_QUOTE_CHARS = 160;
const LINES_BEFORE = 5;
const LINES_AFTER = 20;

const STOP_WORDS = new Set(
  ("about above after again all also and any are because been before being below between both but can case code could " +
    "describe did does doing each explain few file files find for from further give had has have having her here his how " +
    "into its just know like list look made make many me more most much need not now off one only other our out over own " +
    "please project repository same say see she should show some such summarize summarize take tell than that the their " +
    "them then there these they this those through too under use used uses using very want was way were what when where " +
    "which while who whom why will with work works would you your").split(" "),
);

/** Plan for other questions: searches for their words, reads around the first matches, and reports them. */
export const KEYWORDS: Omit<DemoPlan, "suits"> = {
  rules: [
    LIST_WORKSPACE,
    {
      text: "I search for the words of the question.",
      wants: (turn) => keywords(turn.question).map((word) => searchCall(turn, word, { output: "count" })),
      made: isWordCount,
    },
    {
      text: "I search the files with most matches.",
      wants: (turn) => {
        const pattern = keywords(turn.question).join("|");
        return bestFiles(turn).map((path) => searchCall(turn, pattern, { path }));
      },
      made: (call) => call.tool === "search_files" && !isWordCount(call),
    },
    {
      text: "I read around the matches.",
      wants: (turn) => {
        const found = foundInFiles(turn);
        const paths = found.size > 0 ? [...found.keys()] : readableFiles(turn);
        return paths.map((path) => readCall(turn, path, found.get(path)?.[0]?.line ?? 1));
      },
      made: (call) => call.tool === "read_file",
    },
  ],
  needs: (call) => call.tool === "search_files",
  answer: (turn) =>
    [countSentences(turn), ...foundSentences(turn), readSentences(turn), listingSentence(turn)]
      .filter((paragraph) => paragraph !== "").join("\n\n"),
};

function keywords(question: string): string[] {
  const words = question.match(/[\p{L}_][\p{L}\p{N}_-]*[\p{L}\p{N}_]/gu) ?? [];
  const weight = (word: string) => (isName(word) ? 100 : 0) + word.length;
  const telling = words.filter((word) => word.length > 2 && !STOP_WORDS.has(word.toLowerCase()));
  const distinct = new Map(telling.map((word) => [word.toLowerCase(), word]));
  return [...distinct.values()].sort((a, b) => weight(b) - weight(a)).slice(0, MAX_KEYWORDS);
}

/** Returns whether a word is a name, by an inner capital, underscore or hyphen. */
function isName(word: string): boolean {
  return /[a-z][A-Z]|[_-]/.test(word);
}

function searchCall(turn: DemoTurn, pattern: string, args: CallArguments): WantedCall {
  const anyCase = turn.offers("search_files", "ignore_case") ? { ignore_case: true } : {};
  return { tool: "search_files", args: { pattern, ...args, ...anyCase } };
}

function isWordCount(call: WantedCall): boolean {
  return call.tool === "search_files" && call.args.output === "count";
}

function readCall(turn: DemoTurn, path: string, line: number): WantedCall {
  const range = turn.offers("read_file", "start_line")
    ? { start_line: Math.max(1, line - LINES_BEFORE), end_line: line + LINES_AFTER }
    : {};
  return { tool: "read_file", args: { path, ...range } };
}

function wordCounts(turn: DemoTurn) {
  return turn.calls.filter((call) => isWordCount(call) && call.seen !== "none").map((call) => ({
    word: String(call.args.pattern),
    files: countedPaths(call.text),
    whole: call.seen === "whole",
  }));
}

/** Returns the files with most words. Rare words weigh more, names ten times as much. */
function bestFiles(turn: DemoTurn): string[] {
  const scores = new Map<string, number>();
  for (const { word, files } of wordCounts(turn)) {
    const weight = (isName(word) ? 10 : 1) / files.size;
    for (const path of files.keys()) {
      if (!/\block\b/.test(path)) scores.set(path, (scores.get(path) ?? 0) + weight);
    }
  }
  return [...scores].sort(([, a], [, b]) => b - a).map(([path]) => path).slice(0, MAX_FILES);
}

function foundInFiles(turn: DemoTurn): ReadonlyMap<string, readonly FoundLine[]> {
  const searches = turn.calls.filter((call) => call.tool === "search_files" && !isWordCount(call));
  return new Map(
    searches.map((call) => [pathOf(call), foundLines(call.text)] as const).filter(([, lines]) =>
      lines.length > 0
    ),
  );
}

/** Returns files at the top that describe a repository, for questions without matches. */
function readableFiles(turn: DemoTurn): string[] {
  const { files } = listedEntries(turn.calls.find(LIST_WORKSPACE.made)?.text ?? "");
  const telling = files.filter((path) =>
    /^(readme|deno\.json|package\.json|cargo\.toml|pyproject)/i.test(path)
  );
  return (telling.length > 0 ? telling : files).slice(0, MAX_FILES);
}

function countSentences(turn: DemoTurn): string {
  return wordCounts(turn).map(({ word, files, whole }) => {
    const lines = [...files.values()].reduce((sum, count) => sum + count, 0);
    if (lines === 0) return `"${word}" doesn't occur in the searched files.`;
    return `"${word}" occurs in ${whole ? "" : "at least "}${withNoun(lines, "line")} of ${
      withNoun(files.size, "file")
    }.`;
  }).join("\n");
}

function foundSentences(turn: DemoTurn): string[] {
  return [...foundInFiles(turn)].map(([path, lines]) => {
    const quotes = lines.slice(0, MAX_QUOTES).map(({ line, text }) => `- line ${line}: ${quote(text)}`);
    return [
      `${path}, the first ${Math.min(lines.length, MAX_QUOTES)} of ${withNoun(lines.length, "line")}:`,
      ...quotes,
    ].join(
      "\n",
    );
  });
}

function readSentences(turn: DemoTurn): string {
  return turn.calls.filter((call) => call.tool === "read_file").map((call) => {
    const read = readRange(call.text);
    if (call.seen === "none" || !read) return `${pathOf(call)} isn't visible.`;
    const start = read.lines.find((line) => line.trim() !== "") ?? "";
    return `I read lines ${read.from} to ${read.to} of ${read.total} of ${pathOf(call)}, which begin: ${
      quote(start)
    }`;
  }).join("\n");
}

function listingSentence(turn: DemoTurn): string {
  const listing = turn.calls.find(LIST_WORKSPACE.made);
  if (!listing || listing.seen === "none") return "I have no listing of the workspace.";
  const { folders, files } = listedEntries(listing.text);
  return `The workspace has ${withNoun(folders.length, "folder")} and ${
    withNoun(files.length, "file")
  } at the top level.`;
}

function quote(text: string): string {
  const line = text.trim();
  return `"${line.length > MAX_QUOTE_CHARS ? `${sliceText(line, 0, MAX_QUOTE_CHARS)}…` : line}"`;
}
