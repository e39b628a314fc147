import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import fc from "fast-check";
import { contentText, estimateTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import {
  type Edit,
  type LedgerEntry,
  type Plan,
  Planner,
  type PlannerOptions,
  type PlannerState,
  type PlanRequest,
  PrefixCache,
  PROFILES,
  promptCost,
  promptUnits,
  type Retention,
  view,
} from "@tare/planner";
import { type Archive, archiveRef, memoryArchive } from "@tare/prune";
import { callPairs } from "../../tests/call_pairs.ts";
import { conversations, messyConversations } from "../../tests/conversations.ts";

/** Budgets so small that generated sessions meet them. */
const RETENTION: Retention = { protectTokens: 300, historyTokens: 600, nameWorth: 0.2, compactTools: true };

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
  /** For each call, used again from the front when they run out. */
  readonly calls: readonly {
    readonly idleMs: number;
    readonly model: string;
    readonly tools: number;
    readonly crash: Crash;
    readonly reports: boolean;
  }[];
}

function sessions(messages: fc.Arbitrary<readonly Message[]>): fc.Arbitrary<Session> {
  return fc.record({
    messages,
    profile: fc.constantFrom(...Object.keys(PROFILES)),
    windowTokens: fc.constantFrom(1_500, 6_000, 1_000_000),
    calls: fc.array(
      fc.record({
        idleMs: fc.constantFrom(1_000, 1_000, 1_000, 60_000, 400_000, 10_000_000, 1_000_000_000),
        model: fc.constantFrom("m1", "m1", "m1", "m2"),
        tools: fc.constantFrom(3, 3, 3, 2),
        crash: fc.constantFrom<Crash>("never", "never", "archived", "edits stored", "answered"),
        reports: fc.constantFrom(true, true, false),
      }),
      { minLength: 1, maxLength: 8 },
    ),
  });
}

/** One planned call, as the test sees it. */
interface Step {
  readonly plan: Plan;
  readonly edits: readonly Edit[];
  readonly usage: Usage;
  readonly entry: LedgerEntry;
  /** What resending everything costs at this call. */
  readonly resendCost: number;
}

/** Runs a session against a simulated provider, dying and coming back where it says. */
async function run(
  { messages, profile: name, windowTokens, calls }: Session,
  { archive = memoryArchive(), check, ...options }: Partial<PlannerOptions> & {
    readonly check?: (planner: Planner, request: PlanRequest, plan: Plan) => Promise<void>;
  } = {},
): Promise<Step[]> {
  const profile = scaled(name);
  const cache = { m1: new PrefixCache(profile), m2: new PrefixCache(profile) };
  const resent = { m1: new PrefixCache(profile), m2: new PrefixCache(profile) };
  let state: PlannerState | undefined;
  const restart = () =>
    new Planner(
      {
        profile,
        windowTokens,
        countTokens: estimateTokens,
        archive,
        recall: true,
        retention: RETENTION,
        ...options,
      },
      ...state ? [JSON.parse(JSON.stringify(state)) as PlannerState] : [],
    );
  let planner = restart();
  let edits: readonly Edit[] = [];
  let nowMs = 0;
  const steps: Step[] = [];
  const ends = messages.flatMap(({ role }, at) => role === "assistant" && at > 0 ? [at] : []);
  for (const [number, end] of [...ends, messages.length].entries()) {
    const call = calls[number % calls.length]!;
    nowMs += call.idleMs;
    const model = call.model as "m1" | "m2";
    const request = () => ({
      messages: messages.slice(0, end),
      tools: TOOLS.slice(0, call.tools),
      edits,
      nowMs,
      model,
    });
    let plan = await planner.plan(request());
    await check?.(planner, request(), plan);
    if (call.crash === "archived") {
      planner = restart();
      plan = await planner.plan(request());
    }
    const before = edits;
    edits = [...edits, ...JSON.parse(JSON.stringify(plan.edits)) as Edit[]];
    if (call.crash === "edits stored") {
      planner = restart();
      plan = await planner.plan(request());
      edits = [...edits, ...plan.edits];
    }
    const units = promptUnits(plan.view, estimateTokens);
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    const usage: Usage = { promptTokens, cachedTokens: cache[model].lookup(units, nowMs), outputTokens: 1 };
    cache[model].store(units, nowMs);
    const full = promptUnits(request(), estimateTokens);
    const resendCost = promptCost(profile, {
      promptTokens: full.reduce((sum, { tokens }) => sum + tokens, 0),
      cachedTokens: resent[model].lookup(full, nowMs),
    });
    resent[model].store(full, nowMs);
    const entry = planner.sent(plan, call.reports ? usage : { ...usage, cachedTokens: 0, estimated: true });
    if (call.crash === "answered") planner = restart();
    else state = planner.state;
    steps.push({ plan: { ...plan, edits: edits.slice(before.length) }, edits, usage, entry, resendCost });
  }
  return steps;
}

const any = () => fc.oneof(conversations(), messyConversations());

Deno.test("invariant 1: nothing is lost: what a view leaves out can be read back, also after a restart", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    const archive = memoryArchive();
    for (const { plan, edits } of await run(session, { archive })) {
      const archived = await readBack(plan.request.messages, edits, archive);
      const seen = new Set(view(plan.request, edits).messages);
      for (const [index, message] of plan.request.messages.entries()) {
        assert(seen.has(message) || archived.has(index), `message ${index} is nowhere`);
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
    if (edit.type === "compact") continue;
    const original = await archive.get(edit.ref);
    if (edit.type === "elide") {
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
    for (const { plan } of await run(session)) {
      const { orphans } = callPairs(plan.view.messages);
      assertEquals(orphans, []);
      const open = callPairs(plan.request.messages).unanswered.map((at) => plan.request.messages[at]);
      const unanswered = callPairs(plan.view.messages).unanswered.map((at) => plan.view.messages[at]);
      assertEquals(unanswered.filter((message) => !open.includes(message)), []);
      const history = new Set(plan.request.messages);
      const summaries = plan.view.messages.filter((message) =>
        message.role === "assistant" && !history.has(message)
      );
      assertEquals(summaries.filter((message) => "tool_calls" in message), []);
    }
  }));
});

Deno.test("invariant 2: a history whose pairs are broken is not broken further", async () => {
  await fc.assert(fc.asyncProperty(sessions(messyConversations()), async (session) => {
    for (const { plan } of await run(session)) {
      const before = callPairs(plan.request.messages);
      const after = callPairs(plan.view.messages);
      assert(after.orphans.length <= before.orphans.length);
      assert(after.unanswered.length <= before.unanswered.length);
    }
  }));
});

Deno.test("invariant 3: within an epoch each request is a prefix of the next, tools alike", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    const steps = await run(session);
    for (const [at, { plan }] of steps.entries()) {
      const before = steps[at - 1]?.plan;
      if (!before || plan.edits.length > 0 || before.request.tools.length !== plan.request.tools.length) {
        continue;
      }
      assertEquals(JSON.stringify(plan.view.tools), JSON.stringify(before.view.tools));
      const length = before.view.messages.length;
      assertEquals(JSON.stringify(plan.view.messages.slice(0, length)), JSON.stringify(before.view.messages));
    }
  }));
});

Deno.test("invariant 4: the same history and edits give the same bytes, whoever computes them", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    for (const { plan, edits } of await run(session)) {
      const { messages, tools } = JSON.parse(JSON.stringify(plan.request)) as PlanRequest;
      const again = view({ messages, tools }, JSON.parse(JSON.stringify(edits)) as Edit[]);
      assertEquals(JSON.stringify(again), JSON.stringify(plan.view));
    }
    const other = await run({
      ...session,
      calls: session.calls.map((call) => ({ ...call, crash: "archived" })),
    });
    const one = await run({ ...session, calls: session.calls.map((call) => ({ ...call, crash: "never" })) });
    assertEquals(JSON.stringify(other.at(-1)?.edits), JSON.stringify(one.at(-1)?.edits));
  }));
});

Deno.test("invariant 5: planning twice without new information changes nothing", async () => {
  await fc.assert(fc.asyncProperty(sessions(any()), async (session) => {
    await run(session, {
      async check(planner, request, plan) {
        const state = planner.state;
        const twice = await planner.plan(request);
        assertEquals(twice.edits, plan.edits);
        assertStrictEquals(planner.state, state);
        const stored = await planner.plan({ ...request, edits: [...request.edits, ...plan.edits] });
        assertEquals(stored.edits, []);
        assertEquals(JSON.stringify(stored.view), JSON.stringify(plan.view));
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
      for (const { plan } of await run(session, { archive })) {
        for (const edit of plan.edits) {
          if (edit.type === "compact") continue;
          const original = await kept.get(edit.ref);
          assert(original !== undefined);
          assertEquals(await archiveRef(original), edit.ref);
        }
        if (plan.warnings.length > 0) assertEquals(plan.warnings.join().includes("the disk is full"), true);
      }
    }),
  );
});

Deno.test("invariant 7: no session costs over 1.1 times resending everything, or 1.5 where models and tools come and go", async () => {
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
      assert(paid <= (steady ? 1.1 : 1.5) * resend, `${paid} against ${resend}`);
      assert(Math.abs(entry.cost - promptCost(profile, usage)) < 1e-6);
    }
  }));
});
