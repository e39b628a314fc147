import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { contentText } from "@tare/messages";
import type { SessionView } from "@tare/planner";
import type { SimulatedModel } from "@tare/simulator";
import { benchComprehension } from "../scripts/bench_comprehension.ts";
import { type CaseResult, type MakePolicy, POLICIES } from "../scripts/bench/probe/comprehension/ask_case.ts";
import { attentive, inattentive, literal } from "../scripts/bench/probe/comprehension/simulated_models.ts";
import type { PolicyLine } from "../scripts/bench/probe/comprehension/summary.ts";
import { measuring, measuringOverHttp, PRICES } from "./measured.ts";

const ARGS = ["--name", "t"];

/** Shows the system message and the active turn, and keeps nothing of the rest. */
const forgetful: MakePolicy = () => {
  const session: ReturnType<MakePolicy> = {
    view({ messages, tools }) {
      const start = messages.findLastIndex(({ role }) => role === "user");
      const shown = messages.filter(({ role }, at) => role === "system" || at >= start);
      const view: SessionView = {
        messages: shown,
        tools,
        places: [],
        rewrites: [],
        warnings: [],
        saved: { context: 0, prune: 0, schemas: 0, truncate: 0, references: 0, notation: 0 },
        promptTokens: 0,
        predictedCachedTokens: 0,
      };
      return Promise.resolve(view);
    },
    sent: () => undefined,
    state: undefined,
  };
  return session;
};

/** Says everything that could be the answer. */
const babbling: SimulatedModel = ({ messages }) => ({
  content: messages.flatMap(({ content }) => contentText(content).match(/\b[a-z]+-\d{4}\b/g) ?? []).join(" "),
});

async function summaryOf(
  simulated: SimulatedModel,
  policies: Readonly<Record<string, MakePolicy>> = POLICIES,
): Promise<Readonly<Record<string, PolicyLine>>> {
  const { summary } = await resultsOf(simulated, policies);
  return Object.fromEntries(summary.map((line) => [line.policy, line]));
}

async function resultsOf(
  simulated: SimulatedModel,
  policies: Readonly<Record<string, MakePolicy>>,
): Promise<{
  readonly text: string;
  readonly summary: readonly PolicyLine[];
  readonly results: Readonly<Record<string, CaseResult>>;
}> {
  await using around = await measuring();
  const { text } = await benchComprehension(ARGS, around, { simulated, policies });
  return { text, ...JSON.parse(await around.read("t.json")) };
}

const VALUES = [
  "a report's line",
  "a file's line",
  "a file's line, since changed",
  "what the user said",
  "what the agent answered",
  "what the agent said in a step",
  "what nobody said",
];
const NAMED = "a file that the user named, for an edit";
const EDITS = ["a rule, for an edit", "a report's line and a rule, for an edit"];
const NOTATION = [
  "a line between numbers",
  "a line of a block as above",
  "a line that has moved since",
  "a line as it was first",
  "a hit under its file",
  "a path behind its folder",
  "an edit in a block as above",
];

Deno.test("bench:comprehension: who knows only what the prompt shows, and recalls, knows all under the planner", async () => {
  const { summary, results } = await resultsOf(attentive, POLICIES);
  const [none, once, classic, planner] = summary;
  assert(none && once && classic && planner);
  for (const { asked, passed, failed, failedEdits } of [none, once, planner]) {
    assertEquals([asked, passed, failed, failedEdits], [17, 17, [], 0]);
  }
  for (const { by } of [none, once]) assertEquals(by, { shown: 17, recall: 0, read: 0 });
  assert(once.promptTokens < none.promptTokens);
  // It has left though the user named it, and is looked at again before it is edited.
  assertEquals(results[`planner: ${NAMED}`]?.by, "read");
  // It is a test of forgetting only as long as most of it has left the prompt.
  assert(
    planner.by.recall >= 3 && planner.by.read >= 1 && planner.calls > none.calls,
    JSON.stringify(planner),
  );
  assert(
    planner.promptTokens < 0.5 * none.promptTokens && planner.usd < 0.5 * none.usd,
    JSON.stringify(planner),
  );
  // Its tool-loop context leaves out old turns from a turn's second call on, and with them what the user said there.
  assert(classic.passed >= 5 && EDITS.every((name) => classic.failed.includes(name)), classic.failed.join());
});

Deno.test("bench:comprehension: who takes references, sparse numbers and headings as they stand fails there, and nowhere in full", async () => {
  const { none, once, planner } = await summaryOf(literal);
  assertEquals([none?.failed, none?.lost], [[], undefined]);
  assertEquals([once?.failed, once?.lost], [NOTATION, NOTATION]);
  assertEquals(planner?.lost, NOTATION);
  const { text } = await resultsOf(literal, { none: POLICIES.none!, once: POLICIES.once! });
  assertStringIncludes(text, `\nonce failed where it passed in full: ${NOTATION.join("; ")}.\n`);
});

Deno.test("bench:comprehension: who never looks again fails where the prompt doesn't show it, and at every rule", async () => {
  const { none, planner } = await summaryOf(inattentive);
  assertEquals(planner?.failed, [
    "a report's line",
    "a file's line",
    "a file's line, since changed",
    "what nobody said",
    NAMED,
    ...EDITS,
    ...NOTATION,
  ]);
  assertEquals([planner?.lost, planner?.failedEdits], [["a file's line"], 3]);
  // Even with all in its prompt it takes the newest for the first, guesses, and breaks the rule.
  assertEquals(none?.failed, [
    "a report's line",
    "a file's line, since changed",
    "what nobody said",
    NAMED,
    ...EDITS,
    ...NOTATION,
  ]);
});

Deno.test("bench:comprehension: who lists all that it sees has answered nothing", async () => {
  const { none } = await summaryOf(babbling);
  assertEquals(none?.failed, [...VALUES, NAMED, ...EDITS, ...NOTATION]);
});

Deno.test("bench:comprehension: a policy that drops everything shows, however attentive the model", async () => {
  const { forgetful: line } = await summaryOf(attentive, { forgetful });
  assertEquals(line?.failed, [
    "a report's line",
    "a file's line, since changed",
    "what the user said",
    "what the agent answered",
    "what the agent said in a step",
    ...EDITS,
    ...NOTATION.filter((name) => !/numbers|block|moved/.test(name)),
  ]);
  assertEquals(line?.by, { shown: 1, recall: 0, read: 6 });
});

Deno.test("bench:comprehension stops at its budget, and asks nothing twice", async () => {
  await using around = await measuringOverHttp({ profile: "openai", model: attentive });
  const args = [...ARGS, ...PRICES, "--policy", "planner"];
  const stopped = await benchComprehension([...args, "--budget", "0.04"], around);
  assertMatch(stopped.stopped ?? "", /^Stopped: the next request could cost/);
  assertMatch(stopped.text, /planner +(\d|1[0-6]) of \1 /);
  const before = around.requests.length;
  const { text } = await benchComprehension([...args, "--budget", "1"], around);
  assertMatch(text, /planner +17 of 17 .*\n\nThe same as a plot: /);
  const { calls, summary } = JSON.parse(await around.read("t.json"));
  // A question that had begun is asked from its start.
  assertEquals(around.requests.length, calls);
  assert(summary[0].calls <= calls && calls - summary[0].calls < 4, `${before} ${calls} ${summary[0].calls}`);
  assertMatch(await around.read("t.svg"), /^<svg .*planner/s);
});

Deno.test("bench:comprehension counts repeats, each with facts of its own, and refuses unknown policies", async () => {
  await using around = await measuring();
  const { text } = await benchComprehension([...ARGS, "--repeats", "2", "--policy", "planner"], around);
  assertStringIncludes(text, "planner  34 of 34");
  const { results } = JSON.parse(await around.read("t.json"));
  const said = ["planner: a report's line", "planner: a report's line (2)"].map((key) => results[key].said);
  assert(said[0] !== said[1], said.join());
  await assertRejects(
    () => benchComprehension([...ARGS, "--policy", "x"], around),
    RangeError,
    'Cannot start: --policy is "x", but it must be one of none, once, classic, planner.',
  );
});
