import { dirname, isAbsolute, join, resolve } from "@std/path";
import { realPath } from "@tare/tools/internal/instructions";
import { dataDirectory, HOME_VARIABLES } from "./data_directory.ts";
import { dataFolder } from "./data_folder.ts";

/** The file of a data folder that says which server runs with it. */
const SERVER_FILE = "server.json";

/** Where a server listens that nobody has told where, as long as no other program does. */
export const USUAL_PORT = 8787;

/** Longest time that a server may take to say who it is, in milliseconds. */
const ANSWER_MS = 5_000;

/** A server as it notes itself in its data folder, so that commands find the one of their folder. */
export interface NotedServer {
  /** The real path of the folder that it works in. */
  readonly folder: string;
  /** Where programs of this machine reach it. */
  readonly url: string;
  /** Which start this is: by it a server is told from another one that listens there after a crash. */
  readonly instance: string;
  readonly pid: number;
}

export interface FoundServer extends NotedServer {
  readonly data: string;
}

export const FOLDER_VARIABLES: readonly string[] = [
  "TARE_DATA",
  "TARE_WORKSPACE",
  "INIT_CWD",
  ...HOME_VARIABLES,
];

type FolderEnvironment = Readonly<Record<string, string | undefined>>;

/** Notes that a server listens. Of several with one data folder the newest is noted. */
export async function noteServer(data: string, server: NotedServer): Promise<void> {
  const path = join(data, SERVER_FILE);
  const part = `${path}.${server.instance}.part`;
  await Deno.writeTextFile(part, JSON.stringify(server), { mode: 0o600 });
  await Deno.rename(part, path);
}

/** Notes that it doesn't any more. */
export async function forgetServer(data: string, { instance }: NotedServer): Promise<void> {
  if (readNoted(data)?.instance === instance) await Deno.remove(join(data, SERVER_FILE));
}

/** The folder that a command is about: where it was called, unless `TARE_WORKSPACE` names another. */
export function callersFolder({ TARE_WORKSPACE = "", INIT_CWD = "" }: FolderEnvironment): string {
  return realPath(resolve(INIT_CWD || ".", TARE_WORKSPACE || "."));
}

/** Returns the server of the folder, the nearest around it, or of `TARE_DATA`. @throws {Error} if none runs. */
export async function findServer(environment: FolderEnvironment): Promise<FoundServer> {
  const found = await runningServer(environment);
  if (found) return found;
  const folder = callersFolder(environment);
  const { TARE_DATA: own } = environment;
  const others = await allRunning(environment);
  throw new Error(
    [
      own
        ? `Cannot find a server with the data folder ${own}: none runs.`
        : `Cannot find a server for ${folder}: none runs there, nor for a folder around it.`,
      "Start one in the folder with tare start, or deno task start; or say with --url, or TARE_HOST and TARE_PORT, where one listens.",
      ...(others.length === 0 ? [] : ["Servers of other folders run:"]),
      ...others.map(({ folder, url }) => `  ${url}  ${folder}`),
    ].join("\n"),
  );
}

/** The same, or nothing if none runs. */
export async function runningServer(environment: FolderEnvironment): Promise<FoundServer | undefined> {
  const { TARE_DATA: own, INIT_CWD = "." } = environment;
  if (own) return await runningIn(isAbsolute(own) ? own : join(INIT_CWD, own));
  return await nearest(callersFolder(environment), environment);
}

async function nearest(folder: string, environment: FolderEnvironment): Promise<FoundServer | undefined> {
  const found = await runningIn(dataFolder({ workspace: folder }, environment));
  if (found) return found;
  const above = dirname(folder);
  return above === folder ? undefined : await nearest(above, environment);
}

/** All servers of this person that run with data folders in the usual place. */
async function allRunning(environment: FolderEnvironment): Promise<readonly FoundServer[]> {
  const found = await Promise.all(dataFolders(environment).map(runningIn));
  return found.filter((server) => server !== undefined)
    .sort((one, other) => one.folder < other.folder ? -1 : 1);
}

export function dataFolders(environment: FolderEnvironment): readonly string[] {
  const home = dataDirectory(environment);
  if (home === undefined) return [];
  const all = join(home, "tare");
  try {
    return [...Deno.readDirSync(all)].filter(({ name, isDirectory }) =>
      isDirectory && name !== WRAPPED_FOLDER
    )
      .map(({ name }) => join(all, name)).sort();
  } catch (error) {
    // Nobody has started a server yet.
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Where beside them is remembered which agents' configuration was written to. */
export const WRAPPED_FOLDER = "wrapped";

/** The server that is noted in a data folder, if it is there: a crash leaves the note. */
export async function runningIn(data: string): Promise<FoundServer | undefined> {
  const noted = readNoted(data);
  if (!noted) return undefined;
  try {
    const response = await fetch(`${noted.url}/health`, { signal: AbortSignal.timeout(ANSWER_MS) });
    const { instance } = await response.json();
    return instance === noted.instance ? { ...noted, data } : undefined;
  } catch {
    return undefined;
  }
}

function readNoted(data: string): NotedServer | undefined {
  try {
    const { folder, url, instance, pid } = JSON.parse(Deno.readTextFileSync(join(data, SERVER_FILE)));
    return [folder, url, instance].every((part) => typeof part === "string") && Number.isInteger(pid)
      ? { folder, url, instance, pid }
      : undefined;
  } catch {
    // None is noted.
    return undefined;
  }
}
