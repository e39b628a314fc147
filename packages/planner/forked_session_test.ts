import { assertEquals, assertLessOrEqual } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { plannerSession, type PlanningSession, profileNamed } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive, RECALL_TOOL } from "@tare/prune";
import fc, { cases } from "../../tests/cases.ts";

const DAY_MS = 24 * 60 * 60_000;
const QUESTION: Message = { role: "user", content: "And now?" };
const ANSWER: Message = { role: "assistant", content: "ok" };

/** Returns a turn with a result that is evicted at once. */
function turn(id: string): Message[] {
  return [
    { role: "user", content: `Read ${id}.` },
    {
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: id, content: `${id} word `.repeat(16_000) },
    ANSWER,
  ];
}

const history = [
  ...["a", "b", "c"].flatMap(turn),
  ...[QUESTION, ANSWER, QUESTION, ANSWER, QUESTION, ANSWER, QUESTION],
];

async function rewrites(
  session: PlanningSession,
  messages: readonly Message[],
  nowMs: number,
): Promise<number> {
  const view = await session.view({ messages, tools: [] }, { nowMs, recall: true });
  const { promptTokens, predictedCachedTokens: cachedTokens } = view;
  session.sent({ promptTokens, cachedTokens, outputTokens: 1 }, view);
  return view.rewrites.length;
}

Deno.test("PlanningSession.fork() starts its first request like its parent's last, unless the cache is gone", async () => {
  const archive = memoryArchive();
  const profile = profileNamed("anthropic-5m");
  const session = plannerSession({ profile, windowTokens: 1_000_000, archive, countTokens: estimateTokens });
  assertEquals(await rewrites(session, history, 0), 0);
  const [fork, late] = [session.fork(history.length, archive), session.fork(history.length, archive)];
  const next = [...history, ANSWER, QUESTION];
  assertEquals(await rewrites(fork, next, 1_000), 0);
  assertEquals(await rewrites(fork, [...next, ANSWER, QUESTION], 2_000), 1);
  assertEquals(await rewrites(late, next, DAY_MS), 1);
  assertEquals(await rewrites(session, next, 1_000), 1);
});

/** A session of twelve jobs: place of the fork, provider, and size of messages. */
const plans = fc.record({
  profile: fc.constantFrom("anthropic-5m", "openai", "deepseek", "local", "none"),
  place: fc.constantFrom("opening", "middle", "end"),
  /** Whether the provider counts tools; some report only billed tokens. */
  countsTools: fc.boolean(),
  instructions: fc.constantFrom(0, 400),
  description: fc.constantFrom(1, 100),
  lines: fc.constantFrom<number>(60, 150),
  pauseMs: fc.constantFrom(10_000, 700_000),
  stored: fc.constantFrom("nothing", "fork", "parent"),
});

type ForkPlan = typeof plans extends fc.Arbitrary<infer Plan> ? Plan : never;

const STEPS = 24;

const lines = (name: string, count: number) =>
  Array.from({ length: count }, (_, at) => `${name} has ${(at * 7_919 + name.length) % 100_003} at ${at}`)
    .join("\n");

const FORKS = 12;

/** Returns the cost of each fork, and the first charge before its own rewrite. */
async function playForks(plan: ForkPlan): Promise<{ readonly costs: number[]; readonly charges: string[] }> {
  const profile = PROFILES[plan.profile]!;
  const tools: ToolDefinition[] = [RECALL_TOOL, {
    type: "function",
    function: { name: "read", description: "Reads a file. ".repeat(plan.description) },
  }];
  const cache = new PrefixCache(profile);
  const charges: string[] = [];
  let nowMs = 0;
  const play = async (session: PlanningSession, start: readonly Message[], job: string) => {
    const history = [...start];
    let [cost, hasRewritten] = [0, false];
    for (let step = 0; step <= STEPS; step++) {
      const view = await session.view({ messages: [...history], tools }, {
        nowMs: nowMs += 5_000,
        model: "m",
      });
      hasRewritten ||= view.rewrites.some(({ mechanism }) => mechanism !== "truncate");
      const sent = PrefixCache.unitsOf(plan.countsTools ? view : { ...view, tools: [] }, estimateTokens);
      const promptTokens = sent.reduce((sum, { tokens }) => sum + tokens, 0);
      const usage = { promptTokens, cachedTokens: cache.lookup(sent, nowMs), outputTokens: 50 };
      cache.store(sent, nowMs);
      cost += promptCost(profile, usage);
      const entry = session.sent(usage, view)!;
      const isCharged = entry.stopped || entry.baselineCostUnits < entry.costUnits - 1e-6;
      if (job !== "" && !hasRewritten && isCharged) {
        charges.push(
          `call ${step}: ${entry.costUnits} against ${entry.baselineCostUnits}, ${entry.stopped}`,
        );
      }
      const id = `${job}${step}`;
      const call = { name: "read", arguments: JSON.stringify({ path: `${step}.ts` }) };
      history.push(
        { role: "assistant", tool_calls: [{ id, type: "function", function: call }] },
        {
          role: "tool",
          tool_call_id: id,
          content: lines(`${job}${step}`, plan.lines),
        },
      );
    }
    history.push(ANSWER);
    return { history, cost };
  };
  const options = { profile, windowTokens: 1_000_000, countTokens: estimateTokens, archive: memoryArchive() };
  const restored = ({ state }: PlanningSession) =>
    plannerSession({ ...options, state: JSON.parse(JSON.stringify(state)) });
  const opening: Message[] = [
    { role: "system", content: `Be careful.${" Look twice.".repeat(plan.instructions)}` },
    { role: "user", content: "Find the fault." },
  ];
  let parent = plannerSession(options);
  const { history } = await play(parent, opening, "");
  if (plan.stored === "parent") parent = restored(parent);
  const length = { opening: opening.length, middle: opening.length + STEPS, end: history.length }[plan.place];
  const begun = history.slice(0, length);
  if (plan.place === "end") begun.push(QUESTION);
  const costs: number[] = [];
  for (let job = 0; job < FORKS; job++) {
    nowMs += plan.pauseMs;
    const fork = parent.fork(length, options.archive);
    costs.push(
      (await play(plan.stored === "fork" ? restored(fork) : fork, begun, `job ${"abcdefghijkl"[job]} `)).cost,
    );
  }
  return { costs, charges };
}

Deno.test("PlanningSession.fork(): twelve forks cost the same, and none is charged before it rewrites", async () => {
  const known: ForkPlan[] = [
    // The parent's rewrite made the baseline of its first call cheaper than that call.
    { profile: "anthropic-5m", place: "middle", countsTools: true, description: 100, stored: "nothing" },
    { profile: "anthropic-5m", place: "middle", countsTools: false, description: 1, stored: "fork" },
    // The recall tool isn't the client's.
    { profile: "openai", place: "opening", countsTools: true, description: 1, stored: "parent" },
    { profile: "openai", place: "opening", countsTools: false, description: 100, stored: "fork" },
  ].map((plan) => ({ instructions: 0, lines: 30, pauseMs: 10_000, ...plan } as ForkPlan));
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      const { costs, charges } = await playForks(plan);
      assertEquals(charges, []);
      assertLessOrEqual(Math.max(...costs), 1.05 * costs[0]!);
    }),
    { numRuns: cases(8), examples: known.map((plan) => [plan]) },
  );
});

Deno.test("PlanningSession.fork(): content after the fork is not a rewrite of the fork", async () => {
  const archive = memoryArchive();
  const profile = profileNamed("anthropic-5m");
  const options = { profile, windowTokens: 1_000_000, archive, countTokens: estimateTokens };
  const session = plannerSession(options);
  assertEquals(await rewrites(session, history, 0), 0);
  const stored = JSON.parse(JSON.stringify(session.state));
  for (const parent of [session, plannerSession({ ...options, state: stored })]) {
    const fork = parent.fork(4, archive);
    const retained = plannerSession({ ...options, state: JSON.parse(JSON.stringify(fork.state)) });
    for (const one of [fork, retained]) {
      const messages = [...history.slice(0, 4), QUESTION];
      const { promptTokens, predictedCachedTokens } = await one.view({ messages, tools: [] }, {
        nowMs: 1_000,
      });
      assertEquals(predictedCachedTokens < promptTokens, true);
      const entry = one.sent({ promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 1 })!;
      assertEquals(entry.uncached, [{ cause: "new", tokens: promptTokens - predictedCachedTokens }]);
    }
  }
});
