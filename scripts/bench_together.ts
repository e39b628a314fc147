/**
 * What recorded sessions would have cost, had their models asked at once for what they read one call after the other,
 * with arguments that they knew before. It says what there is to gain, not how often a model does so when it is told to.
 *
 *     deno task bench:together [--data DIR] [--profile NAME]…
 *
 * `single`: share of the calls that ask for one read alone; `saved`: share that falls away; costs are those of the same
 * work with fewer calls, relative to the recorded calls, everything resent and under the planner.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { loadData } from "./bench/economy/load_data.ts";
import { play, windowFor } from "@tare/simulator/economy";
import { policyNamed } from "./bench/economy/policies/policies.ts";
import { together } from "./bench/economy/together.ts";
import { formatTable } from "./bench/format_table.ts";

const POLICIES = ["resend", "planner"];

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      data: { type: "string", default: "../shared/trajectories" },
      profile: { type: "string", multiple: true, default: ["anthropic-5m", "openai", "deepseek"] },
    },
  });
  const { count: countTokens } = await loadTokenizer();
  const data = loadData(values.data, { warn: (sentence) => console.error(sentence) });
  const rows = [["data", "profile", "calls", "single", "saved", ...POLICIES]];
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
  for (const { name, recordings } of data) {
    const pairs = recordings.map((recorded) => ({ recorded, ...together(recorded) }));
    const sum = (of: (pair: typeof pairs[number]) => number) =>
      pairs.reduce((all, pair) => all + of(pair), 0);
    const calls = sum(({ recorded }) => recorded.calls.length);
    for (const profile of values.profile.map(profileNamed)) {
      const costs: string[] = [];
      for (const policy of POLICIES) {
        const { make, recall } = policyNamed(policy);
        const options = { profile, windowTokens: windowFor(profile), countTokens, recall, repairs: false };
        let [one, other] = [0, 0];
        for (const { recorded, recording } of pairs) {
          one += (await play(recorded, make, options)).cost;
          other += (await play(recording, make, options)).cost;
        }
        costs.push((other / one).toFixed(3));
      }
      const shares = [sum(({ single }) => single), sum(({ saved }) => saved)].map((all) =>
        percent(all / calls)
      );
      rows.push([name, profile.name, String(calls), ...shares, ...costs]);
    }
  }
  console.log(formatTable(rows));
}
