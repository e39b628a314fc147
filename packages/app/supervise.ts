import type { ChildProcess } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";

/** So many looks in a row find nothing of a server that doesn't answer. */
const PATIENCE = 10;

/** How often is looked, and the server says that it is alive, in milliseconds. */
const EVERY_MS = 1_000;

/** Longest pause before a server is started again that stops answering again and again, in milliseconds. */
const MAX_PAUSE_MS = 60_000;

/** Of one that has answered so long earlier times don't count any more, in milliseconds. */
const STEADY_MS = 10 * 60_000;

/** How a server is told to end. */
type EndingSignal = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGKILL";

/** How a server is started and watched. */
interface SuperviseOptions {
  /** Starts it with a way to send messages to this process. */
  readonly start: () => ChildProcess;
  /** Told why a server was ended. */
  readonly log: (sentence: string) => void;
  /** How often is looked, in milliseconds. Default: 1,000. */
  readonly everyMs?: number;
}

/** A server that is watched. */
interface Supervised {
  /** Its exit code, once it has ended by itself or because it was told to. */
  readonly code: Promise<number>;
  /** Passes a signal on; none is started again from then on. */
  readonly end: (signal: EndingSignal) => void;
}

/**
 * Starts a server, and ends and starts it again when it doesn't answer: when what it does all the time, to say that it is
 * alive, is missing for ten looks in a row. A process that somebody has stopped, by a signal or a debugger, isn't meant;
 * nor is time for which this process stood still too, as on a machine that sleeps. One that ends by itself stays so.
 */
export function supervise({ start, log, everyMs = EVERY_MS }: SuperviseOptions): Supervised {
  const told = Promise.withResolvers<void>();
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
      // By its own method it would count as killed, with whatever code it ends.
      if (server.child.pid !== undefined) Deno.kill(server.child.pid, signal);
    } catch {
      // It has ended already.
    }
  };

  /** Gives true once the server doesn't answer, false if it has ended before. */
  const hangs = async (): Promise<boolean> => {
    const ended = server.status.then(() => true);
    isAlive = false;
    // What a server does before it listens may take any time: the first start installs what it needs.
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
        `Ended the server: it hadn't answered for ${PATIENCE * everyMs / 1000} s. It is started again in ${
          pauseMs / 1000
        } s.`,
      );
      await within(pauseMs, told.promise);
      if (isEnding) return code;
      server = begin();
    }
  };

  return {
    code: run(),
    end(signal) {
      isEnding = true;
      told.resolve();
      kill(signal);
    },
  };
}

/** Tells who has started this process that it is alive, again and again, until what is given is called. */
export function sayAlive(everyMs: number = EVERY_MS): () => void {
  // Nobody has started it who listens, or no longer.
  const tell = () => process.connected && process.send?.("alive", () => {});
  const timer = setInterval(tell, everyMs);
  Deno.unrefTimer(timer);
  return () => clearInterval(timer);
}

/** Whether a process was stopped by a signal or a debugger. */
async function isStopped(pid: number | undefined): Promise<boolean> {
  // There is no `ps`.
  if (Deno.build.os === "windows") return false;
  try {
    const { stdout } = await new Deno.Command("ps", { args: ["-o", "stat=", "-p", `${pid}`] }).output();
    return /^t/i.test(new TextDecoder().decode(stdout).trim());
  } catch {
    return false;
  }
}

/** Whether something is done in so many milliseconds. */
async function within(ms: number, done: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([done.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
