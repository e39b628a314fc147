import { parsePlaceholder } from "@tare/prune/internal";
import { cleanPath, LIST_WORKSPACE, pathOf, type RehearsalPlan, withNoun } from "./plan.ts";
import { countedPaths, listedEntries, readRange } from "./results.ts";
import { type MadeCall, RECALL, type RehearsalTurn, type WantedCall } from "./turn.ts";

/** Folders whose subfolders are packages by convention. */
const CONTAINERS = ["packages", "crates", "apps", "libs", "modules", "plugins", "services"];

/** Files that name the packages of a repository. */
const MANIFESTS = [
  "deno.json",
  "deno.jsonc",
  "package.json",
  "pnpm-workspace.yaml",
  "Cargo.toml",
  "pyproject.toml",
];

const CODE_ENDINGS =
  "c,cc,cpp,cs,css,dart,ex,exs,go,h,hpp,hs,html,java,js,jsx,kt,lua,m,mjs,cjs,ml,php,pl,ps1,py,rb,rs,scala,sh,sql,svelte,swift,ts,tsx,mts,cts,vue,zig";

const MAX_PACKAGES = 40;
const MAX_CHECKED = 3;
const MAX_LISTED = 200;

/**
 * Which package has the most lines of code, and of which files it consists. Packages are those that the manifests
 * name; otherwise the subfolders of `packages/` and the like; otherwise the folders at the top.
 */
export const LARGEST_PACKAGE: RehearsalPlan = {
  suits: (question) =>
    /\b(package|crate|module|folder|director(y|ies)|workspace)/i.test(question) &&
    /\b(most|largest|biggest|how many)\b/i.test(question) &&
    /\b(lines?|code|largest|biggest)\b/i.test(question),
  rules: [
    LIST_WORKSPACE,
    {
      says: "I look where the packages are.",
      wants: (turn) => {
        const { folders, files } = topEntries(turn);
        return [
          ...MANIFESTS.filter((name) => files.includes(name)).map((path) => ({
            tool: "read_file",
            args: { path },
          })),
          ...CONTAINERS.filter((name) => folders.includes(name)).map((path) => ({
            tool: "list_files",
            args: { path },
          })),
        ];
      },
      made: (call) =>
        call.tool === "read_file" && MANIFESTS.includes(pathOf(call)) ||
        call.tool === "list_files" && CONTAINERS.includes(pathOf(call)),
    },
    {
      says: "I count the lines of each package.",
      wants: (turn) => namedPackages(turn).slice(0, MAX_PACKAGES).map((path) => countCall(path, turn)),
      made: isCount,
    },
    {
      says: "I open the longest files of the largest package, to check the counts.",
      wants: (turn) =>
        countedPackages(turn)[0]?.files.slice(0, MAX_CHECKED).map(({ path }) => ({
          tool: "read_file",
          args: { path, ...(turn.offers("read_file", "end_line") && { end_line: 20 }) },
        })) ?? [],
      made: (call) => call.tool === "read_file" && !MANIFESTS.includes(pathOf(call)),
    },
  ],
  needs: isCount,
  answer: (turn) => {
    const packages = countedPackages(turn);
    const [largest] = packages;
    if (!largest) return "I could not count the lines of any package with the tools and results that I have.";
    const missed = missedSentences(turn);
    return [
      `${missed && "As far as I saw: "}${largest.folder} is the package with the most lines of code, ` +
      `${withNoun(largest.lines, "line")} in ${withNoun(largest.files.length, "file")}.`,
      fileList(largest),
      `All that I counted: ${packages.map(({ folder, lines }) => `${folder} ${lines}`).join(", ")}.`,
      checkedSentence(turn, largest),
      "I counted every line of source files, told by the endings of their names, with tests, comments and empty lines.",
      missed,
    ].filter((paragraph) => paragraph !== "").join("\n\n");
  },
};

interface CountedPackage {
  readonly folder: string;
  readonly lines: number;
  readonly files: readonly { readonly path: string; readonly lines: number }[];
}

function topEntries(turn: RehearsalTurn) {
  return listedEntries(turn.calls.find(LIST_WORKSPACE.made)?.text ?? "");
}

/** Asks how many lines each source file of a folder has. */
export function countCall(path: string, turn: RehearsalTurn): WantedCall {
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

/** Whether a call came from {@linkcode countCall}. */
export function isCount(call: MadeCall): boolean {
  return call.tool === "search_files" && call.args.pattern === "^" && call.args.output === "count";
}

/** Folders of packages, as far as the results tell. */
function namedPackages(turn: RehearsalTurn): readonly string[] {
  const subfolders = (path: string): readonly string[] => {
    const listing = turn.calls.find((call) => call.tool === "list_files" && pathOf(call) === path);
    return listedEntries(listing?.text ?? "").folders.map((folder) => inside(path, folder));
  };
  const members = turn.calls
    .filter((call) => call.tool === "read_file" && MANIFESTS.includes(pathOf(call)))
    .flatMap((call) => manifestMembers(call.text))
    .flatMap((member) =>
      member.includes("*") ? subfolders(cleanPath(member.replace(/\*.*$/, ""))) : [member]
    );
  const found = [...new Set(members)].filter((member) => member !== ".");
  if (found.length > 0) return found;
  const conventional = CONTAINERS.flatMap(subfolders);
  return conventional.length > 0 ? conventional : topEntries(turn).folders;
}

/** Folders that a manifest names as members of its workspace, with the `*` that they may end in. */
function manifestMembers(text: string): string[] {
  const list =
    /["']?\b(?:workspaces?|members|packages)["']?\s*[:=]\s*(?:\{\s*["']?(?:members|packages)["']?\s*:\s*)?(?:\[([^\]]*)\]|((?:\n\s*-.*)+))/
      .exec(text);
  const items = (list?.[1] ?? list?.[2] ?? "").matchAll(/["']([^"'\n]+)["']|^\s*-\s*([^\s"'#]+)/gm);
  return [...items]
    .map(([, quoted, plain = ""]) => cleanPath(quoted ?? plain))
    .filter((path) => path !== "" && !path.startsWith("!"));
}

/** The packages whose lines were counted, the largest first. */
function countedPackages(turn: RehearsalTurn): CountedPackage[] {
  return turn.calls.filter((call) => isCount(call) && call.seen !== "none").map((call) => {
    const folder = pathOf(call);
    const files = [...countedPaths(call.text)]
      .filter(([path]) => isSource(path))
      .map(([path, lines]) => ({ path: inside(folder, path), lines }))
      .sort((a, b) => b.lines - a.lines);
    return { folder, files, lines: files.reduce((sum, file) => sum + file.lines, 0) };
  }).filter(({ files }) => files.length > 0).sort((a, b) => b.lines - a.lines);
}

/** Whether a file's name ends as those of source files do. */
export function isSource(path: string): boolean {
  return CODE_ENDINGS.split(",").includes(path.split(".").at(-1) ?? "");
}

/** The path from the workspace of what a tool names either so or from the folder that it was asked about. */
export function inside(folder: string, path: string): string {
  return folder === "." || path.startsWith(`${folder}/`) ? cleanPath(path) : `${folder}/${cleanPath(path)}`;
}

function fileList({ files }: CountedPackage): string {
  const listed = files.slice(0, MAX_LISTED).map(({ path, lines }) => `- ${path}: ${withNoun(lines, "line")}`);
  const others = files.length - listed.length;
  return ["Its files:", ...listed, ...(others > 0 ? [`- and ${withNoun(others, "shorter file")}`] : [])].join(
    "\n",
  );
}

function checkedSentence(turn: RehearsalTurn, { files }: CountedPackage): string {
  const opened = turn.calls.flatMap((call) => {
    const total = call.tool === "read_file" ? readRange(call.text)?.total : undefined;
    const file = files.find(({ path }) => path === pathOf(call));
    return total === undefined || !file ? [] : [{ ...file, total }];
  });
  if (opened.length === 0) return "";
  const different = opened.filter(({ lines, total }) => lines !== total);
  return different.length === 0
    ? `I opened ${opened.length} of them; their lengths agree with the count.`
    : different.map(({ path, total }) => `${path} says that it has ${withNoun(total, "line")}.`).join(" ");
}

/** What the answer leaves out, because it wasn't counted or the count can't be seen. */
function missedSentences(turn: RehearsalTurn): string {
  const uncounted = namedPackages(turn).length - MAX_PACKAGES;
  return [
    ...(uncounted > 0
      ? [`I counted only the first ${MAX_PACKAGES} packages; there are ${uncounted} more.`]
      : []),
    ...turn.calls.filter((call) => isCount(call) && call.seen !== "whole")
      .map((call) =>
        `Of the count of ${pathOf(call)} I saw ${call.seen === "none" ? "nothing" : "only a part"}.`
      ),
  ].join("\n");
}

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
  // Of the files it has noted what it needs.
  needs: isCount,
  answer: (turn) =>
    [`I reviewed ${withNoun(notes(turn).length, "file")} of ${folderOf(turn.question)}:`, ...notes(turn)]
      .join(
        "\n",
      ),
};

/** A note of a review: a file, its lines, and what it declares first. */
const NOTE: RegExp = /^- (\S+): (\d+) lines?; first declares: (.*)$/;

/** The first line in the text of a file, with or without the number of a search, that declares something. */
function firstDeclaration(text: string): string | undefined {
  return /^(?:\d+:)?((?:export |pub(?:lic)? |def |class |func(?:tion)? |fn |const |interface |struct |type ).*)$/m
    .exec(text)?.[1]?.trim();
}

function folderOf(question: string): string | undefined {
  const folder = /\breview (?:the folder )?([\w.@/-]*[\w@/-]|\.)/i.exec(question)?.[1];
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
      return `- ${path}: ${withNoun(total, "line")}; first declares: ${
        firstDeclaration(call.text) ?? "nothing"
      }`;
    }
    const lines = said.flatMap((text) => text.split("\n"));
    return lines.findLast((line) => line.startsWith(`- ${path}: `)) ??
      `- ${path}: I no longer see what it held`;
  });
}

/** What is asked of a text that was read: so many lines behind the call that read it. */
const LINES_BEHIND = 120;
const WORD = /remember the word (\w+)/i;

/**
 * `Look back: …`: say without reading anything again what the session was about: the word that was to be remembered,
 * what the files declare first that are named between backticks, and what the reviews came to. What the prompt no longer
 * shows is recalled; what can't be recalled is missing in the answer.
 */
export const LOOK_BACK: RehearsalPlan = {
  suits: (question) => /^look back\b/im.test(question),
  rules: [{
    says: "I recall what is no longer here.",
    wants: (turn) => {
      const asked = new Set(recalls(turn).map(({ args }) => JSON.stringify(args)));
      return missing(turn).filter(({ args }) => !asked.has(JSON.stringify(args)));
    },
    made: () => false,
  }],
  needs: () => false,
  from: "what this conversation still shows or gives back",
  answer: (turn) => {
    const word = rememberedWord(turn);
    const notes = reviewNotes(turn);
    const lines = [...notes.values()].reduce((sum, note) => sum + note, 0);
    return [
      word === undefined ? "I no longer see which word I was to remember." : `The word is ${word}.`,
      ...namedFiles(turn).map((path) => {
        const declared = declaration(turn, path);
        return declared === undefined
          ? `I no longer see what ${path} declares first.`
          : `${path} declares first: ${declared}`;
      }),
      `The reviews noted ${withNoun(notes.size, "file")} with ${withNoun(lines, "line")}.`,
    ].join("\n");
  },
};

/** Calls for what is asked about and the prompt doesn't show, most direct first. */
function missing(turn: RehearsalTurn): WantedCall[] {
  const recall = (args: WantedCall["args"]): WantedCall => ({ tool: RECALL, args });
  const files = namedFiles(turn).filter((path) => declaration(turn, path) === undefined);
  const elided = files.flatMap((path) => {
    const { ref } = readingOf(turn, path) ?? {};
    return ref === undefined ? [] : [recall({ ref })];
  });
  const gone = files.filter((path) => readingOf(turn, path) === undefined);
  return [
    ...elided,
    ...leftMessages(turn).flatMap(({ ref, answer }) => [
      ...(answer === undefined
        ? [
          ...(rememberedWord(turn) === undefined ? [recall({ ref, find: "remember the word" })] : []),
          recall({ ref, find: "; first declares: " }),
        ]
        : []),
      ...gone.filter((path) => answer?.includes(`- ${path}: `) ?? true)
        .map((path) => recall({ ref, find: placeOf(path) })),
    ]),
    // Where a search found the call, the text stands behind it.
    ...recalls(turn).flatMap(({ args: { ref, find }, text }) => {
      const place = gone.map(placeOf).find((place) => place === find);
      const [line] = text.split("\n").find((line) => line.replace(/^\d+:/, "") === place)?.split(":") ?? [];
      return line === undefined ? [] : [recall({ ref, lines: `${line}-${Number(line) + LINES_BEHIND}` })];
    }),
  ];
}

function recalls({ calls }: RehearsalTurn): MadeCall[] {
  return calls.filter(({ tool }) => tool === RECALL);
}

/** Everything that the prompt shows of what was said, and what was recalled of it. */
function seenTexts(turn: RehearsalTurn): string[] {
  return [...turn.said, ...recalls(turn).filter(({ seen }) => seen !== "none").map(({ text }) => text)];
}

function rememberedWord(turn: RehearsalTurn): string | undefined {
  return seenTexts(turn).map((text) => WORD.exec(text)?.[1]).find((word) => word !== undefined);
}

/** The lines of each file that a review noted. */
function reviewNotes(turn: RehearsalTurn): ReadonlyMap<string, number> {
  const lines = seenTexts(turn).flatMap((text) => text.split("\n"));
  return new Map(lines.flatMap((line) => {
    const [, path, count] = NOTE.exec(line.replace(/^\d+:/, "")) ?? [];
    return path === undefined ? [] : [[path, Number(count)]];
  }));
}

function namedFiles({ question }: RehearsalTurn): string[] {
  return [...question.matchAll(/`([^`]+)`/g)].map(([, path]) => path!);
}

function readingOf({ earlier }: RehearsalTurn, path: string): MadeCall | undefined {
  return earlier.find((call) => call.tool === "read_file" && pathOf(call) === path);
}

function declaration(turn: RehearsalTurn, path: string): string | undefined {
  const reading = readingOf(turn, path);
  if (reading) return reading.seen === "none" ? undefined : firstDeclaration(reading.text);
  const found = recalls(turn).find(({ args: { lines }, text }) => lines && text.includes(`path: ${path}\n`));
  return found && firstDeclaration(found.text);
}

/** How a transcript shows the argument of the call that read a file. */
function placeOf(path: string): string {
  return `path: ${path}`;
}

/** The messages that left the prompt; with the review behind them, if they are the steps that led to it. */
function leftMessages(
  { said }: RehearsalTurn,
): { readonly ref: string; readonly answer: string | undefined }[] {
  return said.flatMap((text, at) => {
    const ref = text.split("\n").map(parsePlaceholder).find((line) => line?.of === "messages")?.ref;
    const next = said[at + 1];
    return ref === undefined ? [] : [{ ref, answer: next?.includes("I reviewed ") ? next : undefined }];
  });
}
