import { parsePlaceholder } from "@tare/prune/internal";
import { cleanPath, type DemoPlan, pathOf, withNoun } from "./plan.ts";
import { countedPaths, readRange } from "./results.ts";
import { type DemoTurn, type MadeCall, RECALL, type WantedCall } from "./turn.ts";

const CODE_ENDINGS =
  "c,cc,cpp,cs,css,dart,ex,exs,go,h,hpp,hs,html,java,js,jsx,kt,lua,m,mjs,cjs,ml,php,pl,ps1,py,rb,rs,scala,sh,sql,svelte,swift,ts,tsx,mts,cts,vue,zig";

export function countCall(path: string, turn: DemoTurn): WantedCall {
  return {
    tool: "search_files",
    args: {
      pattern: "^",
      path,
      output: "count",
      ...(turn.offers("search_files", "glob") && { glob: `*.{${CODE_ENDINGS}}` }),
      ...(turn.offers("search_files", "max_results") && { max_results: 2000 }),
    },
  };
}

export function isCount(call: MadeCall): boolean {
  return call.tool === "search_files" && call.args.pattern === "^" && call.args.output === "count";
}

export function isSource(path: string): boolean {
  return CODE_ENDINGS.split(",").includes(path.split(".").at(-1) ?? "");
}

/** Returns a path relative to the workspace from one relative to it or to `folder`. */
export function inside(folder: string, path: string): string {
  return folder === "." || path.startsWith(`${folder}/`) ? cleanPath(path) : `${folder}/${cleanPath(path)}`;
}

const MAX_FILES = 6;
const MAX_LINES = 300;

/** `Review FOLDER`: reads the longest files one after the other, notes each, and answers with the notes. */
export const REVIEW: DemoPlan = {
  suits: (question) => folderOf(question) !== undefined,
  rules: [
    {
      text: "I list the source files.",
      wants: (turn) => [countCall(folderOf(turn.question) ?? ".", turn)],
      made: isCount,
    },
    {
      text: (turn) => notes(turn).at(-1) ?? "I start with the longest file.",
      wants: (turn) => {
        const read = new Set(turn.calls.filter(isRead).map(pathOf));
        const next = longestFiles(turn).find((path) => !read.has(path));
        return next === undefined ? [] : [{ tool: "read_file", args: { path: next, end_line: MAX_LINES } }];
      },
      made: () => false,
    },
  ],
  needs: isCount,
  answer: (turn) =>
    [`I reviewed ${withNoun(notes(turn).length, "file")} of ${folderOf(turn.question)}:`, ...notes(turn)]
      .join(
        "\n",
      ),
};

const NOTE: RegExp = /^- (\S+): (\d+) lines?; first declares: (.*)$/;

function firstDeclaration(text: string): string | undefined {
  return /^(?:\d+:)?((?:export |pub(?:lic)? |def |class |func(?:tion)? |fn |const |interface |struct |type ).*)$/m
    .exec(text)?.[1]?.trim();
}

function folderOf(question: string): string | undefined {
  const folder = /\breview (?:the folder )?([\w.@/-]*[\w@/-]|\.)/i.exec(question)?.[1];
  return folder === undefined ? undefined : cleanPath(folder);
}

function longestFiles(turn: DemoTurn): string[] {
  return turn.calls.filter((call) => isCount(call) && call.seen !== "none").flatMap((call) =>
    [...countedPaths(call.text)].map(([path, lines]) => ({ path: inside(pathOf(call), path), lines }))
  ).filter(({ path }) => isSource(path)).sort((a, b) => b.lines - a.lines).slice(0, MAX_FILES).map((
    { path },
  ) => path);
}

function isRead(call: MadeCall): boolean {
  return call.tool === "read_file";
}

/** Returns a note per read file: from its text, or the earlier note if the text was evicted. */
function notes({ calls, texts }: DemoTurn): string[] {
  return calls.filter(isRead).map((call) => {
    const path = pathOf(call);
    const total = call.seen === "none" ? undefined : readRange(call.text)?.total;
    if (total !== undefined) {
      return `- ${path}: ${withNoun(total, "line")}; first declares: ${
        firstDeclaration(call.text) ?? "nothing"
      }`;
    }
    const lines = texts.flatMap((text) => text.split("\n"));
    return lines.findLast((line) => line.startsWith(`- ${path}: `)) ??
      `- ${path}: its content is no longer visible`;
  });
}

/** Lines after a call that are recalled with it. */
const LINES_BEHIND = 120;
const WORD = /remember the word (\w+)/i;

/** `Look back: …`: reports the remembered word, first declarations and review totals from the prompt or by recalls. */
export const LOOK_BACK: DemoPlan = {
  suits: (question) => /^look back\b/im.test(question),
  rules: [{
    text: "I recall content that is no longer visible.",
    wants: (turn) => {
      const recalled = new Set(recalls(turn).map(({ args }) => JSON.stringify(args)));
      return missing(turn).filter(({ args }) => !recalled.has(JSON.stringify(args)));
    },
    made: () => false,
  }],
  needs: () => false,
  from: "what is visible in this conversation or can be recalled",
  answer: (turn) => {
    const word = rememberedWord(turn);
    const notes = reviewNotes(turn);
    const lines = [...notes.values()].reduce((sum, note) => sum + note, 0);
    return [
      word === undefined ? "The word to remember is no longer visible." : `The word is ${word}.`,
      ...namedFiles(turn).map((path) => {
        const declared = declaration(turn, path);
        return declared === undefined
          ? `The first declaration of ${path} is no longer visible.`
          : `${path} declares first: ${declared}`;
      }),
      `The reviews noted ${withNoun(notes.size, "file")} with ${withNoun(lines, "line")}.`,
    ].join("\n");
  },
};

/** Returns recalls of requested content that isn't visible, most direct first. */
function missing(turn: DemoTurn): WantedCall[] {
  const recall = (args: WantedCall["args"]): WantedCall => ({ tool: RECALL, args });
  const files = namedFiles(turn).filter((path) => declaration(turn, path) === undefined);
  const elided = files.flatMap((path) => {
    const { ref } = readingOf(turn, path) ?? {};
    return ref === undefined ? [] : [recall({ ref })];
  });
  const gone = files.filter((path) => readingOf(turn, path) === undefined);
  return [
    ...elided,
    ...evictedMessages(turn).flatMap(({ ref, answer }) => [
      ...(answer === undefined
        ? [
          ...(rememberedWord(turn) === undefined ? [recall({ ref, find: "remember the word" })] : []),
          recall({ ref, find: "; first declares: " }),
        ]
        : []),
      ...gone.filter((path) => answer?.includes(`- ${path}: `) ?? true)
        .map((path) => recall({ ref, find: placeOf(path) })),
    ]),
    // The text is after the call that a search found.
    ...recalls(turn).flatMap(({ args: { ref, find }, text }) => {
      const place = gone.map(placeOf).find((place) => place === find);
      const [line] = text.split("\n").find((line) => line.replace(/^\d+:/, "") === place)?.split(":") ?? [];
      return line === undefined ? [] : [recall({ ref, lines: `${line}-${Number(line) + LINES_BEHIND}` })];
    }),
  ];
}

function recalls({ calls }: DemoTurn): MadeCall[] {
  return calls.filter(({ tool }) => tool === RECALL);
}

function seenTexts(turn: DemoTurn): string[] {
  return [...turn.texts, ...recalls(turn).filter(({ seen }) => seen !== "none").map(({ text }) => text)];
}

function rememberedWord(turn: DemoTurn): string | undefined {
  return seenTexts(turn).map((text) => WORD.exec(text)?.[1]).find((word) => word !== undefined);
}

function reviewNotes(turn: DemoTurn): ReadonlyMap<string, number> {
  const lines = seenTexts(turn).flatMap((text) => text.split("\n"));
  return new Map(lines.flatMap((line) => {
    const [, path, count] = NOTE.exec(line.replace(/^\d+:/, "")) ?? [];
    return path === undefined ? [] : [[path, Number(count)]];
  }));
}

function namedFiles({ question }: DemoTurn): string[] {
  return [...question.matchAll(/`([^`]+)`/g)].map(([, path]) => path!);
}

function readingOf({ earlier }: DemoTurn, path: string): MadeCall | undefined {
  return earlier.find((call) => call.tool === "read_file" && pathOf(call) === path);
}

function declaration(turn: DemoTurn, path: string): string | undefined {
  const reading = readingOf(turn, path);
  if (reading) return reading.seen === "none" ? undefined : firstDeclaration(reading.text);
  const found = recalls(turn).find(({ args: { lines }, text }) => lines && text.includes(`path: ${path}\n`));
  return found && firstDeclaration(found.text);
}

function placeOf(path: string): string {
  return `path: ${path}`;
}

/** Returns references to evicted messages, with the review after them if they are its steps. */
function evictedMessages(
  { texts }: DemoTurn,
): { readonly ref: string; readonly answer: string | undefined }[] {
  return texts.flatMap((text, at) => {
    const ref = text.split("\n").map(parsePlaceholder).find((line) => line?.of === "messages")?.ref;
    const next = texts[at + 1];
    return ref === undefined ? [] : [{ ref, answer: next?.includes("I reviewed ") ? next : undefined }];
  });
}
