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
import type { Journal, LoopEvent, PendingCall } from "./event.ts";
import type { Clock } from "./run_options.ts";

/** Most nested calls of one call. */
const MAX_CALLS = 256;

interface MadeCallsOptions {
  readonly step: number;
  /** Earlier nested calls. `undefined` in a first run. */
  readonly journal: Journal | undefined;
  readonly nowMs: number;
  readonly tools: ReadonlyMap<string, { readonly tool: Tool }>;
  /** Tools that the caller runs; they can't be nested. */
  readonly clientTools: readonly ToolDefinition[];
  readonly maxParallelTools: number;
  readonly clock: Clock;
  readonly countTokens: CountTokens;
  /** Resolves once the event was handled. */
  readonly emit: (event: LoopEvent) => Promise<void>;
  /** `begins` is called right before the tool runs. Never rejects. */
  readonly run: (call: ToolCall, begins: () => Promise<void>) => Promise<
    { readonly pending: readonly PendingCall[] } | Outcome
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
  /** Recorded results; `turn` resolves when one may be replayed. */
  readonly #known = new Map<
    string,
    { readonly result: NestedResult; readonly turn: PromiseWithResolvers<void> }
  >();
  readonly #left: string[];
  readonly #replayed = Promise.withResolvers<void>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #waiting: (() => void)[] = [];
  #busy = 0;
  #made = 0;
  #failed = 0;
  #tokens = 0;
  readonly #wrote = new Map<string, string | undefined>();
  #changedState = false;
  #pending: readonly PendingCall[] = [];
  #diverged: string | undefined;

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

  /** Calls that need an approval. */
  get pending(): readonly PendingCall[] {
    return this.#pending;
  }

  /** The call that differs from the recorded one; nothing more runs. */
  get diverged(): string | undefined {
    return this.#diverged;
  }

  get changedState(): boolean {
    return this.#changedState;
  }

  get wrote(): readonly string[] {
    return [...new Set(this.#wrote.values())].filter((path) => path !== undefined);
  }

  /** Returns totals for a call that returns `content`. */
  sum(content: string): { readonly calls: number; readonly failed: number; readonly omittedTokens: number } {
    const omittedTokens = Math.max(0, this.#tokens - this.#options.countTokens(content));
    return { calls: this.#made, failed: this.#failed, omittedTokens };
  }

  async ended(): Promise<void> {
    await Promise.all(this.#running);
  }

  async call(name: string, args: unknown): Promise<NestedResult | undefined> {
    const { journal } = this.#options;
    if (this.#made === MAX_CALLS) {
      const content =
        `Cannot call ${name}: ${MAX_CALLS} calls were made, which is the limit. Print the results so far.`;
      return { content, error: true };
    }
    const id = `${this.#parent.id}/${++this.#made}`;
    this.#wrote.set(id, undefined);
    const text = JSON.stringify(args ?? {});
    const call = { id, type: "function", function: { name, arguments: text } } as const;
    const before = journal?.made.get(id);
    if (before && (before.name !== name || before.arguments !== text)) {
      this.#diverged ??=
        `call ${this.#made} was ${before.name} ${before.arguments}, and is now ${name} ${text}`;
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

  /** Results are replayed in order, each once its call is made. */
  #giveNext(): void {
    const id = this.#left.shift();
    if (id === undefined) this.#replayed.resolve();
    else this.#known.get(id)!.turn.resolve();
  }

  async #run(call: FunctionToolCall): Promise<NestedResult | undefined> {
    const { step, maxParallelTools, clock, emit } = this.#options;
    const { id, function: { name, arguments: text } } = call;
    const of = { parent: this.#parent.id, beganAtMs: this.beganAtMs };
    let reporting: Promise<void> | undefined;
    const begins = () => reporting = emit({ type: "tool_call", step, id, name, arguments: text, ...of });
    if (this.#busy === maxParallelTools) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#busy++;
    const startedAt = clock.now();
    const outcome = this.#refused(name) ?? await this.#options.run(call, begins);
    const next = this.#waiting.shift();
    if (next) next();
    else this.#busy--;
    if ("pending" in outcome) {
      this.#pending = [...this.#pending, ...outcome.pending.map((one) => ({ ...one, ...of }))];
      return undefined;
    }
    const { content, error, change } = outcome;
    if (!reporting) begins();
    const bytes = new TextEncoder().encode(content).length;
    const result = { content, error, bytes, durationMs: clock.now() - startedAt, ...(change && { change }) };
    emit({ type: "tool_result", step, id, name, ...result, parent: of.parent });
    this.#changedState ||= outcome.changedState;
    this.#book(call, outcome);
    return { content, error };
  }

  #refused(name: string): Outcome | undefined {
    const { clientTools, tools } = this.#options;
    const why = clientTools.some((tool) => tool.function.name === name)
      ? "the client runs it, and a program can't wait for that. Call it directly."
      : tools.get(name)?.tool.replays
      ? "programs can't be nested."
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
