import { dirname, join, resolve } from "@std/path";
import type { Tool } from "@tare/messages";
import { readdirSync, readFileSync, realpathSync, type Stats, statSync } from "node:fs";
import { arch, platform } from "node:process";
import { isDenied, isMissing, systemCode } from "../define_tool.ts";
import { byteLength, sliceText } from "../result_text.ts";
import { realpath } from "node:fs/promises";
import { isWithin, openAt } from "../files/resolve_in_workspace.ts";

/** Instruction files: the first existing one of each folder is used. */
const NAMES = ["AGENTS.md", "CLAUDE.md", join(".github", "copilot-instructions.md")];

const OWN_NAMES = ".config/tare/AGENTS.md .claude/CLAUDE.md .codex/AGENTS.md".split(" ");

const MAX_OF_ALL = 64 * 1024;

/** Maximum of skills, of the length of a description, and of the total, in characters. */
const MAX_SKILLS = 100;
const MAX_OF_A_SKILL = 300;
const MAX_OF_SKILLS = 8 * 1024;

const MAX_CHANGED = 20;

const GIT_MS = 1_000;

const SKILL_FOLDERS = ".agents/skills .claude/skills".split(" ");

const OWN_SKILLS = [".config/tare/skills", ...SKILL_FOLDERS];

/** Locations of instructions. Plain data: one process finds them, another one reads them. */
export interface InstructionPlaces {
  readonly workspace: string;
  /** Folders with instructions, outermost first, ending with the workspace. */
  readonly folders: readonly string[];
  /** The user's own files; the first existing one is used. */
  readonly own: readonly string[];
  readonly skills: readonly string[];
  /** File that contains the current branch. Absent outside of a repository. */
  readonly head?: string;
}

/** Finds the folders up to the repository's top or the home folder that have the same owner. */
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

function skillsIn(folder: string): readonly string[] {
  return SKILL_FOLDERS.map((name) => join(folder, name));
}

/**
 * Returns the existing folders of skills outside of the workspace: the user's own, and those of parent
 * folders.
 */
export function skillsOutside({ folders, skills, workspace }: InstructionPlaces): readonly string[] {
  return [...skills, ...folders.filter((folder) => folder !== workspace).flatMap(skillsIn)]
    .filter((folder) => infoOf(folder)?.isDirectory());
}

/** Returns all files and folders that are read, and the targets of links that are followed. */
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
export interface DescribedEnvironment {
  /** Instruction files: the user's, then from the outermost folder to the workspace. */
  readonly files: readonly DescribedFile[];
  readonly skills: readonly DescribedFile[];
  readonly where: string;
}

/** File of a description. */
export interface DescribedFile {
  readonly path: string;
  readonly text: string;
}

/** Options of {@linkcode environmentDescription}. */
export interface EnvironmentOptions {
  readonly places: InstructionPlaces;
  readonly hidden: string;
  /**
   * Sandboxed `shell` for `git status`, because a repository may configure commands that git runs. Default:
   * only the branch.
   */
  readonly shell?: Tool | undefined;
  /** Clock, in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
}

/** Description of a workspace for sessions. */
export interface WorkspaceDescription {
  readonly describe: () => Promise<string>;
  /** Resolves to the changes since these system messages; `undefined` if there are none. */
  readonly changes: (described: readonly string[]) => Promise<string | undefined>;
}

/** Returns the description of a workspace for new sessions, and of later changes of its files. */
export function environmentDescription(options: EnvironmentOptions): WorkspaceDescription {
  return {
    describe: async () => environmentText(await inspectEnvironment(options)),
    async changes(described) {
      if (!described[0]?.includes(WHERE)) return undefined;
      const [files, skills] = await Promise.all([readFiles(options), readSkills(options)]);
      const now = new Map([...files, ...skills].map(({ text }) => [text.match(OPENING)![0], text]));
      const known = described.flatMap((text) => [...text.matchAll(OPENING)].map(([begin]) => begin));
      for (const begin of known) {
        if (!now.has(begin)) now.set(begin, `${begin} removed="it no longer applies"/>`);
      }
      const changed = [...now].filter(([begin, text]) =>
        !described.findLast((before) => before.includes(begin))?.includes(text)
      );
      return changed.length === 0 ? undefined : [CHANGED, ...changed.map(([, text]) => text)].join("\n\n");
    },
  };
}

/** Returns a description as one text. */
export function environmentText({ files, skills, where }: DescribedEnvironment): string {
  return [
    ...files.length > 0 ? [FILES, ...files.map(({ text }) => text)] : [],
    ...skills.length > 0 ? [SKILLS, ...skills.map(({ text }) => text)] : [],
    where,
  ].join("\n\n");
}

const FILES = "# Instruction files\n\n" +
  "They were written for agents that work here. Follow them: the user takes precedence over them, and later files " +
  "over earlier ones.";

const SKILLS = "# Skills\n\n" +
  "Each is a folder of instructions for one kind of task. Before such a task, read its SKILL.md and the files that it " +
  "names: with read_skill if they are outside of the workspace.";

const WHERE = "# Environment\n\n- Folder: ";

const CHANGED = "Instruction files have changed. These versions replace the earlier ones:";

/** Returns the current description of a workspace. */
export async function inspectEnvironment(options: EnvironmentOptions): Promise<DescribedEnvironment> {
  const { places: { workspace }, now = Date.now } = options;
  const [files, skills, git] = await Promise.all([
    readFiles(options),
    readSkills(options),
    gitState(options),
  ]);
  const where = [
    `${WHERE}${workspace}`,
    `- System: ${platform}, ${arch}`,
    `- Date when this session began: ${new Date(now()).toLocaleDateString("sv")}`,
    `- Git when it began: ${git}`,
  ].join("\n");
  return { files, skills, where };
}

async function readFiles(
  { places: { folders, own }, hidden }: Pick<EnvironmentOptions, "places" | "hidden">,
): Promise<readonly DescribedFile[]> {
  const lists = [own, ...folders.map((folder) => NAMES.map((name) => join(folder, name)))];
  const within = folders[0];
  const found = await Promise.all(lists.map(async (paths) => {
    for (const path of paths) {
      const file = await readFound(path, paths === own ? {} : { within, hidden });
      if (file) return { path, file };
    }
    return undefined;
  }));
  let room = MAX_OF_ALL;
  const files: DescribedFile[] = [];
  for (const one of found.reverse()) {
    if (!one) continue;
    const text = fileElement(one.path, one.file, room);
    if ("bytes" in one.file) room = Math.max(0, room - one.file.bytes.length);
    files.unshift({ path: one.path, text });
  }
  return files;
}

async function readSkills(
  { places: { folders, skills }, hidden }: Pick<EnvironmentOptions, "places" | "hidden">,
): Promise<readonly DescribedFile[]> {
  return await listSkills([
    ...skills.map((folder) => ({ folder })),
    ...folders.flatMap(skillsIn).map((folder) => ({ folder, within: folders[0], hidden })),
  ]);
}

interface SkillFolder {
  readonly folder: string;
  readonly within?: string | undefined;
  readonly hidden?: string | undefined;
}

async function listSkills(
  folders: readonly SkillFolder[],
): Promise<readonly DescribedFile[]> {
  const found = await Promise.all(folders.map(async (one) => ({ ...one, lines: await linesOf(one) })));
  let room = MAX_OF_SKILLS;
  const files: DescribedFile[] = [];
  for (const { folder, lines } of found.reverse()) {
    if (lines.length === 0) continue;
    const named: string[] = [];
    for (const line of lines.slice(0, MAX_SKILLS)) {
      if (line.length > room) break;
      room -= line.length;
      named.push(line);
    }
    const more = lines.length - named.length;
    const path = JSON.stringify(folder);
    const cut = more > 0 ? ` cut="${more} more omitted"` : "";
    files.unshift({ path: folder, text: [`<skills path=${path}${cut}>`, ...named, "</skills>"].join("\n") });
  }
  return files;
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

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

/** Returns a text that can't leave its line or close its element. */
function oneLine(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ").replaceAll("<", "&lt;");
  return line.length <= MAX_OF_A_SKILL ? line : `${sliceText(line, 0, MAX_OF_A_SKILL - 1)}…`;
}

function opening(path: string): string {
  return `<file path=${JSON.stringify(path)}`;
}

/** Opening tag of each file and folder of skills, with its path as JSON. */
const OPENING = /^<(?:file|skills) path="(?:[^"\\]|\\.)*"/gm;

function fileElement(path: string, file: FoundFile, room: number): string {
  if ("why" in file) return `${opening(path)} unread=${JSON.stringify(file.why)}/>`;
  const { bytes, size } = file;
  const isCut = size > bytes.length || size > room;
  const visible = bytes.subarray(0, room);
  const whole = new TextDecoder().decode(visible, { stream: isCut });
  const text = isCut && whole.includes("\n") ? whole.slice(0, whole.lastIndexOf("\n")) : whole;
  const note = isCut ? ` cut="only its first ${byteLength(text)} of ${size} bytes are shown"` : "";
  // The text can't close its element, nor open another one.
  const held = text.trim().replace(/<(?=\/?(?:file|skills)\b)/g, "&lt;");
  return `${opening(path)}${note}>\n${held}\n</file>`;
}

async function gitState({ places: { head, workspace }, shell }: EnvironmentOptions): Promise<string> {
  if (head === undefined) return "no repository";
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

async function gitStatus(shell: Tool | undefined): Promise<string | undefined> {
  if (!shell) return undefined;
  const command = "git --no-optional-locks status --porcelain --branch 2>/dev/null | " +
    `head -n ${MAX_CHANGED + 2}`;
  const { signal } = new AbortController();
  const output = await shell.run({ command, timeout_ms: GIT_MS }, { signal, progress() {} });
  const [, branch, ...lines] = (typeof output === "string" ? output : output.content).trimEnd().split("\n");
  if (!branch?.startsWith("## ")) return undefined;
  const more = lines.length > MAX_CHANGED ? ", and more" : "";
  const changed = lines.length === 0
    ? "nothing has changed"
    : `changed since the last commit: ${
      lines.slice(0, MAX_CHANGED).map((line) => `${line.slice(0, 2).trim()} ${line.slice(3)}`).join(", ")
    }${more}`;
  return `${branch.slice(3)}; ${changed}`;
}

const MAX_OF_A_FILE = 32 * 1024;

/** File, in full or its beginning, or the reason why it can't be read. */
export type FoundFile = { readonly bytes: Uint8Array; readonly size: number } | { readonly why: string };

/**
 * Reads the beginning of a file. The user's links are followed; a project's only to its own Markdown files.
 */
export async function readFound(
  path: string,
  { within, hidden }: { readonly within?: string | undefined; readonly hidden?: string | undefined },
): Promise<FoundFile | undefined> {
  try {
    const real = await realpath(path);
    if (within !== undefined && real !== path) {
      const isIncluded = isFollowed(real, within) && (hidden === undefined || !isWithin(real, hidden));
      if (!isIncluded) return { why: "it is a link to something else than a Markdown file of this project" };
    }
    const file = await openAt(real);
    try {
      const info = await file.stat();
      if (!info.isFile()) return { why: "it isn't a file" };
      return { bytes: await readBeginning(file, MAX_OF_A_FILE), size: info.size };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return undefined;
    return { why: isDenied(error) ? UNKNOWN_AT_START : (error as Error).message };
  }
}

const UNKNOWN_AT_START = "its target was unknown when the server started";

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

function isFollowed(path: string, within: string): boolean {
  return isWithin(path, within) && /\.md$/i.test(path);
}

/** Markdown file with its front matter. */
export interface FrontMatter {
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
}

const HEAD = /^\uFEFF?---[ \t]*\r?\n((?:[^\n]*\n)*?)---[ \t]*(?:\r?\n|$)/;

/** Splits a file into its YAML front matter, if any, and the rest. */
export async function readFrontMatter(text: string): Promise<FrontMatter> {
  const [head, yaml = ""] = HEAD.exec(text) ?? [];
  if (head === undefined) return { fields: {}, body: text };
  return { fields: await fieldsOf(yaml), body: text.slice(head.length) };
}

async function fieldsOf(yaml: string): Promise<Readonly<Record<string, string>>> {
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
    // Invalid YAML, such as unquoted colons: parsed below.
  }
  return Object.fromEntries(
    [...yaml.matchAll(/^(\w[\w-]*):[ \t]*(\S.*?)[ \t]*\r?$/gm)].map(([, name, value]) => [name, value]),
  );
}

/**
 * Returns the absolute path without symbolic links, or the resolved path if it is missing or can't be read.
 */
export function realPath(path: string): string {
  try {
    return realpathSync(resolve(path));
  } catch (error) {
    if (systemCode(error) === "ENOENT" || isDenied(error)) return resolve(path);
    throw error;
  }
}

/**
 * Returns `read_skill`, which reads skills outside of the workspace; `undefined` if these folders have none.
 */
export function skillTool(folders: readonly string[]): Tool | undefined {
  const there = folders.filter((folder) => namesIn(folder).length > 0);
  if (there.length === 0) return undefined;
  return {
    definition: {
      type: "function",
      function: {
        name: "read_skill",
        description: "Reads a file of a skill outside of the workspace.",
        parameters: {
          type: "object",
          properties: {
            path: { type: "string", description: "Absolute path, such as that of its SKILL.md." },
          },
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
        const why = file?.why ?? (isThere ? "it does not exist" : `it is in none of ${there.join(", ")}`);
        return { content: `Cannot read ${given}: ${why}.`, error: true };
      }
      const { bytes, size } = file;
      const isCut = bytes.length < size;
      const text = new TextDecoder().decode(bytes, { stream: isCut });
      return isCut ? `${text}\n[only its first ${bytes.length} of ${size} bytes]` : text;
    },
  };
}
