import { AsyncLocalStorage } from "node:async_hooks";
import process from "node:process";
import type { Worker } from "node:worker_threads";
import type { ToolContext, ToolOutput } from "@tare/messages";
import { createRunner, getHostFunctionContext, RunError, setMaxWorkers } from "run";
import { type Ended, type Given, playIn } from "./in_engine.ts";

/** Most programs that run at the same time in this process; more wait. */
const MOST_AT_ONCE = 8;

/** Processor time that a program may use, in milliseconds. */
const COMPUTES_MS = 3_000;

/** Interval at which the processor time is read, in milliseconds. */
const READ_EVERY_MS = 100;

/** Memory that a program may use, in bytes. */
const MEMORY_BYTES = 64 * 2 ** 20;

/** Most that a program may print, in UTF-16 code units. */
const MOST_PRINTED = 256 * 1024;

/** Longest arguments of a call, in UTF-16 code units of their JSON. */
const MOST_ARGUMENTS = 1024 * 1024;

/** What a program that doesn't mind what it is told may ask for before it is ended. */
const MOST_ASKED = 1_000;

/** Growth of the process, in bytes, after which the worker of its programs is replaced. */
const RETAINED_BYTES = 32 * 2 ** 20;

/** The engine's limits that aren't the program's: what it holds for a replay of its own, and what crosses to it. */
const ENOUGH = 2 ** 30;

setMaxWorkers(MOST_AT_ONCE);

// It can stop where nothing goes on any more, and tell so; that it could go on from there by itself isn't made use of.
const runner = createRunner({
  continuationSecret: "nothing is ever resumed with this secret",
  limits: {
    timeoutMs: 2 ** 31 - 1,
    memoryLimitBytes: MEMORY_BYTES,
    maxBridgeRequests: MOST_ASKED,
    maxInFlightBridgeRequests: MOST_ASKED,
    maxHostFunctionArgumentsBytes: 4 * (MOST_ARGUMENTS + MOST_PRINTED),
    maxHostFunctionOutputBytes: ENOUGH,
    maxResultBytes: ENOUGH,
    maxContinuationBytes: ENOUGH,
  },
});

/** Prefix of a program: parameters without arguments hide names, and its own block may redeclare them. */
const BEFORE = `"use strict";
const playIn = ${playIn};
return await playIn(host, GIVEN, async (tools, print, console, Date, Math, globalThis, host, playIn) => {{
`;

const AFTER = "\n}});";

/** Lines in front of a program: ours, and with those of the engine where it tells of them. */
const LINES_BEFORE = BEFORE.split("\n").length - 1;
const ENGINE_LINES = 2;

/** Runs a program; its calls go by the context. What it did wrong is an error result. @throws the signal's reason */
export async function playProgram(
  code: string,
  { calls, callId = "", signal }: Pick<ToolContext, "calls" | "callId" | "signal">,
): Promise<ToolOutput> {
  if (!calls) return { content: "Cannot run a program: nothing can be called here.", error: true };
  const giveBack = await place(signal);
  const given: Given = {
    ...{ nowMs: calls.beganAtMs, seed: seedOf(callId, calls.beganAtMs) },
    ...{ mostPrinted: MOST_PRINTED, mostArguments: MOST_ARGUMENTS },
  };
  const usage = new EngineUsage(signal);
  let printed = "";
  // A program may have got at this by itself, and hand over what it likes.
  const call = async (name: unknown, args: unknown, more: unknown) => {
    printed = (printed + String(more)).slice(0, MOST_PRINTED);
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

/** Whether the engine has stopped it: it counts what a program computes. */
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

/** Where in the program something happened, innermost first, in its own lines. */
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

/** A number that is the same for the same call. */
function seedOf(callId: string, beganAtMs: number): number {
  let hash = beganAtMs | 0;
  for (const char of callId) hash = Math.imul(hash ^ char.codePointAt(0)!, 16_777_619);
  return hash;
}

/** A worker of the engine. Deno and Node from 24.6 on report the processor time of one. */
type EngineWorker = Worker & { cpuUsage?(): Promise<NodeJS.CpuUsage> };

/** The program on whose behalf the engine acts. */
const usages = new AsyncLocalStorage<EngineUsage>();

// The engine starts and reuses its workers unseen. It listens to one for each program, in the program's context.
process.on("worker", (worker: EngineWorker) => {
  usages.getStore()?.attach(worker);
  worker.on("newListener", (event) => {
    if (event === "message") usages.getStore()?.attach(worker);
  });
});

/** The newest program of a worker. */
const users = new WeakMap<EngineWorker, EngineUsage>();

/** Memory of the process when a worker's first program began, with what the engine itself takes. */
const baselines = new WeakMap<EngineWorker, number>();

/** Memory of a worker's engine, in bytes. */
const ENGINE_BYTES = 64 * 2 ** 20;

/** Resources of a program. Ends it if it uses too much processor time; waiting for calls doesn't count. */
class EngineUsage {
  readonly #over = new AbortController();
  readonly signal: AbortSignal;
  readonly #timer = setInterval(() => void this.#read(), READ_EVERY_MS);
  #worker: EngineWorker | undefined;
  /** Processor time at the first reading, in milliseconds: a worker has had programs before. */
  #from: number | undefined;

  constructor(signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#over.signal]);
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  attach(worker: EngineWorker): void {
    if (users.get(worker) === this) return;
    this.#worker = worker;
    users.set(worker, this);
    if (!baselines.has(worker)) baselines.set(worker, process.memoryUsage.rss() + ENGINE_BYTES);
    void this.#read();
  }

  /** Ends the reading. A worker that retains too much is ended: its garbage is collected late, as it lies outside the heap. */
  end(): void {
    clearInterval(this.#timer);
    const worker = this.#worker;
    if (!worker || users.get(worker) !== this) return;
    if (process.memoryUsage.rss() < baselines.get(worker)! + RETAINED_BYTES) return;
    // The engine doesn't use a worker any more that has failed.
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

/** Resolves once one more program may run, to what makes room again. @throws the signal's reason */
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
  if (running < MOST_AT_ONCE) {
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
