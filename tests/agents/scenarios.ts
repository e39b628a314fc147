import { sourceText } from "../gateway/long_session.ts";
import type { Step } from "./model.ts";
import type { Scenario } from "./play.ts";

/** Tokens of one file that is read, about. */
const FILE_TOKENS = 2_000;

/** The facts that are needed again at the end, by the step that reads them. */
const FACTS: Readonly<Record<number, string>> = { 3: "alder", 9: "birch", 17: "cedar", 26: "dogwood" };

/** Reads a file for each step, two for each third one. What holds a fact is gone once it was read. */
function readingSteps(steps: number, facts: Readonly<Record<number, string>>): readonly Step[] {
  return Array.from({ length: steps }, (_, step): Step => {
    const fact = facts[step];
    const first = fact === undefined ? `cat part${step}.txt` : `cat ${fact}.txt && rm ${fact}.txt`;
    return step % 3 === 0 ? [first, `cat more${step}.txt`] : [first];
  });
}

/** The files that such steps read. */
function readFiles(steps: number, facts: Readonly<Record<number, string>>): Record<string, string> {
  const files: Record<string, string> = {};
  for (let step = 0; step < steps; step++) {
    const fact = facts[step];
    const text = (name: string) => sourceText(name, FILE_TOKENS);
    if (fact === undefined) files[`part${step}.txt`] = text(`part${step}`);
    else files[`${fact}.txt`] = `FACT ${fact}=${fact}${step}\n${text(fact)}`;
    if (step % 3 === 0) files[`more${step}.txt`] = text(`more${step}`);
  }
  return files;
}

/** The work by which agents are compared: 50 steps, 67 calls, four facts of the first half needed at the end. */
export const STANDARD: Scenario = {
  name: "50 steps with parallel calls",
  plans: { LONG: { steps: readingSteps(50, FACTS), facts: Object.values(FACTS), report: "report.txt" } },
  files: readFiles(50, FACTS),
  actions: [{ prompt: "Follow plan:LONG and write report.txt." }],
};
