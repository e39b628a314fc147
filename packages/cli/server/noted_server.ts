import { dirname, isAbsolute, join, resolve } from "@std/path";
import { realPath } from "@tare/tools/internal/instructions";
import { dataDirectory, HOME_VARIABLES } from "./data_directory.ts";
import { dataFolder } from "./data_folder.ts";

const SERVER_FILE = "server.json";

export const USUAL_PORT = 8787;

const ANSWER_MS = 5_000;

/** A running server as recorded in its data folder, where commands find it. */
export interface NotedServer {
  readonly folder: string;
  readonly url: string;
  /** Identifier of this start: after a crash another program may listen on the same port. */
  readonly instance: string;
  readonly pid: number;
  /** Digests by variable of the settings that it was started with, keyed by `instance`. */
  readonly settings: Readonly<Record<string, string>>;
  /** Variables of `settings` that files set. */
  readonly stored: readonly string[];
  /** Whether it was started in the background, and can be restarted there. */
  readonly runsAlone: boolean;
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

/** Records a server; of several with one data folder the newest. */
export async function noteServer(data: string, server: NotedServer): Promise<void> {
  const path = join(data, SERVER_FILE);
  const part = `${path}.${server.instance}.part`;
  await Deno.writeTextFile(part, JSON.stringify(server), { mode: 0o600 });
  await Deno.rename(part, path);
}

export async function forgetServer(data: string, { instance }: NotedServer): Promise<void> {
  if (readNoted(data)?.instance === instance) await Deno.remove(join(data, SERVER_FILE));
}

/** Returns the real path of `TARE_WORKSPACE`, or of the caller's folder. */
export function callersFolder({ TARE_WORKSPACE = "", INIT_CWD = "" }: FolderEnvironment): string {
  return realPath(resolve(INIT_CWD || ".", TARE_WORKSPACE || "."));
}

/** Returns the server of `TARE_DATA`, of the caller's folder or of its nearest parent. @throws {Error} if none runs. */
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
        : `Cannot find a server for ${folder}: none runs there or for a parent folder.`,
      "Start one in the folder with tare start, or deno task start; or name its address with --url, or TARE_HOST and TARE_PORT.",
      ...(others.length === 0 ? [] : ["Running servers of other folders:"]),
      ...others.map(({ folder, url }) => `  ${url}  ${folder}`),
    ].join("\n"),
  );
}

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
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Folder next to the data folders with a record per wrapped agent. */
export const WRAPPED_FOLDER = "wrapped";

/** Returns the recorded server of a data folder if it answers: a crash leaves a stale record. */
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
    const noted = JSON.parse(Deno.readTextFileSync(join(data, SERVER_FILE)));
    const { folder, url, instance, pid, settings = {}, stored = [], runsAlone = false } = noted;
    return [folder, url, instance].every((part) => typeof part === "string") && Number.isInteger(pid)
      ? { folder, url, instance, pid, settings, stored, runsAlone }
      : undefined;
  } catch {
    return undefined;
  }
}
