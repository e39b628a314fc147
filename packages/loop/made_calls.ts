import type {
  CountTokens,
  FileChange,
  FunctionToolCall,
  NestedResult,
  Tool,
  ToolCall,
  ToolDefinition,
} from "@tare/messages";
import type { NestedCalls } from "@tare/messages/internal";
import type { AskedCall, Journal, LoopEvent } from "./event.ts";
import type { Clock } from "./run_options.ts";

/** Most calls that one call may make. */
const MOST_CALLS = 256;

interface MadeCallsOptions {
  readonly step: number;
  /** What it has made before. Absent: it runs for the first time. */
  readonly journal: Journal | undefined;
  /** The time in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly tools: ReadonlyMap<string, { readonly tool: Tool }>;
  /** Tools that the caller runs: nobody waits for these in the middle of a call. */
  readonly clientTools: readonly ToolDefinition[];
  /** Most that run at the same time. */
  readonly maxParallelTools: number;
  readonly clock: Clock;
  readonly countTokens: CountTokens;
  /** Tells of an event; resolves once whoever plays the turn has taken it. */
  readonly tell: (event: LoopEvent) => Promise<void>;
  /** Runs a call, by what somebody said of it; `begins` is called right before its tool runs. Never rejects. */
  readonly run: (call: ToolCall, begins: () => Promise<void>) => Promise<
    { readonly asked: readonly AskedCall[] } | Outcome
  >;
}

interface Outcome extends NestedResult {
  readonly changedState: boolean;
  readonly change?: FileChange | undefined;
}

/** Nested calls. When their call runs again, recorded results are replayed in order; only the others run. */
export class MadeCalls implements NestedCalls {
  readonly beganAtMs: number;
  readonly #parent: ToolCall;
  readonly #options: MadeCallsOptions;
  /** What ended before, by its call, and when it is given again. */
  readonly #known = new Map<
    string,
    { readonly result: NestedResult; readonly turn: PromiseWithResolvers<void> }
  >();
  /** Those of them that are still to be given, in their order. */
  readonly #left: string[];
  readonly #replayed = Promise.withResolvers<void>();
  readonly #running = new Set<Promise<unknown>>();
  /** Those that run when there is room. */
  readonly #waiting: (() => void)[] = [];
  #busy = 0;
  #made = 0;
  #failed = 0;
  #tokens = 0;
  readonly #wrote = new Map<string, string | undefined>();
  #changedState = false;
  #asked: readonly AskedCall[] = [];
  #diverged: string | undefined;

  /** None was made yet that isn't in the journal. */
  constructor(parent: ToolCall, options: MadeCallsOptions) {
    const { journal, nowMs } = this.#options = options;
    this.#parent = parent;
    this.beganAtMs = journal?.beganAtMs ?? nowMs;
    const results = journal?.results ?? [];
    for (const { id, content, error } of results) {
      this.#known.set(id, { result: { content, error }, turn: Promise.withResolvers() });
    }
    this.#left = results.map(({ id }) => id);
    this.#giveNext();
  }

  /** Those that somebody has to be asked for. */
  get asked(): readonly AskedCall[] {
    return this.#asked;
  }

  /** What was called otherwise than before, so that nothing goes on. Absent: nothing was. */
  get diverged(): string | undefined {
    return this.#diverged;
  }

  /** Whether any may have changed what others will find. */
  get changedState(): boolean {
    return this.#changedState;
  }

  /** What was written, by the arguments that say so, in the order of the calls, whichever ended first. */
  get wrote(): readonly string[] {
    return [...new Set(this.#wrote.values())].filter((path) => path !== undefined);
  }

  /** What they came to, for a call that returns this. */
  sum(content: string): { readonly calls: number; readonly failed: number; readonly keptTokens: number } {
    const keptTokens = Math.max(0, this.#tokens - this.#options.countTokens(content));
    return { calls: this.#made, failed: this.#failed, keptTokens };
  }

  /** Resolves once none runs. */
  async ended(): Promise<void> {
    await Promise.all(this.#running);
  }

  async call(name: string, args: unknown): Promise<NestedResult | undefined> {
    const { journal } = this.#options;
    if (this.#made === MOST_CALLS) {
      const content =
        `Cannot call ${name}: ${MOST_CALLS} calls were made, and no more may be. Print what there is.`;
      return { content, error: true };
    }
    const id = `${this.#parent.id}/${++this.#made}`;
    this.#wrote.set(id, undefined);
    const text = JSON.stringify(args ?? {});
    const call = { id, type: "function", function: { name, arguments: text } } as const;
    const before = journal?.made.get(id);
    if (before && (before.name !== name || before.arguments !== text)) {
      this.#diverged ??=
        `call ${this.#made} was ${before.name} ${before.arguments}, and is ${name} ${text} now`;
    }
    if (this.#diverged !== undefined) return undefined;
    const known = this.#known.get(id);
    if (known) {
      await known.turn.promise;
      this.#giveNext();
      this.#book(call, known.result);
      return known.result;
    }
    await this.#replayed.promise;
    const running = this.#run(call);
    this.#running.add(running);
    return await running.finally(() => this.#running.delete(running));
  }

  /** What is known is given as soon as its call is made and all before it is given. */
  #giveNext(): void {
    const id = this.#left.shift();
    if (id === undefined) this.#replayed.resolve();
    else this.#known.get(id)!.turn.resolve();
  }

  async #run(call: FunctionToolCall): Promise<NestedResult | undefined> {
    const { step, maxParallelTools, clock, tell } = this.#options;
    const { id, function: { name, arguments: text } } = call;
    const of = { parent: this.#parent.id, beganAtMs: this.beganAtMs };
    let told: Promise<void> | undefined;
    const begins = () => told = tell({ type: "tool_call", step, id, name, arguments: text, ...of });
    if (this.#busy === maxParallelTools) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#busy++;
    const startedAt = clock.now();
    const outcome = this.#refused(name) ?? await this.#options.run(call, begins);
    const next = this.#waiting.shift();
    if (next) next();
    else this.#busy--;
    if ("asked" in outcome) {
      this.#asked = [...this.#asked, ...outcome.asked.map((one) => ({ ...one, ...of }))];
      return undefined;
    }
    const { content, error, change } = outcome;
    if (!told) begins();
    const bytes = new TextEncoder().encode(content).length;
    const result = { content, error, bytes, durationMs: clock.now() - startedAt, ...(change && { change }) };
    tell({ type: "tool_result", step, id, name, ...result, parent: of.parent });
    this.#changedState ||= outcome.changedState;
    this.#book(call, outcome);
    return { content, error };
  }

  /** Why a call can't be made from within another. */
  #refused(name: string): Outcome | undefined {
    const { clientTools, tools } = this.#options;
    const why = clientTools.some((tool) => tool.function.name === name)
      ? "whoever asked runs it, and a program can't wait for that. Call it directly."
      : tools.get(name)?.tool.replays
      ? "a program can't start another one."
      : undefined;
    return why === undefined
      ? undefined
      : { content: `Cannot call ${name} from a program: ${why}`, error: true, changedState: false };
  }

  #book(
    { id, function: { name, arguments: text } }: FunctionToolCall,
    { content, error }: NestedResult,
  ): void {
    this.#tokens += this.#options.countTokens(content);
    if (error) {
      this.#failed++;
      return;
    }
    const tool = this.#options.tools.get(name)?.tool;
    const args: Readonly<Record<string, unknown>> = JSON.parse(text);
    const meant = tool?.resolve?.(args) ?? (tool && { tool, args });
    const path = meant && "tool" in meant && meant.tool.writes !== undefined && meant.args[meant.tool.writes];
    if (typeof path === "string") this.#wrote.set(id, path);
  }
}
