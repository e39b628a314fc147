import { dirname, extname, join, parse } from "@std/path";
import { structuredPatch } from "diff";
import { dataDirectory } from "../server/data_directory.ts";
import { WRAPPED_FOLDER } from "../server/noted_server.ts";
import { isFile } from "../option.ts";
import type { AgentFile, Environment, GatewayAddresses } from "./agents.ts";
import { type FileEntry, withEntries, withoutEntries } from "./file_entries.ts";

interface Wrapped {
  readonly path: string;
  readonly format: AgentFile["format"];
  readonly entries: readonly FileEntry[];
  /** Its text before and after; `null` if there was no file. */
  readonly before: string | null;
  readonly after: string;
  readonly folders: readonly string[];
  readonly memory: readonly string[];
}

export interface Change {
  readonly path: string;
  readonly before: string | null;
  readonly after: string | null;
  readonly remark?: string;
  readonly write: () => void;
}

/** Returns a change that redirects an agent. @throws {Error} if it is wrapped or its file is invalid. */
export function wrap(
  agent: string,
  { file, gateway, environment }: {
    readonly file: AgentFile;
    readonly gateway: GatewayAddresses;
    readonly environment: Environment;
  },
): Change {
  assertUnwrapped(agent, environment);
  const record = recordOf(agent, environment);
  const { path, before, after, entries } = redirectedFile(file, gateway);
  return {
    path,
    before,
    after,
    write() {
      const folders = missingFolders(dirname(path));
      const others = wrappedAgents(environment).map((name) => readRecord(recordOf(name, environment)));
      const memory = [...new Set(others.flatMap((other) => other?.memory ?? []))];
      const wrapped: Wrapped = {
        ...{ path, format: file.format, entries, before, after, folders },
        memory: [...memory, ...missingFolders(dirname(record))],
      };
      Deno.mkdirSync(dirname(record), { recursive: true, mode: 0o700 });
      // Written first, so that every change has a record. It may contain keys.
      Deno.writeTextFileSync(record, JSON.stringify(wrapped), { mode: 0o600, createNew: true });
      Deno.mkdirSync(dirname(path), { recursive: true });
      // Writing in place preserves links and permissions.
      Deno.writeTextFileSync(path, after);
    },
  };
}

/** @throws {Error} if the agent is already wrapped. */
export function assertUnwrapped(agent: string, environment: Environment): void {
  const known = readRecord(recordOf(agent, environment));
  if (!known) return;
  throw new Error(
    `Cannot wrap ${agent}: it is already wrapped, in ${known.path}. Run tare unwrap ${agent} first.`,
  );
}

/**
 * Writes a redirected copy of an agent's file next to it.
 *
 * @throws {Error} if the file is invalid or names no provider.
 */
export function copyFile(file: AgentFile, gateway: GatewayAddresses): { readonly path: string } & Disposable {
  const { path: own, after } = redirectedFile(file, gateway);
  const path = join(dirname(own), `${parse(own).name}.tare-${Deno.pid}${extname(own)}`);
  const folders = missingFolders(dirname(path));
  Deno.mkdirSync(dirname(path), { recursive: true });
  // It may contain keys.
  Deno.writeTextFileSync(path, after, { mode: 0o600 });
  return { path, [Symbol.dispose]: () => removeFile(path, folders) };
}

function redirectedFile({ paths, format, entries: entriesIn }: AgentFile, gateway: GatewayAddresses) {
  const path = paths.find(isFile) ?? paths[0]!;
  const before = fileText(path);
  const entries = changed(path, () => entriesIn(gateway, before ?? ""));
  if (entries.length === 0) {
    throw new Error(
      `Cannot redirect ${path}: it contains no model of a provider that the server forwards to. ` +
        "Configure the agent first.",
    );
  }
  return { path, before, entries, after: changed(path, () => withEntries(before ?? "", format, entries)) };
}

export function textBeforeWrap(
  agent: string | undefined,
  environment: Environment,
): (path: string) => string | null {
  const isNowhere = agent === undefined || dataDirectory(environment) === undefined;
  const known = isNowhere ? undefined : readRecord(recordOf(agent, environment));
  return (path) => path === known?.path ? known.before : fileText(path);
}

export function wrappedAgents(environment: Environment): readonly string[] {
  try {
    return [...Deno.readDirSync(folderOf(environment))].flatMap(({ name }) =>
      name.endsWith(".json") ? [name.slice(0, -".json".length)] : []
    ).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Returns a change that restores an agent's file, or removes Tare's entries if it was changed since. */
export function unwrap(agent: string, environment: Environment): Change {
  const record = recordOf(agent, environment);
  const wrapped = readRecord(record);
  if (!wrapped) throw new Error(`Cannot unwrap ${agent}: it is not wrapped.`);
  const { path, format, entries, before, after, folders, memory } = wrapped;
  const now = fileText(path);
  const left = (): Pick<Change, "after" | "remark"> => {
    if (now === after) return { after: before };
    if (now === null) return { after: null, remark: "The file was deleted since and is not restored." };
    const rest = changed(path, () => withoutEntries(now, format, { entries, before: before ?? "" }), record);
    return { after: rest, remark: "The file was changed since: only Tare's entries are removed." };
  };
  const then = left();
  return {
    path,
    before: now,
    ...then,
    write() {
      if (then.after === null) removeFile(path, folders);
      else if (then.after !== now) Deno.writeTextFileSync(path, then.after);
      removeFile(record, memory);
    },
  };
}

export function differences({ before, after }: Pick<Change, "before" | "after">): readonly string[] {
  const { hunks } = structuredPatch("", "", before ?? "", after ?? "", "", "", { context: 0 });
  return hunks.flatMap(({ lines }) => lines).filter((line) => /^[+-]/.test(line))
    .map((line) => `${line.charAt(0)} ${line.slice(1)}`);
}

function folderOf(environment: Environment): string {
  const home = dataDirectory(environment);
  if (home !== undefined) return join(home, "tare", WRAPPED_FOLDER);
  throw new Error("Cannot record the change: there is no home folder. Set HOME.");
}

function recordOf(agent: string, environment: Environment): string {
  return join(folderOf(environment), `${agent}.json`);
}

function readRecord(path: string): Wrapped | undefined {
  const text = fileText(path);
  return text === null ? undefined : JSON.parse(text);
}

/** Returns a file's text with its byte order mark; `null` if it doesn't exist. */
export function fileText(path: string): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Deno.readFileSync(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    if (!(error instanceof TypeError)) throw error;
    throw new Error(`Cannot change ${path}: it isn't UTF-8 text.`, { cause: error });
  }
}

function changed<T>(path: string, change: () => T, copy?: string): T {
  try {
    return change();
  } catch (cause) {
    const what = copy === undefined ? "" : ` Its original text is "before" in ${copy}.`;
    throw new Error(`Cannot change ${path}: ${(cause as Error).message}. Fix it, and retry.${what}`, {
      cause,
    });
  }
}

function missingFolders(folder: string): readonly string[] {
  try {
    Deno.statSync(folder);
    return [];
  } catch {
    return [...missingFolders(dirname(folder)), folder];
  }
}

function removeFile(path: string, folders: readonly string[]): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  removeEmpty(folders);
}

export function removeEmpty(folders: readonly string[]): void {
  try {
    for (const folder of folders.toReversed()) Deno.removeSync(folder);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound || isNotEmpty(error))) throw error;
  }
}

function isNotEmpty(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOTEMPTY";
}
