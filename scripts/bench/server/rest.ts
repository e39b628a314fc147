import { fromFileUrl } from "@std/path";
import { loadTokenizer } from "@tare/tiktoken";
import { serverPermissions, V8_FLAGS } from "../../../packages/app/handed_over.ts";
import { readSettings } from "../../../packages/app/settings/settings.ts";
import { type Listening, startListening } from "./listening.ts";
import { importSessions, longSession } from "./sessions.ts";
import { createSession, playTurn } from "./turn.ts";

/** What the server's own process shows of sessions at rest. Times in milliseconds, memory in MiB. */
export interface Rest {
  readonly idleSessions: number;
  readonly idleTokens: number;
  /** Resident memory right after the start, the token counter loaded. */
  readonly freshMiB: number;
  /** Resident memory once each session was read after the start, and a turn was played in one of twenty. */
  readonly idleMiB: number;
  /** The highest in between. */
  readonly peakMiB: number;
  readonly resumeTokens: number;
  /** From the request for the session until its messages are there, in a process that has not seen it before. */
  readonly resumeReadMs: number;
  /** From the request for its next turn until the first event, in another such process. */
  readonly resumeFirstEventMs: number;
  /** Until the model's reply, which needed the whole prompt. */
  readonly resumeFirstReplyMs: number;
}

/** What is measured, and with what. */
export interface RestOptions {
  /** Address of the provider. */
  readonly provider: string;
  /** Folder for the sessions. */
  readonly data: string;
  readonly workspace: string;
  readonly idleSessions: number;
}

const IDLE_TOKENS = 100_000;
const RESUME_TOKENS = 200_000;

/** Measures the memory that idle sessions take, and how fast a long one is there again after a restart. */
export async function measureRest({ provider, data, workspace, idleSessions }: RestOptions): Promise<Rest> {
  const start = async () => {
    const server = await startMain([
      ...["--data", data, "--workspace", workspace, "--window", "400000"],
      ...["--base-url", provider, "--model", "after-0", "--profile", "openai"],
    ]);
    // The first session waits for the token counter.
    await createSession(server.url, "after-0");
    return server;
  };
  const [long = "", ...idle] = await fill(await start(), idleSessions);
  const read = await readAll(await start(), { long, idle });
  await using server = await start();
  const turn = await playTurn(server.url, long);
  return {
    idleSessions,
    idleTokens: IDLE_TOKENS,
    ...read,
    resumeTokens: RESUME_TOKENS,
    resumeFirstEventMs: turn.firstEventMs,
    resumeFirstReplyMs: turn.firstReplyMs,
  };
}

async function fill(started: Listening, idleSessions: number): Promise<string[]> {
  await using server = started;
  const { count } = await loadTokenizer();
  const session = (seed: number, tokens: number) => () => longSession(tokens, { seed, count });
  return await importSessions(server.url, [
    session(0, RESUME_TOKENS),
    ...Array.from({ length: idleSessions }, (_, index) => session(index + 1, IDLE_TOKENS)),
  ]);
}

async function readAll(
  started: Listening,
  { long, idle }: { readonly long: string; readonly idle: readonly string[] },
): Promise<Pick<Rest, "freshMiB" | "idleMiB" | "peakMiB" | "resumeReadMs">> {
  await using server = started;
  const fresh = await memory(server.pid);
  const resumeReadMs = await readSession(server.url, long);
  for (const [index, id] of idle.entries()) {
    await readSession(server.url, id);
    if (index % 20 === 0) await playTurn(server.url, id);
  }
  const used = await memory(server.pid);
  return { freshMiB: fresh.nowMiB, idleMiB: used.nowMiB, peakMiB: used.peakMiB, resumeReadMs };
}

/** Starts `main.ts` on a free port, with the permissions and V8 flags that the start command gives it. */
export function startMain(
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Listening> {
  const args = ["--port", "0", ...flags];
  const main = fromFileUrl(new URL("../../../packages/app/main.ts", import.meta.url));
  return startListening([V8_FLAGS, ...serverPermissions(readSettings(args, env)), main, ...args], env);
}

async function readSession(server: string, id: string): Promise<number> {
  const startedAt = performance.now();
  const response = await fetch(`${server}/v1/sessions/${id}`);
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`Cannot measure: session ${id} answered ${response.status}.`);
  return performance.now() - startedAt;
}

/** Resident memory of a process now and at its highest. */
async function memory(pid: number): Promise<{ nowMiB: number; peakMiB: number }> {
  // Deno itself reads nothing in /proc unless everything is allowed.
  const { stdout } = await new Deno.Command("cat", { args: [`/proc/${pid}/status`] }).output();
  const status = new TextDecoder().decode(stdout);
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) / 1024;
  return { nowMiB: read("VmRSS"), peakMiB: read("VmHWM") };
}
