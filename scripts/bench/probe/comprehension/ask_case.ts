import { join } from "@std/path";
import { ModelError, run, type TurnLedger } from "@tare/loop";
import type { ContextHook, CountTokens, Message, Model } from "@tare/messages";
import { plannerSession, type Profile, type PromptSession, type PromptSessionOptions } from "@tare/planner";
import { promptSession } from "@tare/planner/policies";
import { type Archive, memoryArchive } from "@tare/prune";
import { OutOfBudget } from "../paid_model.ts";
import { type Case, type World, worldTools, writeFiles } from "./world.ts";

/** As much of a session as questions need. */
type Asked = Pick<PromptSession, "view" | "sent" | "state">;

/** Decides what the model sees of a session; nothing: all of it. */
export type MakePolicy = (options: PromptSessionOptions) => Asked | undefined;

/** The policies that are compared, by name. What the first one shows is everything, in full. */
export const POLICIES: Readonly<Record<string, MakePolicy>> = {
  none: () => undefined,
  // All of it once: references for what stands above, and no notation that says nothing.
  once: (options) => plannerSession({ ...options, forget: "nothing" }),
  classic: (options) => promptSession({ ...options, policy: "classic" }),
  // With references, which is how some profiles have it, so that each part is asked for.
  planner: (options) => plannerSession({ ...options, mechanisms: { references: true } }),
};

/** How one question was answered. */
export interface CaseResult {
  readonly passed: boolean;
  /** How the model came to it: by what its prompt showed, by recalling, or by reading and searching again. */
  readonly by: "shown" | "recall" | "read";
  /** Edits that failed on the way: their old text stands nowhere. */
  readonly failedEdits: number;
  /** What it said, cut. */
  readonly said: string;
  readonly usage: Pick<TurnLedger, "calls" | "promptTokens" | "cachedTokens" | "outputTokens">;
}

/** What questions are asked in. */
export interface Setting {
  readonly world: World;
  readonly model: Model;
  readonly modelName: string;
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly countTokens: CountTokens;
  /** A folder for the workspace. */
  readonly folder: string;
}

/** A session after it was left alone: who asks it something asks a copy. */
export interface IdleSession {
  readonly archive: Archive;
  /** The same state again, as after a restart; nothing: the whole prompt is sent. */
  readonly resume: () => Asked | undefined;
  /** When the questions are asked, in the time of the session. */
  readonly nowMs: number;
}

/** Time between two calls of the planted session. */
const CALL_MS = 20_000;

/** Most characters of an answer that are kept. */
const SAID_CHARS = 200;

/** Most model calls for a question. */
const MAX_STEPS = 20;

/**
 * Lets a policy see the planted session call by call, as if each had been sent, and then leaves it alone until its cache
 * surely is cold, which that of a prefix that no provider has seen is.
 */
export async function playPlanted(makePolicy: MakePolicy, setting: Setting): Promise<IdleSession> {
  const { world, modelName, profile, windowTokens, countTokens, folder } = setting;
  const archive = memoryArchive();
  const tools = worldTools(folder, archive);
  const traits = Object.fromEntries(tools.map((tool) => [tool.definition.function.name, tool]));
  const options = { profile, archive, countTokens, windowTokens, tools: traits };
  const session = makePolicy(options);
  let nowMs = 0;
  for (const [at, { role }] of world.history.entries()) {
    if (role !== "assistant" || !session) continue;
    nowMs += CALL_MS;
    const view = await session.view(
      { messages: world.history.slice(0, at), tools: tools.map(({ definition }) => definition) },
      { nowMs, model: modelName },
    );
    const { promptTokens, predictedCachedTokens } = view;
    session.sent({ promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 50 }, view);
  }
  const state = session?.state;
  return {
    archive,
    resume: () => makePolicy({ ...options, state }),
    nowMs: nowMs + profile.coldAfterMs,
  };
}

/**
 * Asks one question in a fresh workspace and judges what came of it.
 *
 * @throws {OutOfBudget} if the budget doesn't cover the next request.
 * @throws {ModelError} if the provider fails.
 */
export async function askCase(asked: Case, idle: IdleSession, setting: Setting): Promise<CaseResult> {
  const { world, model, modelName, folder } = setting;
  await Deno.remove(folder, { recursive: true }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
  await writeFiles(folder, world.files);
  const session = idle.resume();
  const turn = run({
    model,
    history: world.history,
    input: asked.question,
    tools: worldTools(folder, idle.archive),
    maxSteps: MAX_STEPS,
    countTokens: setting.countTokens,
    ...(session && { context: hookOf(session, { nowMs: idle.nowMs, model: modelName }) }),
  });
  let failedEdits = 0;
  let step = await turn.next();
  for (; !step.done; step = await turn.next()) {
    const { value } = step;
    if (value.type === "tool_result" && value.name === "edit_file" && value.error) failedEdits++;
  }
  const { error, text, messages, ledger } = step.value;
  if (error instanceof OutOfBudget || error instanceof ModelError) throw error;
  const { calls, promptTokens, cachedTokens, outputTokens } = ledger;
  return {
    passed: await isRight(asked, { text, world, folder }),
    by: wayOf(messages),
    failedEdits,
    said: text.slice(0, SAID_CHARS),
    usage: { calls, promptTokens, cachedTokens, outputTokens },
  };
}

function hookOf(
  session: Asked,
  call: { readonly nowMs: number; readonly model: string },
): ContextHook {
  return async ({ messages, tools, turnStart, step, signal }) => {
    const view = await session.view({ messages, tools }, { ...call, turnStart, step, signal });
    return {
      messages: view.messages,
      tools: view.tools,
      saved: view.saved,
      succeeded: (usage) => session.sent(usage, view),
    };
  };
}

async function isRight(
  { answer, among, edit }: Case,
  { text, world, folder }: Pick<Setting, "world" | "folder"> & { readonly text: string },
): Promise<boolean> {
  for (const [path, before] of Object.entries(world.files)) {
    const after = await Deno.readTextFile(join(folder, path));
    const right = path === edit?.path ? edit.text : before;
    if (withoutSpaces(after) !== withoutSpaces(right)) return false;
  }
  if (edit) return true;
  const named = (among ?? world.values).filter((value) => text.includes(value));
  if (answer === undefined) return named.length === 0 && /\bunknown\b/i.test(text);
  return named.length === 1 && named[0] === answer;
}

/** Lines without the white space that nobody sees. */
function withoutSpaces(text: string): string {
  return text.split("\n").map((line) => line.trim().replaceAll(/\s+/g, " ")).join("\n").trim();
}

/** What a turn's messages say of how the model came to its answer. */
function wayOf(messages: readonly Message[]): CaseResult["by"] {
  const names = messages.flatMap((message) =>
    message.role === "assistant"
      ? (message.tool_calls ?? []).map((call) => call.type === "function" ? call.function.name : "")
      : []
  );
  if (names.includes("recall")) return "recall";
  return names.some((name) => /^(?:Read|(?:read|search)_files?)$/.test(name)) ? "read" : "shown";
}
