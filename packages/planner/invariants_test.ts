import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import fc from "fast-check";
import { contentText, estimateTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import {
  classicSession,
  type Conversation,
  type Edit,
  KEEP_WANTED,
  type LedgerEntry,
  makePin,
  type Pin,
  type PlannerSession,
  plannerSession,
  PrefixCache,
  PROFILES,
  type PromptCall,
  promptCost,
  type PromptSessionOptions,
  promptUnits,
  type Retention,
  type SessionView,
  view,
  type Wish,
  withoutPin,
  withPin,
} from "@tare/planner";
import { type Archive, archiveRef, memoryArchive } from "@tare/prune";
import { callPairs } from "../../tests/call_pairs.ts";
import { conversations, messyConversations } from "../../tests/conversations.ts";

/** Limits so small that generated sessions meet them. */
const RETENTION: Retention = { ...KEEP_WANTED, stepTailTokens: 300 };

/** What the provider serves nothing below, and what one block is, scaled down like the budgets. */
function scaled(name: string) {
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

/** Where a process may die within one call: nowhere, or after one of the steps that last. */
type Crash = "never" | "archived" | "edits stored" | "answered";

interface Session {
  readonly messages: readonly Message[];
  readonly profile: string;
  readonly windowTokens: number;
  /** Whether a model summarises, if any. */
  readonly summary: "none" | "works" | "fails";
  /** For each call, used again from the front when they run out. */
  readonly calls: readonly {
    readonly idleMs: number;
    readonly model: string;
    readonly tools: number;
    readonly crash: Crash;
    readonly reports: boolean;
    /** What is asked for before the call: of a message, as a share of the history. */
    readonly asks: readonly { readonly at: number; readonly wish: Wish | "nothing" }[];
  }[];
}

function sessions(messages: fc.Arbitrary<readonly Message[]>): fc.Arbitrary<Session> {
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
            at: fc.double({ min: 0, max: 1, noNaN: true }),
            wish: fc.constantFrom<Wish | "nothing">("keep", "keep", "let_go", "let_go", "nothing"),
          }),
          { maxLength: 3 },
        ),
      }),
      { minLength: 1, maxLength: 8 },
    ),
  });
}

/** One call, as the test sees it. */
interface Step {
  readonly history: Conversation;
  readonly view: SessionView;
  readonly edits: readonly Edit[];
  readonly newEdits: readonly Edit[];
  /** Whether the edits are others than before. */
  readonly isRewritten: boolean;
  /** What was asked for, but for what is over. */
  readonly pins: readonly Pin[];
  readonly usage: Usage;
  readonly entry: LedgerEntry | undefined;
  /** What resending everything costs at this call. */
  readonly resendCost: number;
}

function editsOf({ state }: { readonly state: unknown }): readonly Edit[] {
  return (state as { readonly edits: readonly Edit[] }).edits;
}

const SUMMARY_USAGE: Usage = { promptTokens: 1_000, cachedTokens: 900, outputTokens: 9 };

/** The options of the tests, and what a process that starts anew reads from its disk. */
function optionsOf(
  { profile, windowTokens, summary }: Pick<Session, "profile" | "windowTokens" | "summary">,
  stored?: unknown,
): PromptSessionOptions {
  return {
    profile: scaled(profile),
    windowTokens,
    countTokens: estimateTokens,
    archive: memoryArchive(),
    retention: RETENTION,
    ...(summary !== "none" && {
      summarise: ({ messages }) =>
        Promise.resolve({
          text: summary === "works" ? `${messages.length} messages.` : "",
          usage: SUMMARY_USAGE,
        }),
    }),
    ...(stored !== undefined && { state: JSON.parse(JSON.stringify(stored)) }),
  };
}

/** The calls of a session: its history so far, and when and how each is made. */
function* callsOf({ messages, calls }: Session) {
  let nowMs = 0;
  const ends = messages.flatMap(({ role }, at) => role === "assistant" && at > 0 ? [at] : []);
  for (const [number, end] of [...ends, messages.length].entries()) {
    const call = calls[number % calls.length]!;
    nowMs += call.idleMs;
    const history = { messages: messages.slice(0, end), tools: TOOLS.slice(0, call.tools) };
    yield { ...call, history, call: { nowMs, model: call.model, recall: true } };
  }
}

/** The pins after what is asked for before a call. */
function ask(pins: readonly Pin[], messages: readonly Message[], asks: Session["calls"][number]["asks"]) {
  let after = pins;
  for (const { at, wish } of asks) {
    const place = Math.floor(at * messages.length);
    if (wish === "nothing") {
      after = withoutPin(after, place);
      continue;
    }
    try {
      after = withPin(after, makePin(messages, { place, wish }, estimateTokens));
    } catch (error) {
      // Not everything can be asked for.
      assert(error instanceof RangeError);
    }
  }
  return after;
}

function withoutEnded(pins: readonly Pin[], { endedPins = [] }: SessionView): readonly Pin[] {
  return pins.filter(({ place }) => !endedPins.some((ended) => ended.place === place));
}

/** Runs a session against a simulated provider, dying and coming back where it says. */
async function run(
  given: Session,
  { archive = memoryArchive(), check }: {
    readonly archive?: Archive;
    readonly check?: (session: PlannerSession, history: Conversation, call: PromptCall) => Promise<void>;
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
  for (const { history, call: made, crash, reports, asks } of callsOf(given)) {
    const model = made.model as "m1" | "m2";
    const editsBefore = editsOf(session).map((edit) => JSON.stringify(edit));
    const before = new Set(editsBefore);
    pins = ask(pins, history.messages, asks);
    const asked = { ...made, pins };
    let seen = await session.view(history, asked);
    if (crash === "archived") {
      session = restart();
      seen = await session.view(history, asked);
    }
    stored = session.state;
    // What is over is stored with the edits.
    pins = withoutEnded(pins, seen);
    const call = { ...made, pins };
    await check?.(session, history, call);
    if (crash === "edits stored") {
      session = restart();
      seen = await session.view(history, call);
    }
    const edits = editsOf(session);
    const units = promptUnits(seen, estimateTokens);
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    assertEquals(promptTokens, seen.promptTokens);
    const cachedTokens = cache[model].lookup(units, call.nowMs);
    const usage: Usage = { promptTokens, cachedTokens, outputTokens: 1 };
    cache[model].store(units, call.nowMs);
    const full = promptUnits(history, estimateTokens);
    const resendCost = promptCost(profile, {
      promptTokens: full.reduce((sum, { tokens }) => sum + tokens, 0),
      cachedTokens: resent[model].lookup(full, call.nowMs),
    });
    resent[model].store(full, call.nowMs);
    const entry = session.sent(reports ? usage : { ...usage, cachedTokens: 0, estimated: true });
    if (crash === "answered") session = restart();
    else stored = session.state;
    steps.push({
      history,
      view: seen,
      edits,
      newEdits: edits.filter((edit) => !before.has(JSON.stringify(edit))),
      isRewritten: edits.map((edit) => JSON.stringify(edit)).join() !== editsBefore.join(),
      pins,
      usage,
      entry,
      resendCost,
    });
  }
  return steps;
}

const any = () => fc.oneof(conversations(), messyConversations());

Deno.test("invariant 1: nothing is lost: what a view leaves out can be read back, also after a restart", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    const archive = memoryArchive();
    for (const { history, view: seen, edits } of await run(session, { archive })) {
      const archived = await readBack(history.messages, edits, archive);
      const shown = new Set(seen.messages);
      for (const [index, message] of history.messages.entries()) {
        assert(shown.has(message) || archived.has(index), `message ${index} is nowhere`);
      }
    }
  }));
});

/** The positions of the messages whose originals the archive holds, byte for byte. */
async function readBack(
  history: readonly Message[],
  edits: readonly Edit[],
  archive: Archive,
): Promise<Set<number>> {
  const there = new Set<number>();
  for (const edit of edits) {
    if (edit.type === "compact" || edit.type === "keep") continue;
    const original = await archive.get(edit.ref);
    if ("index" in edit) {
      if (original === contentText(history[edit.index]!.content)) there.add(edit.index);
      continue;
    }
    const lines = new Set(original?.split("\n"));
    for (let index = edit.from; index < edit.to; index++) {
      if (lines.has(JSON.stringify(history[index]))) there.add(index);
    }
  }
  return there;
}

Deno.test("invariant 2: pairs stay whole, and assistant messages are never altered", async () => {
  await fc.assert(fc.asyncProperty(sessions(conversations()), async (session) => {
    for (const { history, view: { messages } } of await run(session)) {
      const { orphans, unanswered } = callPairs(messages);
      assertEquals(orphans, []);
      const open = callPairs(history.messages).unanswered.map((at) => history.messages[at]);
      assertEquals(unanswered.filter((at) => !open.includes(messages[at])), []);
      const said = new Set(history.messages);
      const summaries = messages.filter((message) => message.role === "assistant" && !said.has(message));
      assertEquals(summaries.filter((message) => "tool_calls" in message), []);
    }
  }));
});

Deno.test("invariant 2: a history whose pairs are broken is not broken further", async () => {
  await fc.assert(fc.asyncProperty(sessions(messyConversations()), async (session) => {
    for (const { history, view } of await run(session)) {
      const before = callPairs(history.messages);
      const after = callPairs(view.messages);
      assert(after.orphans.length <= before.orphans.length);
      assert(after.unanswered.length <= before.unanswered.length);
    }
  }));
});

Deno.test("invariant 3: within an epoch each request is a prefix of the next, tools alike", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    const steps = await run(session);
    for (const [at, { view, isRewritten }] of steps.entries()) {
      const before = steps[at - 1]?.view;
      if (!before || isRewritten || before.tools.length !== view.tools.length) continue;
      assertEquals(JSON.stringify(view.tools), JSON.stringify(before.tools));
      const start = view.messages.slice(0, before.messages.length);
      assertEquals(JSON.stringify(start), JSON.stringify(before.messages));
    }
  }));
});

Deno.test("invariant 4: the same history and edits give the same bytes, whoever computes them", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    for (const { history, view: { messages, tools }, edits } of await run(session)) {
      const again = view(JSON.parse(JSON.stringify(history)), JSON.parse(JSON.stringify(edits)));
      assertEquals(JSON.stringify(again), JSON.stringify({ messages, tools }));
    }
    const crashing = (crash: Crash) =>
      run({ ...session, calls: session.calls.map((call) => ({ ...call, crash })) });
    const [one, other] = [await crashing("never"), await crashing("archived")];
    assertEquals(JSON.stringify(other.at(-1)?.edits), JSON.stringify(one.at(-1)?.edits));
  }));
});

Deno.test("invariant 4: a session that is stored and restored between any two calls gives the same bytes", async () => {
  const policies = fc.constantFrom(plannerSession, classicSession);
  await fc.assert(fc.asyncProperty(sessions(any()), policies, async (session, make) => {
    const archive = memoryArchive();
    const kept = make({ ...optionsOf(session), archive });
    let restored = make({ ...optionsOf(session), archive });
    let pins: readonly Pin[] = [];
    for (const { history, call: made, reports, asks } of callsOf(session)) {
      pins = ask(pins, history.messages, asks);
      const call = { ...made, pins };
      const [one, other] = [await kept.view(history, call), await restored.view(history, call)];
      assertEquals(
        JSON.stringify([other.messages, other.tools, other.places]),
        JSON.stringify([one.messages, one.tools, one.places]),
      );
      assertEquals(other.endedPins, one.endedPins);
      pins = withoutEnded(pins, one);
      const usage = { promptTokens: one.promptTokens, cachedTokens: 0, outputTokens: 1, estimated: !reports };
      assertEquals(restored.sent(usage), kept.sent(usage));
      assertEquals(JSON.stringify(restored.state), JSON.stringify(kept.state));
      restored = make({ ...optionsOf(session, restored.state), archive });
    }
  }));
});

Deno.test("invariant 5: viewing twice without new information changes nothing", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    await run(session, {
      async check(session, history, call) {
        const { state } = session;
        const [twice, thrice] = [await session.view(history, call), await session.view(history, call)];
        assertStrictEquals(session.state, state);
        assertEquals(twice.rewrites, []);
        assertEquals(JSON.stringify(thrice), JSON.stringify(twice));
      },
    });
  }));
});

Deno.test("invariant 6: what an edit leaves out is archived before the edit is there; without an archive nothing leaves", async () => {
  await fc.assert(
    fc.asyncProperty(sessions(any()), fc.integer({ min: 0, max: 5 }), async (session, works) => {
      const kept = memoryArchive();
      let puts = 0;
      const archive: Archive = {
        ...kept,
        put: (content) => puts++ < works ? kept.put(content) : Promise.reject(new Error("the disk is full")),
      };
      for (const { view, newEdits } of await run(session, { archive })) {
        for (const edit of newEdits) {
          if (edit.type === "compact" || edit.type === "keep") continue;
          const original = await kept.get(edit.ref);
          assert(original !== undefined);
          assertEquals(await archiveRef(original), edit.ref);
        }
        const failed = view.warnings.filter((warning) =>
          !/^(Rewriting has cost|The window is|Cannot summarise|Cannot bring back)/.test(warning)
        );
        assert(failed.every((warning) => warning.includes("the disk is full")));
      }
    }),
  );
});

/** A message as the model sees it; nothing if it left. */
function shownAt({ messages, places }: SessionView, place: number): Message | undefined {
  return messages[places.indexOf(place)];
}

Deno.test("a pin is honoured at the next rewrite, and what is kept leaves no more but a full window", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    const steps = await run(session);
    for (const [at, { history: { messages }, view, pins, isRewritten }] of steps.entries()) {
      const before = steps[at - 1];
      const newest = messages.findLastIndex(({ role }) => role === "assistant");
      for (const { place, wish, hash } of pins) {
        const shown = shownAt(view, place);
        const isWhole = shown === messages[place];
        if (wish === "keep") {
          const wasWhole = before && place < before.history.messages.length &&
            before.pins.some((pin) => pin.place === place && pin.wish === wish && pin.hash === hash) &&
            shownAt(before.view, place) === messages[place];
          assert(isWhole || !isRewritten && !wasWhole, `message ${place} isn't kept`);
        } else if (isRewritten && place < Math.min(newest, before?.history.messages.length ?? 0)) {
          assert(!isWhole, `message ${place} is still there`);
        }
      }
    }
  }));
});

Deno.test("invariant 7: no session costs over 1.1 times resending everything, or twice where models and tools come and go", async () => {
  await fc.assert(fc.asyncProperty(sessions(conversations()), async (session) => {
    const calls = session.calls.map((call) => ({
      ...call,
      reports: true,
      crash: "never" as const,
      idleMs: Math.min(call.idleMs, 60_000),
    }));
    const profile = scaled(session.profile);
    const steady = calls.every(({ model, tools }) => model === "m1" && tools === 3);
    const steps = await run({ ...session, windowTokens: 1_000_000, calls });
    let paid = 0;
    let resend = 0;
    for (const { usage, entry, resendCost } of steps) {
      paid += promptCost(profile, usage);
      resend += resendCost;
      // The price knows of the cache that is asked now; a rewrite breaks those of other models and tools as well. Of 3,000
      // such sessions the worst three cost 1.63, 1.50 and 1.46 times as much.
      assert(paid <= (steady ? 1.1 : 2) * resend, `${paid} against ${resend}`);
      assert(Math.abs((entry?.tokenUnits ?? 0) - promptCost(profile, usage)) < 1e-6);
    }
  }));
});
