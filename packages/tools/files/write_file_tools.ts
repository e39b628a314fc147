import { constants, type Stats } from "node:fs";
import { copyFile, type FileHandle, lstat, mkdir, open, readdir, rename, rm, unlink } from "node:fs/promises";
import type { FileChange, Tool, ToolContext } from "@tare/messages";
import { formatPatch, OMIT_HEADERS, structuredPatch } from "diff";
import { basename, dirname, join } from "@std/path";
import { defineTool, ignoreMissing, ioReason, systemCode, ToolRefusal } from "../define_tool.ts";
import {
  assertAllowed,
  assertOpenAt,
  effectsOn,
  type Folder,
  inFolder,
  inNewFolder,
  openAt,
  readAt,
  regular,
  resolveInWorkspace,
  similarity,
  statFile,
  temporaryName,
  type WorkspaceLimits,
  type WorkspacePath,
} from "./resolve_in_workspace.ts";
import { shortLines, sliceText } from "../result_text.ts";
import { approvePath } from "../sandbox/guard.ts";

type WriteFileArguments = { readonly path: string; readonly content: string };

function writing(workspace: string, limits: WorkspaceLimits) {
  return {
    stance: "once",
    writes: "path",
    effects: ({ path }: { readonly path: string }) => effectsOn(path, { ...limits, workspace, as: "writes" }),
    async clearUp(args: { readonly path: string }, context: Pick<ToolContext, "callId">) {
      const temporary = temporaryOf(args, context);
      if (temporary === undefined) return;
      const { absolute } = await resolveInWorkspace(workspace, args.path, limits);
      await removeTemporary(absolute, { temporary, own: limits.hidden });
    },
  } as const;
}

/** Returns `write_file`, which creates or overwrites a text file. */
export function writeFileTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  return defineTool<WriteFileArguments>({
    name: "write_file",
    description:
      "Creates a text file and its parent folders, or overwrites one. To change a part, use edit_file.",
    properties: {
      path: { type: "string", minLength: 1, description: "From the workspace." },
      content: { type: "string", description: "Full content, ending with a newline." },
    },
    required: ["path", "content"],
    ...writing(workspace, limits),
    attempt: ({ path }) => `write ${JSON.stringify(path)}`,
    async preview({ path, content }, context) {
      const { absolute, relative } = await resolveInWorkspace(workspace, path, limits);
      assertAllowed(context, absolute, "writes");
      return changeOf(relative, await textOf(absolute, await existingFile(absolute)), content);
    },
    async run(args, context) {
      const { path, content } = args;
      const { signal, confirm } = context;
      const { absolute, relative } = await resolveInWorkspace(workspace, path, limits);
      assertAllowed(context, absolute, "writes");
      approvePath(absolute);
      return await inTurn(absolute, async () => {
        signal.throwIfAborted();
        const old = await existingFile(absolute);
        const change = changeOf(relative, await textOf(absolute, old), content);
        const bytes = new TextEncoder().encode(content);
        await writeAtomically(absolute, bytes, {
          mode: old?.mode,
          temporary: temporaryOf(args, context),
          own: limits.hidden,
          confirm,
        });
        const lines = content === "" ? 0 : content.split("\n").length - (content.endsWith("\n") ? 1 : 0);
        const before = old ? ` (before: bytes ${old.size})` : "";
        const did = old ? "replaced" : "created";
        return {
          content: `${did} ${relative}: bytes ${bytes.length}, lines ${lines}${before}`,
          error: false,
          change,
        };
      });
    },
  });
}

async function existingFile(absolute: string): Promise<Stats | undefined> {
  const info = await lstat(absolute).catch((error): undefined => {
    if (systemCode(error) !== "ENOENT") throw error;
  });
  return info && regular(info, "Name a file in it.");
}

async function textOf(absolute: string, file: Stats | undefined): Promise<string | undefined> {
  if (!file) return "";
  if (file.size > MAX_BYTES) return undefined;
  try {
    return await readUtf8(absolute);
  } catch (error) {
    if (error instanceof ToolRefusal || ioReason(error) !== undefined) return undefined;
    throw error;
  }
}

const MAX_DIFF = 16_000;
const MAX_DIFF_LINE = 2_000;

const MAX_EDITS = 1_000;

function changeOf(path: string, before: string | undefined, after: string): FileChange | undefined {
  if (before === undefined || before.length + after.length > 2 * MAX_BYTES) return undefined;
  const isCrlf = [before, after].every((text) => text === "" || uniformLineEnd(text) === "\r\n");
  const [old, now] = isCrlf ? [before, after].map((text) => text.replaceAll("\r\n", "\n")) : [before, after];
  const hunks = hunksOf(old!, now!);
  const count = (mark: string) =>
    hunks.reduce((sum, { lines }) => sum + lines.filter((line) => line.startsWith(mark)).length, 0);
  const visible: string[] = [];
  let omitted = 0;
  let chars = 0;
  const all = hunks.length === 0 ? [] : formatPatch(
    { ...{ oldFileName: path, newFileName: path, oldHeader: undefined, newHeader: undefined }, hunks },
    OMIT_HEADERS,
  ).replace(/\n$/, "").split("\n");
  for (const line of all) {
    const text = line.length <= MAX_DIFF_LINE
      ? line
      : `${sliceText(line, 0, MAX_DIFF_LINE)}… and ${line.length - MAX_DIFF_LINE} characters more`;
    if (!line.startsWith("@@")) chars += text.length + 1;
    const isWhole = chars <= MAX_DIFF;
    if (isWhole) visible.push(text);
    if (!isWhole || text !== line) omitted++;
  }
  return {
    ...{ path, added: count("+"), removed: count("-"), diff: visible.join("\n") },
    ...(omitted > 0 && { omitted }),
  };
}

function hunksOf(before: string, after: string) {
  const options = { context: 3, maxEditLength: MAX_EDITS };
  const isWhole = before === "" || after === "";
  const patch = isWhole ? undefined : structuredPatch("", "", before, after, undefined, undefined, options);
  if (patch) return patch.hunks;
  if (before === after) return [];
  const [old, now] = [before, after].map((text) => text === "" ? [] : text.replace(/\n$/, "").split("\n"));
  const lines = [...old!.map((line) => `-${line}`), ...now!.map((line) => `+${line}`)];
  return [{ oldStart: 1, oldLines: old!.length, newStart: 1, newLines: now!.length, lines }];
}

type EditFileArguments = {
  readonly path: string;
  readonly old_text: string;
  readonly new_text: string;
  readonly replace_all?: boolean;
};

const MAX_BYTES = 4 * 1024 * 1024;
const CONTEXT_LINES = 2;

/** Returns `edit_file`, which replaces exact text in a text file. */
export function editFileTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  const placeOf = async (
    { path, old_text: oldText, new_text: newText }: EditFileArguments,
    context: ToolContext,
  ) => {
    if (oldText === "") throw new ToolRefusal("old_text is empty. To write a whole file, use write_file.");
    if (oldText === newText) throw new ToolRefusal("old_text and new_text are the same.");
    const place = await resolveInWorkspace(workspace, path, limits);
    assertAllowed(context, place.absolute, "writes");
    return place;
  };
  const edit = async (
    { old_text: oldText, new_text: newText, replace_all: all }: EditFileArguments,
    { place, quotes, ...context }: ToolContext & {
      readonly place: WorkspacePath;
      readonly quotes?: boolean;
    },
  ) => {
    const { size, mode } = await statFile(place, context);
    if (size > MAX_BYTES) throw new ToolRefusal(`it has ${size} bytes. Edit files of that size with shell.`);
    const before = await readUtf8(place.absolute);
    const replaced = replaceText(before, { oldText, newText, all, quotes });
    return { mode, replaced, change: changeOf(place.relative, before, replaced.text) };
  };
  return defineTool<EditFileArguments>({
    name: "edit_file",
    description:
      "Replaces text in a file. old_text must match exactly, including white space, and only once unless replace_all " +
      "is true: copy it from read_file.",
    properties: {
      path: { type: "string", minLength: 1, description: "From the workspace." },
      old_text: {
        type: "string",
        minLength: 1,
        description: "With enough context to be unique.",
      },
      new_text: { type: "string", description: "Replacement." },
      replace_all: { type: "boolean", description: "Default: false." },
    },
    required: ["path", "old_text", "new_text"],
    ...writing(workspace, limits),
    attempt: ({ path }) => `edit ${JSON.stringify(path)}`,
    async preview(args, context) {
      const place = await placeOf(args, context);
      // The call isn't approved yet, so the preview may not quote the file.
      return (await edit(args, { ...context, place, quotes: false })).change;
    },
    async run(args, context) {
      const place = await placeOf(args, context);
      approvePath(place.absolute);
      return await inTurn(place.absolute, async () => {
        context.signal.throwIfAborted();
        const { mode, replaced, change } = await edit(args, { ...context, place });
        await writeAtomically(place.absolute, new TextEncoder().encode(replaced.text), {
          mode,
          temporary: temporaryOf(args, context),
          own: limits.hidden,
          confirm: context.confirm,
        });
        return { content: report(place.relative, replaced), error: false, change };
      });
    },
  });
}

async function readUtf8(absolute: string): Promise<string> {
  const bytes = await readAt(absolute);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ToolRefusal("it is not valid UTF-8, and an edit would damage it. Edit it with shell.");
  }
}

function report(path: string, { text, starts, length }: ReplacedText): string {
  const [first = 0, ...others] = starts;
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const from = Math.max(1, lineNumberAt(text, first) - CONTEXT_LINES);
  const to = Math.min(lines.length, lineNumberAt(text, first + length) + CONTEXT_LINES);
  const more = others.length > 0
    ? `${starts.length} replacements, in lines ${lineNumbers(text, starts)}; `
    : "";
  return `edited ${path}: ${more}lines ${from}-${to} of ${lines.length} are now\n` +
    shortLines(lines.slice(from - 1, to));
}

const MAX_NAMED = 20;

interface Replacement {
  readonly oldText: string;
  readonly newText: string;
  readonly all?: boolean | undefined;
  readonly quotes?: boolean | undefined;
}

interface ReplacedText {
  readonly text: string;
  readonly starts: readonly number[];
  readonly length: number;
}

/**
 * Replaces exact text. If all lines of the file have the same line end, LF or CRLF, the replacement gets it
 * too.
 *
 * @throws {ToolRefusal} if the old text is missing, or occurs more than once and `all` is not set.
 */
export function replaceText(
  text: string,
  { oldText, newText, all = false, quotes = true }: Replacement,
): ReplacedText {
  const lineEnd = uniformLineEnd(text);
  const adapt = (part: string) => lineEnd === undefined ? part : part.replaceAll(/\r?\n/g, lineEnd);
  const [wanted, replacement] = [adapt(oldText), adapt(newText)];
  const found = occurrences(text, wanted);
  if (found.length === 0) throw new ToolRefusal(notFound(text, { oldText, lineEnd, quotes }));
  if (found.length > 1 && !all) throw new ToolRefusal(ambiguous(text, found));
  const growth = replacement.length - wanted.length;
  return {
    text: text.replaceAll(wanted, () => replacement),
    starts: found.map((at, earlier) => at + earlier * growth),
    length: replacement.length,
  };
}

/** Returns the number of the line at `index`, from 1. */
export function lineNumberAt(text: string, index: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < index; at = text.indexOf("\n", at + 1)) line++;
  return line;
}

/** Returns the line numbers of at most the first twenty indices, for a message. */
export function lineNumbers(text: string, indices: readonly number[]): string {
  const numbers = indices.slice(0, MAX_NAMED).map((at) => lineNumberAt(text, at));
  return numbers.join(", ") + (indices.length > MAX_NAMED ? ", …" : "");
}

function uniformLineEnd(text: string): "\n" | "\r\n" | undefined {
  const ends = text.split("\n").length - 1;
  const crlf = text.split("\r\n").length - 1;
  if (ends === 0) return undefined;
  return crlf === 0 ? "\n" : crlf === ends ? "\r\n" : undefined;
}

function occurrences(text: string, wanted: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) found.push(at);
  return found;
}

function ambiguous(text: string, found: readonly number[]): string {
  return `old_text occurs ${found.length} times, in lines ${
    lineNumbers(text, found)
  }. Add lines around it until it ` +
    "is unique, or set replace_all to true.";
}

function notFound(
  text: string,
  { oldText, lineEnd, quotes }: {
    readonly oldText: string;
    readonly lineEnd: string | undefined;
    readonly quotes: boolean;
  },
): string {
  const lines = text.split(/\r?\n/);
  const nearest = nearestLines(lines, oldText.split(/\r?\n/));
  const mixed = lineEnd === undefined && text.includes("\r\n")
    ? " Some lines of the file end in CRLF and some in LF; edit such lines one by one."
    : "";
  if (!nearest) {
    return `old_text is not in it, nor anything similar. Use search_files.${mixed}`;
  }
  return `old_text is not in it. Copy it exactly, white space included.${mixed} The nearest lines are ` +
    `${nearest.start + 1}-${nearest.end}${
      quotes ? `:\n${shortLines(lines.slice(nearest.start, nearest.end))}` : ". Read them first."
    }`;
}

interface LineRange {
  readonly start: number;
  readonly end: number;
}

const MIN_SIMILARITY = 0.5;
const MAX_PLACES = 10;

const MAX_LINE_CHARS = 500;

/** Returns the range of `lines` most similar to `wanted`; `undefined` if none is similar. */
export function nearestLines(lines: readonly string[], wanted: readonly string[]): LineRange | undefined {
  const [heads, wantedHeads] = [lines.map(head), wanted.map(head)];
  const anchor = wantedHeads.reduce(
    (longest, line, at) => line.length > (wantedHeads[longest]?.length ?? 0) ? at : longest,
    0,
  );
  const anchorLength = wantedHeads[anchor]?.length ?? 0;
  const likeness = (at: number, wantedAt: number) => similarity(heads[at] ?? "", wantedHeads[wantedAt] ?? "");
  const starts = heads
    .map((line, at) => ({ at, score: mayBeAlike(line.length, anchorLength) ? likeness(at, anchor) : 0 }))
    .filter(({ score }) => score >= MIN_SIMILARITY)
    .sort((a, b) => b.score - a.score)
    .slice(0, MAX_PLACES)
    .map(({ at }) => at - anchor);
  const scores = starts.map((start) => wanted.reduce((sum, _, at) => sum + likeness(start + at, at), 0));
  const start = starts[scores.indexOf(Math.max(...scores))];
  if (start === undefined) return undefined;
  return { start: Math.max(0, start), end: Math.min(lines.length, start + wanted.length) };
}

function head(line: string): string {
  return line.trim().slice(0, MAX_LINE_CHARS);
}

function mayBeAlike(length: number, other: number): boolean {
  return Math.min(length, other) >= MIN_SIMILARITY * Math.max(length, other);
}

function temporaryOf(args: object, { callId }: Pick<ToolContext, "callId">): string | undefined {
  return callId === undefined ? undefined : temporaryName([callId, args]);
}

const STAGING = "staged";

/**
 * Writes a whole file atomically: the bytes are written to a new file, flushed, and renamed in its folder,
 * which is verified once it is open. Missing folders are created.
 *
 * With `own`, no other process reaches the new file before the rename, unless `own` is on another file
 * system.
 *
 * @param mode Permission bits of the new file. Default: the system's.
 * @param isForced Whether to replace a read-only file. Default: false.
 * @param temporary Temporary name. Default: random.
 * @param own The server's own folder. Default: none; the new file is written next to the old one.
 * @param confirm Called right before the rename, which it prevents by throwing.
 */
export async function writeAtomically(
  absolute: string,
  bytes: Uint8Array,
  { mode, isForced = false, temporary = randomName(), own, confirm }: {
    readonly mode?: number | undefined;
    readonly isForced?: boolean;
    readonly temporary?: string | undefined;
    readonly own?: string | undefined;
    readonly confirm?: (() => void) | undefined;
  } = {},
): Promise<void> {
  if (mode !== undefined && !isForced) await (await openAt(absolute, constants.O_WRONLY)).close();
  const bits = mode === undefined ? undefined : mode & 0o7777;
  await inNewFolder(dirname(absolute), async (folder) => {
    const place = async (file: NewFile) => {
      folder.check();
      confirm?.();
      await file.moveTo(folder.at(basename(absolute)));
      file.check(absolute);
    };
    if (own === undefined) {
      return await onNewFile(createTemporary(folder, absolute, { name: temporary, bits }), async (file) => {
        await file.write(bytes, bits);
        await place(file);
      });
    }
    const copyName = randomName();
    await onNewFile(
      createStaged(join(own, STAGING), { name: `${temporary}-${copyName}`, bits }),
      async (staged) => {
        await staged.write(bytes, bits);
        try {
          return await place(staged);
        } catch (error) {
          if (systemCode(error) !== "EXDEV") throw error;
        }
        await onNewFile(
          copyInto(folder, join(dirname(absolute), copyName), { from: staged.path, bits }),
          place,
        );
      },
    );
  });
}

async function onNewFile(created: Promise<NewFile>, work: (file: NewFile) => Promise<void>): Promise<void> {
  const file = await created;
  try {
    await work(file);
  } finally {
    await file.close();
  }
}

/** Removes the temporary file that {@linkcode writeAtomically} left when its process was killed. */
export async function removeTemporary(
  absolute: string,
  { temporary, own }: { readonly temporary: string; readonly own: string | undefined },
): Promise<void> {
  const temporaries = [temporary];
  for (const name of own === undefined ? [] : await readdir(join(own, STAGING)).catch(ignoreMissing) ?? []) {
    if (!name.startsWith(`${temporary}-`)) continue;
    temporaries.push(name.slice(temporary.length + 1));
    await rm(join(own!, STAGING, name), { force: true });
  }
  await inFolder(dirname(absolute), async (folder) => {
    for (const name of temporaries) await unlink(folder.at(name)).catch(ignoreMissing);
  });
}

class NewFile {
  readonly path: string;
  readonly #file: FileHandle;
  #isMoved = false;

  constructor(path: string, file: FileHandle) {
    this.path = path;
    this.#file = file;
  }

  /** Throws unless it is at this path. @throws {ToolRefusal} */
  check(absolute: string): void {
    assertOpenAt(this.#file.fd, absolute);
  }

  async write(bytes: Uint8Array | undefined, bits: number | undefined): Promise<void> {
    if (bytes) await this.#file.writeFile(bytes);
    if (bits !== undefined) await this.#file.chmod(bits);
    await this.#file.sync();
  }

  async moveTo(to: string): Promise<void> {
    await rename(this.path, to);
    this.#isMoved = true;
  }

  async close(): Promise<void> {
    await this.#file.close();
    if (!this.#isMoved) await unlink(this.path).catch(() => {});
  }
}

async function createTemporary(
  folder: Folder,
  absolute: string,
  { name, bits }: { readonly name: string; readonly bits: number | undefined },
): Promise<NewFile> {
  const path = folder.at(name);
  const handle = await create(path, bits).catch((error) => {
    if (systemCode(error) !== "EEXIST") throw error;
  });
  if (!handle) return await createTemporary(folder, absolute, { name: randomName(), bits });
  const file = new NewFile(path, handle);
  try {
    file.check(join(dirname(absolute), name));
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function createStaged(
  folder: string,
  { name, bits }: { readonly name: string; readonly bits: number | undefined },
): Promise<NewFile> {
  const path = join(folder, name);
  const file = await create(path, bits).catch(async (error) => {
    if (systemCode(error) !== "ENOENT") throw error;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return await create(path, bits);
  });
  return new NewFile(path, file);
}

async function copyInto(
  folder: Folder,
  absolute: string,
  { from, bits }: { readonly from: string; readonly bits: number | undefined },
): Promise<NewFile> {
  const path = folder.at(basename(absolute));
  await copyFile(from, path);
  const handle = await openAt(absolute, constants.O_WRONLY).catch(async (error) => {
    await unlink(path).catch(ignoreMissing);
    throw error;
  });
  const file = new NewFile(path, handle);
  await file.write(undefined, bits);
  return file;
}

function create(path: string, bits = 0o666): Promise<FileHandle> {
  return open(path, "wx", bits);
}

function randomName(): string {
  return temporaryName(crypto.randomUUID());
}

const last = new Map<string, Promise<unknown>>();

/** Runs actions with the same key in order: two edits of one file must not start from the same text. */
export async function inTurn<T>(key: string, action: () => Promise<T>): Promise<T> {
  const before = last.get(key) ?? Promise.resolve();
  const run = before.then(action, action);
  last.set(key, run);
  try {
    return await run;
  } finally {
    if (last.get(key) === run) last.delete(key);
  }
}
