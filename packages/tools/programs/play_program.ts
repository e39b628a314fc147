import { AsyncLocalStorage } from "node:async_hooks";
import process from "node:process";
import type { Worker } from "node:worker_threads";
import type { ToolContext, ToolOutput } from "@tare/messages";
import { createRunner, getHostFunctionContext, RunError, setMaxWorkers } from "run";
import { type Ended, type Given, playIn } from "./in_engine.ts";

const MAX_AT_ONCE = 8;

const COMPUTES_MS = 3_000;

const READ_EVERY_MS = 100;

const MEMORY_BYTES = 64 * 2 ** 20;

const MAX_PRINTED = 256 * 1024;

const MAX_ARGUMENTS = 1024 * 1024;

/** Maximum of calls; a program that ignores the error is ended. */
const MAX_REQUESTED = 1_000;

/** Growth of the process, in bytes, after which the worker is replaced. */
const RETAINED_BYTES = 32 * 2 ** 20;

/** Engine limits that don't limit the program: its replay log, and data that crosses to it. */
const ENOUGH = 2 ** 30;

setMaxWorkers(MAX_AT_ONCE);

const runner = createRunner({
  continuationSecret: "nothing is ever resumed with this secret",
  limits: {
    timeoutMs: 2 ** 31 - 1,
    memoryLimitBytes: MEMORY_BYTES,
    maxBridgeRequests: MAX_REQUESTED,
    maxInFlightBridgeRequests: MAX_REQUESTED,
    maxHostFunctionArgumentsBytes: 4 * (MAX_ARGUMENTS + MAX_PRINTED),
    maxHostFunctionOutputBytes: ENOUGH,
    maxResultBytes: ENOUGH,
    maxContinuationBytes: ENOUGH,
  },
});

/** Prefix of a program: unused parameters hide globals, which the program's own block may redeclare. */
const BEFORE = `"use strict";
const playIn = ${playIn};
return await playIn(host, GIVEN, async (tools, print, console, Date, Math, globalThis, host, playIn) => {{
`;

const AFTER = "\n}});";

const LINES_BEFORE = BEFORE.split("\n").length - 1;
const ENGINE_LINES = 2;

/** Runs a program with the tools of the context. Its errors are error results. @throws the signal's reason */
export async function playProgram(
  code: string,
  { calls, callId = "", signal }: Pick<ToolContext, "calls" | "callId" | "signal">,
): Promise<ToolOutput> {
  if (!calls) return { content: "Cannot run a program: nothing can be called here.", error: true };
  const giveBack = await place(signal);
  const given: Given = {
    ...{ nowMs: calls.beganAtMs, seed: seedOf(callId, calls.beganAtMs) },
    ...{ mostPrinted: MAX_PRINTED, mostArguments: MAX_ARGUMENTS },
  };
  const usage = new EngineUsage(signal);
  let printed = "";
  // A program may reach this function itself, with any arguments.
  const call = async (name: unknown, args: unknown, more: unknown) => {
    printed = (printed + String(more)).slice(0, MAX_PRINTED);
    const { interrupt } = getHostFunctionContext();
    return await calls.call(String(name), JSON.parse(String(args))) ?? interrupt(null);
  };
  try {
    const ended = await usages.run(usage, () =>
      runner.run<Ended>({
        source: BEFORE.replace("GIVEN", () => JSON.stringify(given)) + code + AFTER,
        hostFunctions: { host: { call, rest: () => Promise.resolve() } },
        abortSignal: usage.signal,
      }));
    if (ended.status === "interrupted") return { content: "", error: false, waits: true };
    const { failure, printed: rest } = ended.value;
    const content = (printed + rest).replace(/\n$/, "");
    if (!failure) return content === "" ? "It printed nothing." : content;
    return failed(problemOf(failure, { code, engineLines: ENGINE_LINES }), content);
  } catch (error) {
    signal.throwIfAborted();
    if (!RunError.isInstance(error) && !(error instanceof Error && "code" in error)) throw error;
    const problem = usage.isOver || isTimeout(error) ? TOO_LONG : problemOf(error, { code, engineLines: 0 });
    return failed(problem, printed.replace(/\n$/, ""));
  } finally {
    usage.end();
    giveBack();
  }
}

function failed(problem: string, printed: string): ToolOutput {
  const before = printed === "" ? "It had printed nothing." : `It had printed:\n${printed}`;
  return { content: `The program failed. ${problem}\n\n${before}`, error: true };
}

const TOO_LONG =
  "It computed for too long without calling a tool. Look for a loop that doesn't end, or do less in one program.";

function isTimeout(error: Error): boolean {
  return "code" in error && error.code === "RUN_TIMEOUT";
}

function problemOf(
  { name, message, stack = "" }: Pick<Error, "name" | "message" | "stack">,
  program: { readonly code: string; readonly engineLines: number },
): string {
  return /out of memory/.test(message)
    ? `It used more than the ${MEMORY_BYTES / 2 ** 20} MB that a program may. Keep less at a time.`
    : `${name}: ${message}${placesOf(stack, program)}`;
}

function placesOf(
  stack: string,
  { code, engineLines }: { readonly code: string; readonly engineLines: number },
): string {
  const lines = code.split("\n").length;
  return [...stack.matchAll(/at (?:(\S+) \()?run\.js:(\d+):(\d+)/g)].map(([, name, line, column]) => {
    const own = Number(line) - engineLines - LINES_BEFORE;
    if (own < 1 || own > lines) return "";
    return `\n  at line ${own}, column ${column}${name && name !== "<anonymous>" ? ` (${name})` : ""}`;
  }).join("");
}

function seedOf(callId: string, beganAtMs: number): number {
  let hash = beganAtMs | 0;
  for (const char of callId) hash = Math.imul(hash ^ char.codePointAt(0)!, 16_777_619);
  return hash;
}

type EngineWorker = Worker & { cpuUsage?(): Promise<NodeJS.CpuUsage> };

const usages = new AsyncLocalStorage<EngineUsage>();

// The engine starts and reuses its workers internally and listens to one per program, in the program's
// context.
process.on("worker", (worker: EngineWorker) => {
  usages.getStore()?.attach(worker);
  worker.on("newListener", (event) => {
    if (event === "message") usages.getStore()?.attach(worker);
  });
});

const usageByWorker = new WeakMap<EngineWorker, EngineUsage>();

const baselines = new WeakMap<EngineWorker, number>();

const ENGINE_BYTES = 64 * 2 ** 20;

/** Resources of a program. Ends it if it uses too much processor time, without waits for calls. */
class EngineUsage {
  readonly #over = new AbortController();
  readonly signal: AbortSignal;
  readonly #timer = setInterval(() => void this.#read(), READ_EVERY_MS);
  #worker: EngineWorker | undefined;
  #from: number | undefined;

  constructor(signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#over.signal]);
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  attach(worker: EngineWorker): void {
    if (usageByWorker.get(worker) === this) return;
    this.#worker = worker;
    usageByWorker.set(worker, this);
    if (!baselines.has(worker)) baselines.set(worker, process.memoryUsage.rss() + ENGINE_BYTES);
    void this.#read();
  }

  /**
   * Ends the readings. A worker that retains too much memory is ended, because its garbage outside of the
   * heap is collected late.
   */
  end(): void {
    clearInterval(this.#timer);
    const worker = this.#worker;
    if (!worker || usageByWorker.get(worker) !== this) return;
    if (process.memoryUsage.rss() < baselines.get(worker)! + RETAINED_BYTES) return;
    // The engine doesn't reuse a worker that failed.
    if (worker.listenerCount("error") > 0) worker.emit("error", new Error("It retains too much memory."));
    void worker.terminate();
  }

  async #read(): Promise<void> {
    if (!this.#worker) return;
    const used = await this.#worker.cpuUsage?.().catch(() => undefined) ?? process.cpuUsage();
    const ms = (used.user + used.system) / 1_000;
    this.#from ??= ms;
    if (ms - this.#from >= COMPUTES_MS) this.#over.abort();
  }
}

let running = 0;
const waiting = new Set<() => void>();

/** Resolves to a release function once one more program may run. @throws the signal's reason */
async function place(signal: AbortSignal): Promise<() => void> {
  signal.throwIfAborted();
  const giveBack = () => {
    const [next] = waiting;
    if (!next) running--;
    else {
      waiting.delete(next);
      next();
    }
  };
  if (running < MAX_AT_ONCE) {
    running++;
    return giveBack;
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stop = () => {
    waiting.delete(resolve);
    reject(signal.reason);
  };
  waiting.add(resolve);
  signal.addEventListener("abort", stop);
  await promise.finally(() => signal.removeEventListener("abort", stop));
  return giveBack;
}
