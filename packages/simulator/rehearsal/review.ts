import { countCall, inside, isCount, isSource } from "./packages.ts";
import { cleanPath, counted, pathOf, type RehearsalPlan } from "./plan.ts";
import { countedPaths, readRange } from "./results.ts";
import type { MadeCall, RehearsalTurn } from "./turn.ts";

/** Files that are read in one review. */
const MAX_FILES = 6;
/** Lines that are read of one file. */
const MAX_LINES = 300;

/**
 * `Review FOLDER`: read the longest files of a folder one after the other, note of each what it is as soon as it is
 * read, and answer with the notes.
 */
export const REVIEW: RehearsalPlan = {
  suits: (question) => folderOf(question) !== undefined,
  rules: [
    {
      says: "I look which files there are.",
      wants: (turn) => [countCall(folderOf(turn.question) ?? ".", turn)],
      made: isCount,
    },
    {
      says: (turn) => notes(turn).at(-1) ?? "I begin with the longest file.",
      wants: (turn) => {
        const read = new Set(turn.calls.filter(isRead).map(pathOf));
        const next = longestFiles(turn).find((path) => !read.has(path));
        return next === undefined ? [] : [{ tool: "read_file", args: { path: next, end_line: MAX_LINES } }];
      },
      made: () => false,
    },
  ],
  // It has noted what it needs.
  needs: () => false,
  answer: (turn) =>
    [`I reviewed ${counted(notes(turn).length, "file")} of ${folderOf(turn.question)}:`, ...notes(turn)].join(
      "\n",
    ),
};

/** A note of a review: a file, its lines, and what it declares first. */
export const NOTE: RegExp = /^- (\S+): (\d+) lines?; first declares: (.*)$/;

/** The first line in the text of a file, with or without the number of a search, that declares something. */
export function firstDeclaration(text: string): string | undefined {
  return /^(?:\d+:)?((?:export |pub(?:lic)? |def |class |func(?:tion)? |fn |const |interface |struct |type ).*)$/m
    .exec(text)?.[1]?.trim();
}

function folderOf(question: string): string | undefined {
  const folder = /\breview (?:the folder )?([\w.@/-]+)/i.exec(question)?.[1];
  return folder === undefined ? undefined : cleanPath(folder);
}

function longestFiles(turn: RehearsalTurn): string[] {
  return turn.calls.filter((call) => isCount(call) && call.seen !== "none").flatMap((call) =>
    [...countedPaths(call.text)].map(([path, lines]) => ({ path: inside(pathOf(call), path), lines }))
  ).filter(({ path }) => isSource(path)).sort((a, b) => b.lines - a.lines).slice(0, MAX_FILES).map((
    { path },
  ) => path);
}

function isRead(call: MadeCall): boolean {
  return call.tool === "read_file";
}

/** One note for each file that was read: by its text, or as it was noted while that was there. */
function notes({ calls, said }: RehearsalTurn): string[] {
  return calls.filter(isRead).map((call) => {
    const path = pathOf(call);
    const total = call.seen === "none" ? undefined : readRange(call.text)?.total;
    if (total !== undefined) {
      return `- ${path}: ${counted(total, "line")}; first declares: ${
        firstDeclaration(call.text) ?? "nothing"
      }`;
    }
    const lines = said.flatMap((text) => text.split("\n"));
    return lines.findLast((line) => line.startsWith(`- ${path}: `)) ??
      `- ${path}: I no longer see what it held`;
  });
}
