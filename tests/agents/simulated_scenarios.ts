import type { Plan, Step } from "./model.ts";
import { ELEVEN, type FactsByStep, FOUR, readFiles, reading, readingSteps, TWO } from "./scenarios.ts";
import { CHAT } from "./protocols/chat.ts";
import { MESSAGES } from "./protocols/messages.ts";
import { RESPONSES } from "./protocols/responses.ts";
import type { SimulatedAgent } from "./simulated_agent.ts";
import type { SimulatedScenario } from "./simulated_play.ts";

export const SIMULATED_AGENTS: readonly SimulatedAgent[] = [
  {
    name: "chat",
    protocol: CHAT,
    userAgent: "agent/1.0",
    compactsFrom: (windowTokens) => windowTokens - 12_000,
  },
  {
    name: "responses",
    protocol: RESPONSES,
    userAgent: "codex_exec/0.171.0",
    compactsFrom: (windowTokens) => 0.9 * windowTokens,
    keepsUserTexts: true,
  },
  {
    name: "messages",
    protocol: MESSAGES,
    userAgent: "claude-cli/2.1.332 (external, cli)",
    compactsFrom: "refused",
    retainedTokens: 14_000,
  },
];

const FIRST = { prompt: "Follow plan:FIRST and write report.txt." };
const SECOND = { prompt: "Now follow plan:SECOND and write second.txt." };

const TWO_TASKS = {
  plans: {
    FIRST: reading(30, TWO),
    SECOND: {
      steps: readingSteps(25, {}, "second"),
      facts: Object.values(TWO),
      report: "second.txt",
    },
  },
  files: { ...readFiles(30, TWO), ...readFiles(25, {}, "second") },
};

/** Returns a plan whose facts stay on disk, so that the model can read them again. */
function rereading(steps: number, facts: FactsByStep): Plan {
  const stays = (step: Step) =>
    step.map((call) => typeof call === "string" ? call.replace(/ && rm .*/, "") : call);
  return { ...reading(steps, facts), steps: readingSteps(steps, facts).map(stays), rereads: true };
}

const NAMED_FILES = Array.from({ length: 152 }, (_, at) => `part${at}.txt`);

export const SIMULATED_SCENARIOS: readonly SimulatedScenario[] = [
  {
    name: "standard",
    plans: { FIRST: reading(50, FOUR) },
    files: readFiles(50, FOUR),
    actions: [FIRST],
  },
  {
    name: "short",
    plans: { FIRST: reading(3, {}) },
    files: readFiles(3, {}),
    actions: [FIRST],
  },
  {
    name: "long",
    plans: { FIRST: reading(150, FOUR) },
    files: readFiles(150, FOUR),
    actions: [FIRST],
    windowTokens: 200_000,
  },
  {
    name: "long, without a compaction",
    plans: { FIRST: reading(150, FOUR) },
    files: readFiles(150, FOUR),
    actions: [FIRST],
  },
  { name: "resumed", ...TWO_TASKS, actions: [FIRST, { pauseMs: 120_000 }, "restart", SECOND] },
  {
    name: "re-reading",
    plans: { FIRST: rereading(40, ELEVEN) },
    files: readFiles(40, ELEVEN),
    actions: [FIRST],
  },
  { name: "compacting by command", ...TWO_TASKS, actions: [FIRST, "compact", SECOND] },
  {
    name: "in a small window",
    plans: { FIRST: reading(50, FOUR) },
    files: readFiles(50, FOUR),
    actions: [FIRST],
    windowTokens: 60_000,
  },
  {
    name: "compacting at its limit",
    // Ends some calls before another compaction, whose place is only estimated.
    plans: { FIRST: { ...reading(34, FOUR), textTokens: 3_800 } },
    files: readFiles(34, FOUR),
    actions: [FIRST],
    windowTokens: 100_000,
  },
  {
    name: "compacting later than directly",
    plans: { FIRST: { ...reading(60, FOUR), textTokens: 2_200 } },
    files: readFiles(60, FOUR),
    actions: [FIRST],
    windowTokens: 100_000,
  },
  {
    name: "compacting within a turn",
    plans: { FIRST: reading(75, FOUR) },
    files: readFiles(75, FOUR),
    actions: [{ ...FIRST, stopsBefore: 60 }, "compact", { prompt: "Go on with plan:FIRST." }],
  },
  {
    name: "restarted",
    plans: { FIRST: reading(40, TWO) },
    files: readFiles(40, TWO),
    actions: [{ ...FIRST, stopsBefore: 20 }, "restart", { prompt: "Go on." }],
  },
  {
    name: "tools that go and come back",
    ...TWO_TASKS,
    actions: [
      FIRST,
      "restart",
      { tools: 25 },
      { ...SECOND, stopsBefore: 1 },
      { tools: 26 },
      { prompt: "Go on." },
    ],
  },
  {
    name: "tools that come back after a break",
    ...TWO_TASKS,
    ttlMs: 300_000,
    actions: [
      FIRST,
      "restart",
      { pauseMs: 3_600_000 },
      { tools: 25 },
      { ...SECOND, stopsBefore: 1 },
      { tools: 26 },
      { prompt: "Go on." },
    ],
  },
  {
    name: "resumed after a break",
    ...TWO_TASKS,
    ttlMs: 300_000,
    actions: [FIRST, "restart", { pauseMs: 3_600_000 }, SECOND],
  },
  {
    name: "interrupted",
    plans: { FIRST: reading(40, TWO) },
    files: readFiles(40, TWO),
    actions: [{ ...FIRST, stopsBefore: 20 }, { prompt: "Go on." }],
  },
  {
    name: "model switched",
    ...TWO_TASKS,
    actions: [
      { ...FIRST, stopsBefore: 20 },
      { model: "other" },
      { prompt: "Go on.", stopsBefore: 5 },
      { model: "usual" },
      { prompt: "Go on." },
      SECOND,
    ],
  },
  {
    name: "named files",
    plans: {
      FIRST: { steps: NAMED_FILES.map((path) => [`cat ${path}`]), facts: [], report: "report.txt" },
    },
    files: readFiles(152),
    actions: [{ prompt: `Read ${NAMED_FILES.join(", ")}. ${FIRST.prompt}` }],
    windowTokens: 200_000,
  },
  {
    name: "a provider without a cache",
    plans: { FIRST: reading(40, TWO) },
    files: readFiles(40, TWO),
    actions: [FIRST],
    caches: () => false,
  },
  {
    name: "a cache that misses the first three calls",
    plans: { FIRST: reading(40, TWO) },
    files: readFiles(40, TWO),
    actions: [FIRST],
    caches: (call) => call > 3,
  },
  {
    name: "a cache that misses every tenth call",
    plans: { FIRST: reading(40, TWO) },
    files: readFiles(40, TWO),
    actions: [FIRST],
    // At no rewrite: a miss there counts as the gateway's cost.
    caches: (call) => call % 10 !== 5,
  },
];
