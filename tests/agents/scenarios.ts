import { createHash } from "node:crypto";
import { sourceText } from "../gateway/long_session.ts";
import type { Plan, Step } from "./model.ts";
import type { Scenario } from "./play.ts";

const FILE_TOKENS = 2_000;

/**
 * Returns steps that read one file of a task, every third one two. Files with facts are deleted after the
 * read. Recorded agents seldom read a file again that is still in the prompt, so tasks read different files.
 */
export function readingSteps(steps: number, facts: FactsByStep = {}, task = ""): readonly Step[] {
  return Array.from({ length: steps }, (_, step): Step => {
    const fact = facts[step];
    const first = fact === undefined ? `cat ${task}part${step}.txt` : `cat ${fact}.txt && rm ${fact}.txt`;
    return step % 3 === 0 ? [first, `cat ${task}more${step}.txt`] : [first];
  });
}

export function readFiles(steps: number, facts: FactsByStep = {}, task = ""): Record<string, string> {
  const files: Record<string, string> = {};
  for (let step = 0; step < steps; step++) {
    const fact = facts[step];
    if (fact === undefined) files[`${task}part${step}.txt`] = sourceText(`${task}part${step}`, FILE_TOKENS);
    else {files[`${fact}.txt`] = `FACT ${fact}=${
        createHash("sha256").update(fact).digest("hex").slice(0, 12)
      }\n${sourceText(fact, FILE_TOKENS)}`;}
    if (step % 3 === 0) files[`${task}more${step}.txt`] = sourceText(`${task}more${step}`, FILE_TOKENS);
  }
  return files;
}

export type FactsByStep = Readonly<Record<number, string>>;

export const FOUR: FactsByStep = { 3: "alder", 9: "birch", 17: "cedar", 26: "dogwood" };
export const TWO: FactsByStep = { 2: "alder", 7: "birch" };
const OTHER_TWO: FactsByStep = { 2: "cedar", 7: "dogwood" };
export const ELEVEN: FactsByStep = Object.fromEntries(
  "alder birch cedar dogwood elm fir ginkgo hazel ivy juniper larch".split(" ").map((
    fact,
    at,
  ) => [1 + 2 * at, fact]),
);

export function reading(steps: number, facts: FactsByStep): Plan {
  return { steps: readingSteps(steps, facts), facts: Object.values(facts), report: "report.txt" };
}

/** Later task that needs the results of an earlier one. */
const SECOND: Plan = {
  steps: readingSteps(12, {}, "second"),
  facts: Object.values(TWO),
  report: "second.txt",
};

const TWO_TASKS = {
  plans: { FIRST: reading(25, TWO), SECOND },
  files: { ...readFiles(25, TWO), ...readFiles(12, {}, "second") },
};

const IMAGE = Uint8Array.fromBase64(
  [
    "iVBORw0KGgoAAAANSUhEUgAABAAAAAQAAQAAAABXZhYuAAAAlklEQVR42u3BAQEAAACCIP+vbkhAAQAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADvBgQeAAEN3jhkAAAAAElFTkSuQmCC",
  ].join(""),
);

const FIRST_PROMPT = "Follow plan:FIRST and write report.txt.";
const SECOND_PROMPT = "Now follow plan:SECOND and write second.txt.";

/** Standard comparison: 50 steps, 67 calls, four facts of the first half needed at the end. */
export const STANDARD: Scenario = {
  name: "50 steps with parallel calls",
  plans: { FIRST: reading(50, FOUR) },
  files: readFiles(50, FOUR),
  actions: [{ prompt: FIRST_PROMPT }],
};

/** Task that overflows the window without the gateway: 150 steps, 200 calls, results of twice the window. */
export const LONG: Scenario = {
  name: "150 steps in a window of 200,000",
  plans: { FIRST: reading(150, FOUR) },
  files: readFiles(150, FOUR),
  actions: [{ prompt: FIRST_PROMPT }],
  windowTokens: 200_000,
  compacts: "directly",
  needs: "limit",
};

export const SCENARIOS: readonly Scenario[] = [
  STANDARD,
  LONG,
  {
    name: "a second prompt in a new process",
    ...TWO_TASKS,
    actions: [{ prompt: FIRST_PROMPT }, { prompt: SECOND_PROMPT }],
    needs: "resume",
  },
  {
    name: "a second prompt in the same process",
    ...TWO_TASKS,
    actions: [{ prompt: [FIRST_PROMPT, SECOND_PROMPT] }],
    needs: "converse",
  },
  {
    name: "interrupted, then continued",
    plans: {
      FIRST: {
        ...reading(25, TWO),
        // Far after the facts, and after a pause: some agents write their steps seconds later.
        steps: readingSteps(25, TWO).with(20, ["sleep 15 && touch started && sleep 100"]),
      },
    },
    files: readFiles(25, TWO),
    actions: [{ prompt: FIRST_PROMPT, interruptedBy: "started" }, { prompt: "Go on." }],
    needs: "interrupt",
  },
  {
    name: "compacted by itself at its limit",
    plans: { FIRST: reading(50, FOUR) },
    files: readFiles(50, FOUR),
    actions: [{ prompt: FIRST_PROMPT }],
    windowTokens: 60_000,
    compacts: "directly",
    needs: "limit",
  },
  {
    // The model's texts are never evicted, so the agent reaches its limit.
    name: "compacted by itself, with long texts",
    plans: { FIRST: { ...reading(40, FOUR), textTokens: 3_800 } },
    files: readFiles(40, FOUR),
    actions: [{ prompt: FIRST_PROMPT }],
    windowTokens: 100_000,
    compacts: "always",
    needs: "limit",
  },
  {
    name: "compacted by command",
    ...TWO_TASKS,
    actions: [{ prompt: FIRST_PROMPT }, { prompt: "compact" }, { prompt: SECOND_PROMPT }],
    compacts: "always",
    needs: "compact",
  },
  {
    name: "429, 500, 503 and a stream that breaks off",
    plans: { FIRST: reading(12, TWO) },
    files: readFiles(12, TWO),
    actions: [{ prompt: FIRST_PROMPT }],
    failures: { 2: 429, 5: 500, 8: "cut", 11: 503 },
    needs: "retries",
  },
  {
    name: "the gateway killed and started again on the way",
    plans: { FIRST: reading(25, TWO) },
    files: readFiles(25, TWO),
    actions: [{ prompt: FIRST_PROMPT }],
    restartsBefore: 20,
  },
  {
    name: "two conversations at the same time",
    plans: { FIRST: reading(15, TWO), SECOND: { ...reading(15, OTHER_TWO), report: "second.txt" } },
    files: { ...readFiles(15, TWO), ...readFiles(15, OTHER_TWO) },
    actions: [{ prompt: { parallel: [FIRST_PROMPT, SECOND_PROMPT] } }],
    needs: "parallel",
  },
  {
    name: "an image attached to the prompt",
    plans: { FIRST: reading(12, TWO) },
    files: { ...readFiles(12, TWO), "picture.png": IMAGE },
    actions: [{ prompt: FIRST_PROMPT, image: "picture.png" }],
    needs: "images",
  },
  {
    name: "eleven recalls in a row",
    plans: { FIRST: reading(40, ELEVEN) },
    files: readFiles(40, ELEVEN),
    actions: [{ prompt: FIRST_PROMPT }],
  },
  {
    name: "a subagent",
    plans: {
      FIRST: {
        ...reading(20, TWO),
        steps: readingSteps(20, TWO).with(10, [{ delegate: "PART" }]),
        facts: [...Object.values(TWO), "yew"],
      },
      PART: { steps: readingSteps(9, { 4: "yew" }), facts: ["yew"] },
    },
    files: { ...readFiles(9, { 4: "yew" }), ...readFiles(20, TWO) },
    actions: [{ prompt: FIRST_PROMPT }],
    needs: "delegate",
  },
  {
    name: "eleven deferred tools loaded on the way",
    plans: {
      FIRST: {
        ...reading(30, FOUR),
        steps: readingSteps(30, FOUR).map((calls, step) =>
          step % 2 === 1 && step < 22 ? [...calls, { discover: (step - 1) / 2 }] : calls
        ),
      },
    },
    files: readFiles(30, FOUR),
    actions: [{ prompt: FIRST_PROMPT }],
    needs: "discoveries",
  },
];
