import { dirname } from "@std/path";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { type AgentClient, agentClient, connect, statedAddress } from "./agent_client.ts";
import { startOwnServer } from "./agents/own_server.ts";
import { isDirectory } from "./option.ts";
import { dataFolder } from "./server/data_folder.ts";
import { callersFolder, runningServer } from "./server/noted_server.ts";

/**
 * Calls `work` with a client of the server at `url` or of the folder. If none runs, a server of the stored sessions is
 * started for the call. It has no model, so it continues no turn.
 *
 * @throws {Error} if none runs and the folder has no sessions.
 */
export async function withServer<T>(
  url: string | undefined,
  work: (client: AgentClient) => Promise<T>,
): Promise<T> {
  const environment = Deno.env.toObject();
  const stated = url ?? statedAddress(environment.TARE_HOST, environment.TARE_PORT);
  const folder = stated === undefined && !await runningServer(environment)
    ? storedFolder(environment)
    : undefined;
  if (folder === undefined) return await work((await connect(url)).client);
  const server = await startOwnServer({ ...environment, TARE_WORKSPACE: folder }, {
    baseUrl: environment.OPENAI_BASE_URL || DEFAULT_PROVIDER.baseURL,
  });
  try {
    return await work(agentClient(server.url, server.token));
  } finally {
    await server.end();
  }
}

/** Returns the caller's folder, or its nearest parent, that has stored sessions. */
function storedFolder(environment: Readonly<Record<string, string>>): string | undefined {
  const called = callersFolder(environment);
  if (environment.TARE_DATA) return called;
  for (let folder = called;; folder = dirname(folder)) {
    if (isDirectory(dataFolder({ workspace: folder }, environment))) return folder;
    if (dirname(folder) === folder) return undefined;
  }
}
