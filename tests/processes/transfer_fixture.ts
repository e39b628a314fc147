/**
 * Runs commands that transfer or report sessions against a real server. Contains no tests.
 *
 * @module
 */
import { fromFileUrl, join } from "@std/path";
import { type AgentClient, agentClient } from "../../packages/cli/agent_client.ts";
import { readSettings } from "../../packages/app/settings/settings.ts";
import { startServer } from "../../packages/app/compose.ts";
import { withoutInstalls } from "../../packages/app/server_process_fixture_test.ts";

/** Output and exit code of a command. */
export interface Written {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

const { tasks } = JSON.parse(Deno.readTextFileSync(new URL("../../deno.json", import.meta.url)));

/** Runs a task's program with the task's permissions. */
export async function runEntry(
  entry: "export" | "import" | "backup" | "spend" | "doctor" | "history" | "hooks",
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Written> {
  const [, ...flags]: string[] = tasks[entry].command.split(" ");
  const program = fromFileUrl(new URL(`../../${flags.pop()}`, import.meta.url));
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...flags, program, ...args],
    env: { NO_COLOR: "1", TARE_HOST: "", TARE_PORT: "", TARE_TOKEN: "", ...env },
  }).output();
  return {
    code,
    out: new TextDecoder().decode(stdout),
    err: withoutInstalls(new TextDecoder().decode(stderr)),
  };
}

/** A server with one session and one completed turn, and a temporary folder. */
export interface TransferServer {
  readonly folder: string;
  readonly url: string;
  readonly client: AgentClient;
  readonly session: string;
  /** Environment with the server's address, the key and the folder. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Runs a test against a server in this process.
 *
 * @throws {Error} with what the server logged, if anything.
 */
export async function withTransferServer(
  test: (server: TransferServer) => Promise<void>,
  args: readonly string[] = [],
): Promise<void> {
  const folder = await Deno.makeTempDir();
  await Deno.mkdir(join(folder, "workspace"));
  const logged: string[] = [];
  const settings = readSettings([
    ...["--port", "0", "--workspace", join(folder, "workspace")],
    ...["--data", join(folder, "data"), ...args],
  ], { TARE_TOKEN: "secret" });
  const { url, close } = await startServer(settings, (line) => logged.push(line));
  try {
    const client = agentClient(url, "secret");
    const session = await client.createSession();
    await Array.fromAsync(await client.startTurn(session, "Hello?"));
    const env = { TARE_PORT: new URL(url).port, TARE_TOKEN: "secret", INIT_CWD: folder };
    await test({ folder, url, client, session, env });
  } finally {
    await close();
    await Deno.remove(folder, { recursive: true });
  }
  if (logged.length > 0) throw new Error(logged.join("\n"));
}
