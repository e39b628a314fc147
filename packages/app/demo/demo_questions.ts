import { workspaceTools } from "@tare/loop/tools";

/** Most folders that are reviewed. */
const MAX_FOLDERS = 10;
const SOURCES = "*.{c,cc,cpp,cs,go,h,hpp,java,js,jsx,kt,mjs,php,py,rb,rs,scala,sh,swift,ts,tsx,vue,zig}";

/**
 * The questions of a long session about a workspace: reviews of its largest folders, and at the end one that looks back
 * to what was said and read in the first of them.
 *
 * @throws {RangeError} if there is too little source code to ask about.
 */
export async function demoQuestions(workspace: string): Promise<readonly string[]> {
  const search = workspaceTools({ workspace }).find(({ definition }) =>
    definition.function.name === "search_files"
  );
  const { signal } = new AbortController();
  const args = { pattern: "^", output: "count", glob: SOURCES, max_results: 2000 };
  const output = await search!.run(args, { signal, progress() {} });
  const folders = new Map<string, { path: string; lines: number }[]>();
  for (const [, path = "", lines] of (typeof output === "string" ? output : "").matchAll(/^(\S+):(\d+)$/gm)) {
    const folder = path.split("/").slice(0, -1).slice(0, 2).join("/") || ".";
    folders.set(folder, [...folders.get(folder) ?? [], { path, lines: Number(lines) }]);
  }
  const largest = [...folders].map(([folder, files]) => ({
    folder,
    files: files.sort((a, b) => b.lines - a.lines),
    lines: files.reduce((sum, { lines }) => sum + lines, 0),
  })).sort((a, b) => b.lines - a.lines).slice(0, MAX_FOLDERS);
  const [first, second = first] = largest;
  if (!first || !second) {
    throw new RangeError(
      `Cannot play the demonstration: ${workspace} holds no source code that the model could read; --workspace names another folder.`,
    );
  }
  return [
    ...largest.map(({ folder }, at) =>
      `${at === 0 ? "Remember the word persimmon: I will ask for it. " : ""}Review ${folder} file by file.`
    ),
    `Look back: which word did I ask you to keep, and what do \`${first.files[0]!.path}\` and ` +
    `\`${second.files[0]!.path}\` declare first? And how much have you reviewed?`,
  ];
}
