import { assert, assertEquals, assertMatch } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { memoryArchive, recallOriginal } from "@tare/prune";

/** All that a search finds, following the answers' offsets, and in how many answers. */
async function search(original: string, pattern: string, limitTokens = 300) {
  const archive = memoryArchive();
  const ref = await archive.put(original);
  const found: string[] = [];
  let offset: number | undefined = 0;
  let answers = 0;
  for (; offset !== undefined; answers += 1) {
    const { content } = await recallOriginal(archive, { ref, pattern, offset }, { limitTokens });
    assert(estimateTokens(content) <= limitTokens);
    const more = /\n\[there is more; go on with the same pattern and offset (\d+)\]$/.exec(content);
    found.push(...content.slice(0, more?.index).split("\n"));
    offset = more ? Number(more[1]) : undefined;
  }
  return { found, answers };
}

Deno.test("searchLines() finds each matching line once, over as many answers as it takes", async () => {
  const lines = Array.from({ length: 1000 }, (_, n) => `line ${n + 1}`);
  const { found, answers } = await search(lines.join("\n"), "[05]$");
  assertEquals(found, lines.map((line, n) => `${n + 1}:${line}`).filter((line) => /[05]$/.test(line)));
  assert(answers > 2);
});

Deno.test("searchLines() shows of a long line what surrounds each match, and where that stands", async () => {
  const line = `${"-".repeat(2000)}NEEDLE${"-".repeat(2000)}NEEDLE${"-".repeat(100)}`;
  const { found } = await search(`first\n${line}\nlast NEEDLE`, "NEEDLE");
  assertEquals(found, [
    `2, offset 1906: … ${"-".repeat(100)}NEEDLE${"-".repeat(194)} …`,
    `2, offset 3912: … ${"-".repeat(100)}NEEDLE${"-".repeat(100)} …`,
    "3:last NEEDLE",
  ]);
});

Deno.test("searchLines() goes on within a long line of many matches, and loses none", async () => {
  const line = Array.from({ length: 3000 }, (_, n) => `id${n}`).join(" ");
  const { found, answers } = await search(line, "id\\d*7\\b", 2000);
  const ids = found.flatMap((excerpt) => excerpt.match(/id\d*7\b/g) ?? []);
  assertEquals(new Set(ids).size, 300);
  assert(answers > 2);
});

Deno.test("searchLines() shows no half characters", async () => {
  const { found } = await search(`${"🙂".repeat(1000)}x${"🙂".repeat(1000)}`, "x");
  assertMatch(found[0]!, /^1, offset 1900: … 🙂.*x/u);
  assert(found[0]!.isWellFormed());
  const odd = await search(`é${"🙂".repeat(1000)}x${"🙂".repeat(1000)}`, "x");
  assert(odd.found[0]!.isWellFormed());
});

Deno.test("searchLines() matches empty lines, and a pattern that matches everywhere", async () => {
  assertEquals((await search("a\n\nb\n", "^$")).found, ["2:", "4:"]);
  assertEquals((await search("a\nb", "")).found, ["1:a", "2:b"]);
  assertEquals((await search("", "")).found, ["1:"]);
});
