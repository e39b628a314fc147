import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { savingInWords, savingPromise, UNSEEN_BILL, UNSEEN_COSTS } from "../packages/cli/measured_savings.ts";

const read = (path: string) => Deno.readTextFileSync(new URL(`../${path}`, import.meta.url));
const share = (cost: number) => cost.toFixed(2).replace(/^0/, "");

Deno.test("savingInWords() promises no more than was measured", () => {
  const words = [1.2, 0.96, 0.9, 0.857, 0.704, 0.682, 0.4].map(savingInWords);
  assertEquals(words, [
    "nothing",
    "nothing",
    "a tenth",
    "a seventh",
    "three tenths",
    "three tenths",
    "two fifths",
  ]);
});

Deno.test("claims: README and docs/savings.md open with the measured savings", () => {
  for (const path of ["README.md", "docs/savings.md"]) {
    const text = read(path).replaceAll(/\s+/g, " ");
    assertStringIncludes(text, savingPromise(), path);
    const heading = text.indexOf(" ## ");
    assert(text.indexOf(savingPromise()) < heading, path);
    const shares = text.slice(0, heading).matchAll(/saves? about ([\d.]+) %/g);
    assertEquals([...shares], [], path);
  }
});

Deno.test("claims: docs/savings.md shows the measured constants", () => {
  const text = read("docs/savings.md");
  const row = (cells: readonly string[]) =>
    new RegExp(`\\| ${cells.join(" +\\| ")} +\\|`.replaceAll("**", "\\*\\*"));
  const costs = Object.values(UNSEEN_COSTS);
  const change = ({ withoutRefetches, cost }: { readonly withoutRefetches: number; readonly cost: number }) =>
    `${share(withoutRefetches)} → ${share(cost)}`;
  for (
    const cells of [
      ["47 unseen sessions", ...Object.keys(UNSEEN_COSTS)],
      [
        "cost",
        ...costs.map((measured) => `${change(measured)} @ ${(100 * measured.lostEdits).toFixed(1)} %`),
      ],
      ["worst session", ...costs.map(({ worst }) => worst.toFixed(2))],
      ["share of 40 real Claude Code bills", change(UNSEEN_BILL)],
      ["share of the longest sessions' bills", UNSEEN_BILL.longest.toFixed(2)],
    ]
  ) assert(row(cells).test(text), cells.join(" | "));
});

Deno.test("claims: texts at the end of the demo and of tare run promise only that", () => {
  const [demo, run] = ["packages/cli/demo/play_demo.ts", "packages/cli/agents/run.ts"].map(read);
  assertStringIncludes(demo!, "Real sessions save ${savingPromise()}.");
  for (const text of [demo!, run!]) assert(!/longer sessions|up to \d+ ?%/i.test(text));
});
