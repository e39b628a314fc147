/**
 * Prints the results of `deno task test:all agents` as a Markdown table, from files with its output:
 * `NO_COLOR=1 deno task test:all agents > FILE`, and
 * `deno run --allow-read --allow-env tests/agents/matrix.ts FILE…`. The last result of a test counts.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { AGENTS } from "./agents.ts";
import { SCENARIOS, STANDARD } from "./scenarios.ts";

/** Result line of a test, or of a step with the newest test's cost. */
const ENDED = /^(.+?): (.+) \.\.\. (ok|FAILED)\b/;
const COST = /^ +cost (\S+) of what it costs directly/;

const outcomes = new Map<string, string>();
const costs = new Map<string, string>();
for (const path of Deno.args) {
  let cost: string | undefined;
  // A slow test's progress notes appear in the line of its name.
  const report = Deno.readTextFileSync(path).replaceAll(/ \.\.\.('.*\n)+/g, " ...");
  for (const line of report.split("\n")) {
    cost = COST.exec(line)?.[1] ?? cost;
    const [, agent, scenario, outcome] = ENDED.exec(line) ?? [];
    if (agent === undefined || scenario === undefined || line.startsWith(" ")) continue;
    outcomes.set(`${agent}: ${scenario}`, outcome === "ok" ? "ok" : "red");
    if (scenario === STANDARD.name && cost !== undefined) costs.set(agent, cost.replace(/^0/, ""));
    cost = undefined;
  }
}

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const heads = ["agent", "costs", ...SCENARIOS.map((_, at) => `${at + 1}`)];
console.log(SCENARIOS.map(({ name }, at) => `${at + 1}. ${name}`).join("\n"));
console.log("");
console.log(row(heads));
console.log(row(heads.map(() => "---")));
for (const { name, lacks } of AGENTS) {
  const cells = SCENARIOS.map((scenario) =>
    scenario.needs && lacks[scenario.needs] ? "can't" : outcomes.get(`${name}: ${scenario.name}`) ?? "?"
  );
  console.log(row([name, costs.get(name) ?? "?", ...cells]));
}
