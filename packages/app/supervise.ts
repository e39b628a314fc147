import type { ChildProcess } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";

/** Missed checks after which the server is restarted. */
const PATIENCE = 10;

/** Interval of checks and heartbeats, in milliseconds. */
const EVERY_MS = 1_000;

/** Longest pause before a restart, in milliseconds. */
const MAX_PAUSE_MS = 60_000;

/** Uptime after which earlier restarts don't count, in milliseconds. */
const STEADY_MS = 10 * 60_000;

type EndingSignal = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGKILL";

interface SuperviseOptions {
  /** Starts the server with an IPC channel. */
  readonly start: () => ChildProcess;
  /** Receives the reason of each restart. */
  readonly log: (sentence: string) => void;
  readonly everyMs?: number;
}

interface Supervised {
  /** Exit code, once the server has ended by itself or by a signal. */
  readonly code: Promise<number>;
  /** Forwards a signal and disables restarts. */
  readonly end: (signal: EndingSignal) => void;
}

/**
 * Starts a server and restarts it after ten missed heartbeats in a row. Times when the server or this process was
 * suspended don't count. A server that exits isn't restarted.
 */
export function supervise({ start, log, everyMs = EVERY_MS }: SuperviseOptions): Supervised {
  const endRequested = Promise.withResolvers<void>();
  let isEnding = false;
  let isAlive = false;
  const begin = () => {
    const child = start();
    child.on("message", () => isAlive = true);
    const status = new Promise<number>((resolve, reject) => {
      child.on("error", reject);
      child.on("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal!]));
    });
    return { child, status };
  };
  let server = begin();
  const kill = (signal: EndingSignal) => {
    try {
      // ChildProcess.kill() would mark it as killed, whatever its exit code.
      if (server.child.pid !== undefined) Deno.kill(server.child.pid, signal);
    } catch {
      // It has already ended.
    }
  };

  /** Returns true once the server doesn't answer, false if it ended. */
  const hangs = async (): Promise<boolean> => {
    const ended = server.status.then(() => true);
    isAlive = false;
    // The time before the first heartbeat is unlimited: the first start installs dependencies.
    let silent = -Infinity;
    for (;;) {
      if (await within(everyMs, ended)) return false;
      silent = isAlive ? 0 : silent + 1;
      isAlive = false;
      if (silent < PATIENCE) continue;
      if (!isEnding && !await isStopped(server.child.pid)) return true;
      silent = 0;
    }
  };

  const run = async (): Promise<number> => {
    for (let times = 0;;) {
      const startedAt = performance.now();
      if (!await hangs()) return await server.status;
      kill("SIGKILL");
      const code = await server.status;
      times = performance.now() - startedAt > STEADY_MS ? 1 : times + 1;
      const pauseMs = Math.min(everyMs * 2 ** (times - 1), MAX_PAUSE_MS);
      log(
        `Ended the server: it didn't respond for ${PATIENCE * everyMs / 1000} s. It is restarted in ${
          pauseMs / 1000
        } s.`,
      );
      await within(pauseMs, endRequested.promise);
      if (isEnding) return code;
      server = begin();
    }
  };

  return {
    code: run(),
    end(signal) {
      isEnding = true;
      endRequested.resolve();
      kill(signal);
    },
  };
}

/** Sends heartbeats to the parent process. Returns a function that stops them. */
export function sendHeartbeats(everyMs: number = EVERY_MS): () => void {
  // There may be no parent with an IPC channel.
  const tell = () => process.connected && process.send?.("alive", () => {});
  const timer = setInterval(tell, everyMs);
  Deno.unrefTimer(timer);
  return () => clearInterval(timer);
}

/** Whether a signal or debugger stopped the process. */
async function isStopped(pid: number | undefined): Promise<boolean> {
  if (Deno.build.os === "windows") return false;
  try {
    const { stdout } = await new Deno.Command("ps", { args: ["-o", "stat=", "-p", `${pid}`] }).output();
    return /^t/i.test(new TextDecoder().decode(stdout).trim());
  } catch {
    return false;
  }
}

async function within(ms: number, done: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([done.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
