import { describeCall, type ResolvedCall, type ToolCall } from "@tare/messages";
import { distance } from "fastest-levenshtein";
import type { AnsweredCall, AskedCall, Judge } from "../approval.ts";
import type { PreparedTool } from "../run_options.ts";
import type { Clock, Watchdog } from "../watchdog.ts";

/** How a call came out. */
export interface CallOutcome {
  /** The text for the model. */
  readonly content: string;
  /** True if the call failed. */
  readonly error: boolean;
  /** True if the call ran and may have changed what other calls will find. */
  readonly changedState: boolean;
}

/** What a call is run with. */
export interface RunCallOptions {
  /** The tools by name. */
  readonly tools: ReadonlyMap<string, PreparedTool>;
  /** Longest time of a call of a tool that doesn't say, in milliseconds. */
  readonly toolTimeoutMs: number;
  /** Stops the call with the turn, and is told of the tool's progress. */
  readonly watchdog: Watchdog;
  readonly clock: Clock;
  /** Says whether the call may run. */
  readonly judge: Judge;
  /** Why nobody can be asked, in a sentence for the model. Default: somebody can. */
  readonly cannotAsk?: string;
  /** What somebody said of it who was asked. Default: nobody was. */
  readonly answer?: AnsweredCall | undefined;
  /** Takes what the call gives while it runs. */
  readonly output: (text: string) => void;
}

/** A call that didn't run, because somebody has to be asked first. */
export interface OpenCall {
  readonly asked: AskedCall;
}

/**
 * Runs one call, if it may. Whatever goes wrong is an outcome that helps the model to mend the call: it never rejects, and
 * once the turn is stopped or the call's time is up it doesn't wait for the tool.
 */
export async function runCall(call: ToolCall, options: RunCallOptions): Promise<CallOutcome | OpenCall> {
  const { tools, toolTimeoutMs, watchdog, clock, judge, cannotAsk, answer, output: show } = options;
  const { name, arguments: text } = describeCall(call);
  if (answer?.denied !== undefined) return refused(`Cannot run ${name}: ${answer.denied}`);
  const prepared = tools.get(name);
  if (!prepared) return refused(unknownTool(name, tools));
  const parsed = parse(prepared, text);
  if (!parsed.ok) return refused(parsed.problem);
  if (watchdog.signal.aborted) return refused(`Cannot run ${name}: the turn was stopped before it started.`);
  const resolved = prepared.tool.resolve?.(parsed.value) ?? { tool: prepared.tool, args: parsed.value };
  if ("problem" in resolved) return refused(resolved.problem);

  // A yes to what was asked is no yes to what has been forbidden since, nor to anything else.
  const judgement = judge(resolved);
  if (judgement.decision === "deny") return refused(`Cannot run ${name}: ${judgement.reason}`);
  const asked = askedFor(call, resolved);
  if (answer && !isSame(asked, answer.asked)) return refused(`Cannot run ${name}: ${HAS_CHANGED}`);
  if (judgement.decision === "ask" && !answer) {
    return cannotAsk === undefined ? { asked } : refused(`Cannot run ${name}: ${cannotAsk}`);
  }

  const { tool, args } = resolved;
  const timeoutMs = tool.timeoutMs ?? toolTimeoutMs;
  const limit = new AbortController();
  const disarm = clock.after(timeoutMs, () => limit.abort(new DOMException("Time is up.", "TimeoutError")));
  const signal = AbortSignal.any([watchdog.signal, limit.signal]);
  const changedState = tool.stance !== "rederivable";
  try {
    const { progress } = watchdog;
    const output = await untilAborted(
      signal,
      watchdog,
      () => tool.run(args, { signal, progress, output: show, callId: call.id }),
    );
    return typeof output === "string"
      ? { content: output, error: false, changedState }
      : { content: output.content, error: output.error, changedState };
  } catch (error) {
    const content = limit.signal.aborted
      ? `Cannot finish ${name}: it ran into its limit of ${
        timeoutMs / 1000
      } s and was stopped. Ask for less in one call.`
      : signal.aborted
      ? `Cannot finish ${name}: the turn was stopped before it ended.`
      : messageOf(error, name);
    return { content, error: true, changedState };
  } finally {
    disarm();
  }
}

/** Of a tool that isn't listed nobody has looked at the schema yet. */
function parse({ parse }: PreparedTool, text: string): ReturnType<PreparedTool["parse"]> {
  try {
    return parse(text);
  } catch (error) {
    return { ok: false, problem: (error as Error).message };
  }
}

const HAS_CHANGED =
  "its tools have changed, and it isn't what was asked for and allowed any more. Call again if you need it.";

function askedFor({ id }: ToolCall, { tool, args }: ResolvedCall): AskedCall {
  return { id, name: tool.definition.function.name, arguments: JSON.stringify(args) };
}

function isSame(one: AskedCall, other: AskedCall): boolean {
  return one.name === other.name && one.arguments === other.arguments;
}

function refused(content: string): CallOutcome {
  return { content, error: true, changedState: false };
}

/** Longest name that is repeated and compared with those of the tools; providers allow 64 characters. */
const MAX_NAME = 200;

function unknownTool(name: string, tools: RunCallOptions["tools"]): string {
  const closest = name.length > MAX_NAME ? undefined : closestName(name, [...tools.keys()]);
  const names = [...tools].flatMap(([name, { isListed }]) => isListed ? [name] : []);
  const shown = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
  return `Cannot run "${shown}": there is no such tool. ` + (closest ? `Did you mean ${closest}? ` : "") +
    (names.length > 0 ? `The tools are: ${names.join(", ")}.` : "There are no tools: answer without.");
}

/**
 * The name that was probably meant: the one with the smallest edit distance (Levenshtein), case, `-` and `_` apart,
 * if it differs in no more than a third of its characters.
 */
function closestName(given: string, names: readonly string[]): string | undefined {
  const plain = (name: string) => name.toLowerCase().replaceAll(/[-_]/g, "");
  return names.map((name) => ({ name, edits: distance(plain(given), plain(name)) }))
    .filter(({ name, edits }) => edits <= name.length / 3)
    .sort((a, b) => a.edits - b.edits)[0]?.name;
}

function messageOf(error: unknown, name: string): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  return message || `Cannot finish ${name}: it failed without saying why.`;
}

async function untilAborted<T>(
  signal: AbortSignal,
  watchdog: Watchdog,
  run: () => Promise<T> | T,
): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", onAbort);
  try {
    // Not Promise.try(): Node has it from 24 on.
    const work = new Promise<T>((resolve) => resolve(run()));
    watchdog.track(work);
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
