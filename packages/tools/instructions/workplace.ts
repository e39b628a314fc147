import { dirname, join, resolve } from "@std/path";
import type { Tool } from "@tare/messages";
import { readdirSync, readFileSync, realpathSync, type Stats, statSync } from "node:fs";
import { arch, platform } from "node:process";
import { isDenied, isMissing, systemCode } from "../define_tool.ts";
import { byteLength, sliceText } from "../result_text.ts";
import { realpath } from "node:fs/promises";
import { isWithin, openAt } from "../files/resolve_in_workspace.ts";

/** Files with instructions for agents: of each folder the first one that is there counts. */
const NAMES = ["AGENTS.md", "CLAUDE.md", join(".github", "copilot-instructions.md")];

/** The same of the person, in the home folder. */
const OWN_NAMES = ".config/tare/AGENTS.md .claude/CLAUDE.md .codex/AGENTS.md".split(" ");

/** So much of all files together is told, in bytes. */
const MOST_OF_ALL = 64 * 1024;

/** So many skills are named, with so long a description each, and so much is told of all together, in characters. */
const MOST_SKILLS = 100;
const MOST_OF_A_SKILL = 300;
const MOST_OF_SKILLS = 8 * 1024;

/** So many changed files are named. */
const MOST_CHANGED = 20;

/** How long git may take to say what has changed, in milliseconds. */
const GIT_MS = 1_000;

/** Where skills lie, in a project or a home folder. */
const SKILL_FOLDERS = ".agents/skills .claude/skills".split(" ");

const OWN_SKILLS = [".config/tare/skills", ...SKILL_FOLDERS];

/** Where stands what sessions are told of their workplace. Plain data, as one process finds it and another one reads there. */
export interface InstructionPlaces {
  /** The workspace, without links. */
  readonly workspace: string;
  /** The folders whose files count, the outermost first; the last one is the workspace. */
  readonly folders: readonly string[];
  /** The person's own files, of which the first one that is there counts. */
  readonly own: readonly string[];
  /** The folders of the person's own skills. */
  readonly skills: readonly string[];
  /** The file that says which branch is checked out. Absent outside of a repository. */
  readonly head?: string;
}

/** Finds the folders up to the repository's top or the home folder, as long as the owner is the same. */
export function findPlaces(workspace: string, home?: string): InstructionPlaces {
  const top = realPath(workspace);
  const { uid } = statSync(top);
  const folders: string[] = [];
  const inHome = (names: readonly string[]) =>
    home === undefined ? [] : names.map((name) => join(home, name));
  const mine = { own: inHome(OWN_NAMES), skills: inHome(OWN_SKILLS) };
  const until = home === undefined ? undefined : realPath(home);
  for (let folder = top;; folder = dirname(folder)) {
    const info = infoOf(folder);
    if (!info || info.uid !== uid) break;
    folders.unshift(folder);
    const head = headIn(folder);
    if (head !== undefined) return { workspace: top, folders, ...mine, head };
    if (folder === until) return { workspace: top, folders, ...mine };
    if (dirname(folder) === folder) break;
  }
  return { workspace: top, folders: [top], ...mine };
}

/** Where a folder's skills lie. */
function skillsIn(folder: string): readonly string[] {
  return SKILL_FOLDERS.map((name) => join(folder, name));
}

/** The folders of skills that are there now outside of the workspace: the person's own, and those of the folders around it. */
export function skillsOutside({ folders, skills, workspace }: InstructionPlaces): readonly string[] {
  return [...skills, ...folders.filter((folder) => folder !== workspace).flatMap(skillsIn)]
    .filter((folder) => infoOf(folder)?.isDirectory());
}

/** All files and folders that are looked at, and where those lead that are links which are followed. */
export function filesOf(places: InstructionPlaces): readonly string[] {
  const { folders, own, head } = places;
  const skills = skillsOutside(places);
  const files = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  const followed = files.map(realPath).filter((path) => isFollowed(path, folders[0]!));
  return [
    ...new Set([
      ...[...files, ...followed, ...own, ...own.map(realPath), ...head === undefined ? [] : [head]],
      ...[...skills, ...skills.map(realPath)],
    ]),
  ];
}

/** The file that holds a repository's branch, if its top is here. In a worktree `.git` is a file that names its folder. */
function headIn(folder: string): string | undefined {
  const git = join(folder, ".git");
  const info = infoOf(git);
  if (!info) return undefined;
  if (info.isDirectory()) return infoOf(join(git, "HEAD")) && join(git, "HEAD");
  const [, elsewhere] = /^gitdir: (.+)$/m.exec(readFileSync(git, "utf8")) ?? [];
  return elsewhere === undefined ? undefined : join(resolve(folder, elsewhere), "HEAD");
}

function infoOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch (error) {
    if (isDenied(error) || isMissing(error) || systemCode(error) === "EACCES") {
      return undefined;
    }
    throw error;
  }
}

/** Description of a workspace, in parts. */
export interface ToldWorkplace {
  /** The files of instructions, the person's first, then from the outermost folder to the workspace. */
  readonly files: readonly ToldFile[];
  /** The folders of skills, with what each skill is for, in the same order. */
  readonly skills: readonly ToldFile[];
  /** Folder, system, date and git. */
  readonly where: string;
}

/** A file of a description. */
export interface ToldFile {
  readonly path: string;
  readonly text: string;
}

/** Where and how what is told is found. */
export interface WorkplaceOptions {
  readonly places: InstructionPlaces;
  /** A folder whose files are never told, without links. */
  readonly hidden: string;
  /** Sandboxed `shell` for `git status`: a repository may configure what git runs. Default: only the branch. */
  readonly shell?: Tool | undefined;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
}

/** The description of a workspace that sessions receive. */
export interface WorkspaceDescription {
  /** Resolves to the text after a new session's instructions. */
  readonly describe: () => Promise<string>;
  /** Resolves to what has changed since these system messages; nothing if nothing has. */
  readonly changes: (told: readonly string[]) => Promise<string | undefined>;
}

/** Returns the workplace as sessions receive it when they are made, and what changes in the files later. */
export function workplaceOf(options: WorkplaceOptions): WorkspaceDescription {
  return {
    describe: async () => workplaceText(await lookAround(options)),
    async changes(told) {
      // Who wasn't told of it at first isn't told what changes.
      if (!told[0]?.includes(WHERE)) return undefined;
      const [files, skills] = await Promise.all([readFiles(options), readSkills(options)]);
      const now = new Map([...files, ...skills].map(({ text }) => [text.match(OPENING)![0], text]));
      const known = told.flatMap((text) => [...text.matchAll(OPENING)].map(([begin]) => begin));
      for (const begin of known) if (!now.has(begin)) now.set(begin, `${begin} gone="it counts no more"/>`);
      const changed = [...now].filter(([begin, text]) =>
        !told.findLast((before) => before.includes(begin))?.includes(text)
      );
      return changed.length === 0 ? undefined : [CHANGED, ...changed.map(([, text]) => text)].join("\n\n");
    },
  };
}

/** Returns a description as one text. */
export function workplaceText({ files, skills, where }: ToldWorkplace): string {
  return [
    ...files.length > 0 ? [FILES, ...files.map(({ text }) => text)] : [],
    ...skills.length > 0 ? [SKILLS, ...skills.map(({ text }) => text)] : [],
    where,
  ].join("\n\n");
}

const FILES = "# Files of instructions\n\n" +
  "They were written for agents that work here. Follow them in your work: the user comes before them, and of two that " +
  "contradict each other the later one counts.";

const SKILLS = "# Skills\n\n" +
  "Each is a folder of instructions for one kind of work. Before you do such work read its SKILL.md, and by that what " +
  "else lies there: with read_skill where it lies outside of the workspace.";

const WHERE = "# Where you work\n\n- Folder: ";

const CHANGED =
  "Files of instructions have changed. From now on this counts in place of what you were told of them:";

/** Describes a workspace as it is now. */
export async function lookAround(options: WorkplaceOptions): Promise<ToldWorkplace> {
  const { places: { workspace }, now = Date.now } = options;
  const [files, skills, git] = await Promise.all([
    readFiles(options),
    readSkills(options),
    gitState(options),
  ]);
  const where = [
    `${WHERE}${workspace}`,
    `- System: ${platform}, ${arch}`,
    // As the person's calendar has it; this language writes year, month and day.
    `- Date when this session began: ${new Date(now()).toLocaleDateString("sv")}`,
    `- Git when it began: ${git}`,
  ].join("\n");
  return { files, skills, where };
}

async function readFiles(
  { places: { folders, own }, hidden }: Pick<WorkplaceOptions, "places" | "hidden">,
): Promise<readonly ToldFile[]> {
  const lists = [own, ...folders.map((folder) => NAMES.map((name) => join(folder, name)))];
  const within = folders[0];
  const found = await Promise.all(lists.map(async (paths) => {
    for (const path of paths) {
      const file = await readFound(path, paths === own ? {} : { within, hidden });
      if (file) return { path, file };
    }
    return undefined;
  }));
  let room = MOST_OF_ALL;
  const told: ToldFile[] = [];
  // What is nearest has room first.
  for (const one of found.reverse()) {
    if (!one) continue;
    const text = tell(one.path, one.file, room);
    if ("bytes" in one.file) room = Math.max(0, room - one.file.bytes.length);
    told.unshift({ path: one.path, text });
  }
  return told;
}

async function readSkills(
  { places: { folders, skills }, hidden }: Pick<WorkplaceOptions, "places" | "hidden">,
): Promise<readonly ToldFile[]> {
  return await listSkills([
    ...skills.map((folder) => ({ folder })),
    ...folders.flatMap(skillsIn).map((folder) => ({ folder, within: folders[0], hidden })),
  ]);
}

interface SkillFolder {
  readonly folder: string;
  /** Where links of a project may lead; absent for the person's own. */
  readonly within?: string | undefined;
  readonly hidden?: string | undefined;
}

/** What each skill of these folders is for, a text for each folder that has some. What stands last has room first. */
async function listSkills(
  folders: readonly SkillFolder[],
): Promise<readonly ToldFile[]> {
  const found = await Promise.all(folders.map(async (one) => ({ ...one, lines: await linesOf(one) })));
  let room = MOST_OF_SKILLS;
  const told: ToldFile[] = [];
  for (const { folder, lines } of found.reverse()) {
    if (lines.length === 0) continue;
    const named: string[] = [];
    for (const line of lines.slice(0, MOST_SKILLS)) {
      if (line.length > room) break;
      room -= line.length;
      named.push(line);
    }
    const more = lines.length - named.length;
    const path = JSON.stringify(folder);
    const cut = more > 0 ? ` cut="${more} more aren't named"` : "";
    told.unshift({ path: folder, text: [`<skills path=${path}${cut}>`, ...named, "</skills>"].join("\n") });
  }
  return told;
}

async function linesOf({ folder, within, hidden }: SkillFolder): Promise<readonly string[]> {
  const lines = await Promise.all(
    namesIn(folder).map(async (name) => {
      const file = await readFound(join(folder, name, "SKILL.md"), { within, hidden });
      if (!file) return [];
      if ("why" in file) return [`- ${oneLine(name)}: not read, because ${file.why}`];
      const { fields } = await readFrontMatter(new TextDecoder().decode(file.bytes));
      return [`- ${oneLine(name)}: ${oneLine(fields.description ?? fields.name ?? "")}`];
    }),
  );
  return lines.flat();
}

/** The names in a folder, if it can be looked into. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    // Most folders have none; and where the server may not look, it has none.
    return [];
  }
}

/** It stays in its line, and can't end the part that it stands in. */
function oneLine(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ").replaceAll("<", "&lt;");
  return line.length <= MOST_OF_A_SKILL ? line : `${sliceText(line, 0, MOST_OF_A_SKILL - 1)}…`;
}

function opening(path: string): string {
  return `<file path=${JSON.stringify(path)}`;
}

/** How each file and each folder of skills begins that is told; its path is JSON. */
const OPENING = /^<(?:file|skills) path="(?:[^"\\]|\\.)*"/gm;

function tell(path: string, file: FoundFile, room: number): string {
  if ("why" in file) return `${opening(path)} unread=${JSON.stringify(file.why)}/>`;
  const { bytes, size } = file;
  const isCut = size > bytes.length || size > room;
  const shown = bytes.subarray(0, room);
  // A letter that is cut in two isn't shown.
  const whole = new TextDecoder().decode(shown, { stream: isCut });
  const text = isCut && whole.includes("\n") ? whole.slice(0, whole.lastIndexOf("\n")) : whole;
  const note = isCut ? ` cut="only its first ${byteLength(text)} of ${size} bytes are shown"` : "";
  // It can't end its own part, nor begin another one.
  const held = text.trim().replace(/<(?=\/?(?:file|skills)\b)/g, "&lt;");
  return `${opening(path)}${note}>\n${held}\n</file>`;
}

/** Which branch is checked out, and what has changed as far as that may be asked. */
async function gitState({ places: { head, workspace }, shell }: WorkplaceOptions): Promise<string> {
  if (head === undefined) return "no repository";
  // A sandbox shows no repository above the workspace.
  const status = head === join(workspace, ".git", "HEAD") ? await gitStatus(shell) : undefined;
  return status ?? await checkedOut(head);
}

async function checkedOut(head: string): Promise<string> {
  const found = await readFound(head, {});
  const text = found && "bytes" in found ? new TextDecoder().decode(found.bytes).trim() : "";
  const [, branch, commit] = /^(?:ref: refs\/heads\/(\S+)|([0-9a-f]{12})[0-9a-f]*)$/.exec(text) ?? [];
  if (branch !== undefined) return `branch ${branch}`;
  return commit === undefined ? "not known, as its HEAD can't be read" : `no branch, at ${commit}`;
}

/** What `git status` says; nothing if it can't be asked or takes too long. */
async function gitStatus(shell: Tool | undefined): Promise<string | undefined> {
  if (!shell) return undefined;
  const command = "git --no-optional-locks status --porcelain --branch 2>/dev/null | " +
    `head -n ${MOST_CHANGED + 2}`;
  const { signal } = new AbortController();
  const output = await shell.run({ command, timeout_ms: GIT_MS }, { signal, progress() {} });
  const [, branch, ...lines] = (typeof output === "string" ? output : output.content).trimEnd().split("\n");
  if (!branch?.startsWith("## ")) return undefined;
  const more = lines.length > MOST_CHANGED ? ", and more" : "";
  const changed = lines.length === 0
    ? "nothing has changed"
    : `changed since the last commit: ${
      lines.slice(0, MOST_CHANGED).map((line) => `${line.slice(0, 2).trim()} ${line.slice(3)}`).join(", ")
    }${more}`;
  return `${branch.slice(3)}; ${changed}`;
}

/** So much of a file is read, in bytes. */
const MOST_OF_A_FILE = 32 * 1024;

/** A file in full, its beginning, or why it isn't. */
export type FoundFile = { readonly bytes: Uint8Array; readonly size: number } | { readonly why: string };

/** Reads the beginning of a file. The user's links are followed; a project's only to its own Markdown files. */
export async function readFound(
  path: string,
  { within, hidden }: { readonly within?: string | undefined; readonly hidden?: string | undefined },
): Promise<FoundFile | undefined> {
  try {
    const real = await realpath(path);
    if (within !== undefined && real !== path) {
      const isTold = isFollowed(real, within) && (hidden === undefined || !isWithin(real, hidden));
      if (!isTold) return { why: "it is a link to what isn't a Markdown file of this project" };
    }
    const file = await openAt(real);
    try {
      const info = await file.stat();
      if (!info.isFile()) return { why: "it isn't a file" };
      return { bytes: await readBeginning(file, MOST_OF_A_FILE), size: info.size };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return undefined;
    return { why: isDenied(error) ? UNKNOWN_AT_START : (error as Error).message };
  }
}

const UNKNOWN_AT_START = "it leads to where the server couldn't know at its start that it would have to read";

async function readBeginning(
  file: Awaited<ReturnType<typeof openAt>>,
  most: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(most);
  let length = 0;
  while (length < most) {
    const { bytesRead } = await file.read(bytes, length, most - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return bytes.subarray(0, length);
}

/** Whether a link of the project may lead there. */
function isFollowed(path: string, within: string): boolean {
  return isWithin(path, within) && /\.md$/i.test(path);
}

/** A Markdown file in two parts. */
export interface FrontMatter {
  /** What its head says, as far as that is text. */
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
}

const HEAD = /^\uFEFF?---[ \t]*\r?\n((?:[^\n]*\n)*?)---[ \t]*(?:\r?\n|$)/;

/** Parts a file from the YAML between two lines of `---` in front of it, if there is some. */
export async function readFrontMatter(text: string): Promise<FrontMatter> {
  const [head, yaml = ""] = HEAD.exec(text) ?? [];
  if (head === undefined) return { fields: {}, body: text };
  return { fields: await fieldsOf(yaml), body: text.slice(head.length) };
}

async function fieldsOf(yaml: string): Promise<Readonly<Record<string, string>>> {
  // Most folders have no such file.
  const { parse } = await import("yaml");
  try {
    const fields: unknown = parse(yaml, { maxAliasCount: 0, logLevel: "error" });
    const isMap = typeof fields === "object" && fields !== null && !Array.isArray(fields);
    if (isMap) {
      return Object.fromEntries(
        Object.entries(fields).filter((field): field is [string, string] => typeof field[1] === "string"),
      );
    }
  } catch {
    // Descriptions hold colons, which people don't quote and YAML doesn't take: the next line does.
  }
  return Object.fromEntries(
    [...yaml.matchAll(/^(\w[\w-]*):[ \t]*(\S.*?)[ \t]*\r?$/gm)].map(([, name, value]) => [name, value]),
  );
}

/** Returns the absolute path without symbolic links, or the resolved path if it doesn't exist or can't be read. */
export function realPath(path: string): string {
  try {
    return realpathSync(resolve(path));
  } catch (error) {
    // Its use reports why it can't be accessed.
    if (systemCode(error) === "ENOENT" || isDenied(error)) return resolve(path);
    throw error;
  }
}

/** Returns `read_skill`, which reads skills outside of the workspace; `undefined` if these folders have none. */
export function skillTool(folders: readonly string[]): Tool | undefined {
  const there = folders.filter((folder) => namesIn(folder).length > 0);
  if (there.length === 0) return undefined;
  return {
    definition: {
      type: "function",
      function: {
        name: "read_skill",
        description: "Reads a file of a skill that lies outside of the workspace.",
        parameters: {
          type: "object",
          properties: { path: { type: "string", description: "Whole path, such as that of its SKILL.md." } },
          required: ["path"],
          additionalProperties: false,
        },
      },
    },
    stance: "rederivable",
    reads: "path",
    async run({ path }) {
      const given = String(path);
      const isThere = there.some((folder) => isWithin(realPath(given), realPath(folder)));
      const file = isThere ? await readFound(given, {}) : undefined;
      if (!file || "why" in file) {
        const why = file?.why ?? (isThere ? "it does not exist" : `it lies in none of ${there.join(", ")}`);
        return { content: `Cannot read ${given}: ${why}.`, error: true };
      }
      const { bytes, size } = file;
      const isCut = bytes.length < size;
      const text = new TextDecoder().decode(bytes, { stream: isCut });
      return isCut ? `${text}\n[only its first ${bytes.length} of ${size} bytes]` : text;
    },
  };
}
