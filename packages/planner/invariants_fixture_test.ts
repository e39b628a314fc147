/**
 * Generated sessions with simulated providers and pins. Contains no tests.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/cases.ts";
import { estimateTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import {
  type History,
  type LedgerEntry,
  type Pin,
  plannerSession,
  type PlanningSession,
  type Profile,
  type PromptCall,
  type PromptSessionOptions,
  type SessionView,
} from "@tare/planner";
import { makePin, pinsAfter, PROFILES } from "@tare/planner/internal";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { type Archive, memoryArchive } from "@tare/prune";
import {} from "../../tests/call_pairs.ts";
import {} from "../../tests/conversations.ts";
import type { Edit } from "./edits/edit.ts";

const RETENTION = { stepTailTokens: 300 };

/** Returns a profile with its smallest prefix and block scaled down like the limits. */
export function scaled(name: string): Profile {
  const profile = PROFILES[name]!;
  return {
    ...profile,
    minTokens: Math.min(profile.minTokens, 64),
    blockTokens: Math.min(profile.blockTokens, 16),
  };
}

const TOOLS: readonly ToolDefinition[] = ["read_file", "search_files", "shell"].map((name) => ({
  type: "function",
  function: {
    name,
    description: `What ${name} is for. `.repeat(30),
    parameters: { type: "object", properties: { path: { type: "string", description: "A path." } } },
  },
}));

/** Step of a call after which a process dies. */
export type Crash = "never" | "archived" | "edits stored" | "answered";

export interface Session {
  readonly messages: readonly Message[];
  readonly profile: string;
  readonly windowTokens: number;
  readonly summary: "none" | "works" | "fails";
  /** Calls, repeated from the first when they run out. */
  readonly calls: readonly {
    readonly idleMs: number;
    readonly model: string;
    readonly tools: number;
    readonly crash: Crash;
    readonly reports: boolean;
    /** Pins before the call: a message, as a share of the history, or an evicted one. */
    readonly asks: readonly {
      readonly at: number;
      readonly of: "history" | "what left";
      readonly wish: Pin["wish"] | "nothing";
    }[];
  }[];
}

export function sessions(messages: fc.Arbitrary<readonly Message[]>): fc.Arbitrary<Session> {
  return fc.record({
    messages,
    profile: fc.constantFrom(...Object.keys(PROFILES)),
    windowTokens: fc.constantFrom(1_500, 6_000, 1_000_000),
    summary: fc.constantFrom("none", "works", "fails"),
    calls: fc.array(
      fc.record({
        idleMs: fc.constantFrom(1_000, 1_000, 1_000, 60_000, 400_000, 10_000_000, 1_000_000_000),
        model: fc.constantFrom("m1", "m1", "m1", "m2"),
        tools: fc.constantFrom(3, 3, 3, 2),
        crash: fc.constantFrom<Crash>("never", "never", "archived", "edits stored", "answered"),
        reports: fc.constantFrom(true, true, false),
        asks: fc.array(
          fc.record({
            at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
            of: fc.constantFrom("history", "what left"),
            wish: fc.constantFrom<Pin["wish"] | "nothing">("retain", "retain", "evict", "evict", "nothing"),
          }),
          { maxLength: 3 },
        ),
      }),
      { minLength: 1, maxLength: 8 },
    ),
  });
}

export interface Step {
  readonly history: History;
  readonly view: SessionView;
  readonly edits: readonly Edit[];
  readonly newEdits: readonly Edit[];
  readonly isRewritten: boolean;
  /** Messages seen before, as far as the session knows: a dead process may not have stored it. */
  readonly seenBefore: number;
  /** Pins that haven't ended. */
  readonly pins: readonly Pin[];
  readonly usage: Usage;
  readonly entry: LedgerEntry | undefined;
  /** Cost of resending everything. */
  readonly resendCost: number;
}

export function editsOf({ state }: { readonly state: unknown }): readonly Edit[] {
  return (state as { readonly edits: readonly Edit[] }).edits;
}

const SUMMARY_USAGE: Usage = { promptTokens: 1_000, cachedTokens: 900, outputTokens: 9 };

/** Options of the tests, and what a new process reads from its disk. */
export function optionsOf(
  { profile, windowTokens, summary }: Pick<Session, "profile" | "windowTokens" | "summary">,
  stored?: unknown,
): PromptSessionOptions {
  return {
    profile: scaled(profile),
    windowTokens,
    countTokens: estimateTokens,
    archive: memoryArchive(),
    // Some generated sessions fit no window.
    advanced: { assumesWindow: true, retention: RETENTION },
    ...(summary !== "none" && {
      summarize: ({ messages }) =>
        Promise.resolve({
          text: summary === "works" ? `${messages.length} messages.` : "",
          usage: SUMMARY_USAGE,
        }),
    }),
    ...(stored !== undefined && { state: JSON.parse(JSON.stringify(stored)) }),
  };
}

/** Yields the calls of a session with their histories and times. */
export function* callsOf({ messages, calls }: Session): Generator<
  Session["calls"][number] & { readonly history: History; readonly call: PromptCall },
  void
> {
  let nowMs = 0;
  const ends = messages.flatMap(({ role }, at) => role === "assistant" && at > 0 ? [at] : []);
  for (const [number, end] of [...ends, messages.length].entries()) {
    const call = calls[number % calls.length]!;
    nowMs += call.idleMs;
    const history = { messages: messages.slice(0, end), tools: TOOLS.slice(0, call.tools) };
    yield { ...call, history, call: { nowMs, model: call.model, recall: true } };
  }
}

/** Returns the pins before a call, by the last view. */
export function ask(
  pins: readonly Pin[],
  messages: readonly Message[],
  { asks, view }: { readonly asks: Session["calls"][number]["asks"]; readonly view: SessionView | undefined },
): readonly Pin[] {
  let after = pins;
  const visible = new Set(view?.messages);
  const newest = view?.places.at(-1) ?? 0;
  const left = messages.flatMap((message, at) => at < newest && !visible.has(message) ? [at] : []);
  for (const { at, of, wish } of asks) {
    const places = of === "what left" && left.length > 0 ? left : [...messages.keys()];
    const place = places[Math.floor(at * places.length)] ?? 0;
    if (wish === "nothing") {
      after = pinsAfter(after, { remove: place });
      continue;
    }
    try {
      after = pinsAfter(after, { set: makePin(messages, { place, wish }, { countTokens: estimateTokens }) });
    } catch (error) {
      // Not everything can be pinned.
      assert(error instanceof RangeError);
    }
  }
  return after;
}

export function withoutEnded(pins: readonly Pin[], { endedPins = [] }: SessionView): readonly Pin[] {
  return pins.filter(({ place }) => !endedPins.some((ended) => ended.place === place));
}

/** Runs a session with a simulated provider, with crashes and restarts. */
export async function run(
  given: Session,
  { archive = memoryArchive(), check }: {
    readonly archive?: Archive;
    readonly check?: (session: PlanningSession, history: History, call: PromptCall) => Promise<void>;
  } = {},
): Promise<Step[]> {
  const profile = scaled(given.profile);
  const caches = () => ({ m1: new PrefixCache(profile), m2: new PrefixCache(profile) });
  const [cache, resent] = [caches(), caches()];
  let stored: unknown;
  const restart = () => plannerSession({ ...optionsOf(given, stored), archive });
  let session = restart();
  const steps: Step[] = [];
  let pins: readonly Pin[] = [];
  let seenBefore = 0;
  for (const { history, call: made, crash, reports, asks } of callsOf(given)) {
    const model = made.model as "m1" | "m2";
    const editsBefore = editsOf(session);
    const known = steps.at(-1)?.history.messages.length ?? 0;
    const before = new Set(editsBefore.map((edit) => JSON.stringify(edit)));
    pins = ask(pins, history.messages, { asks, view: steps.at(-1)?.view });
    const pinned = { ...made, pins };
    let seen = await session.view(history, pinned);
    if (crash === "archived") {
      session = restart();
      seen = await session.view(history, pinned);
    }
    stored = session.state;
    pins = withoutEnded(pins, seen);
    const call = { ...made, pins };
    await check?.(session, history, call);
    if (crash === "edits stored") {
      session = restart();
      seen = await session.view(history, call);
    }
    const edits = editsOf(session);
    const units = PrefixCache.unitsOf(seen, estimateTokens);
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    assertEquals(promptTokens, seen.promptTokens);
    const cachedTokens = cache[model].lookup(units, call.nowMs);
    const usage: Usage = { promptTokens, cachedTokens, outputTokens: 1 };
    cache[model].store(units, call.nowMs);
    const full = PrefixCache.unitsOf(history, estimateTokens);
    const resendCost = promptCost(profile, {
      promptTokens: full.reduce((sum, { tokens }) => sum + tokens, 0),
      cachedTokens: resent[model].lookup(full, call.nowMs),
    });
    resent[model].store(full, call.nowMs);
    const entry = session.sent(reports ? usage : { ...usage, cachedTokens: 0, estimated: true });
    steps.push({
      history,
      seenBefore,
      view: seen,
      edits,
      newEdits: edits.filter((edit) => !before.has(JSON.stringify(edit))),
      isRewritten: of(edits, known) !== of(editsBefore, known),
      pins,
      usage,
      entry,
      resendCost,
    });
    if (crash === "answered") {
      session = restart();
    } else {
      stored = session.state;
      seenBefore = history.messages.length;
    }
  }
  return steps;
}

/** Returns the edits without the ingestion of results after this length. */
function of(edits: readonly Edit[], length: number): string {
  return JSON.stringify(edits.filter((edit) => edit.type !== "ingest" || edit.index < length));
}
