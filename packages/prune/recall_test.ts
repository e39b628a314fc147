import {
  assert,
  assertEquals,
  assertLess,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { argumentsParser } from "@tare/messages/arguments";
import {
  type Archive,
  archiveMessages,
  formatPlaceholder,
  memoryArchive,
  RECALL_TOOL,
  recallOriginal,
} from "@tare/prune";
import fc from "fast-check";

const lines = (count: number) => Array.from({ length: count }, (_, n) => `line ${n + 1}`).join("\n");

async function recall(
  original: string,
  request: Omit<Parameters<typeof recallOriginal>[1], "ref"> = {},
  limitTokens?: number,
) {
  const archive = memoryArchive();
  const ref = await archive.put(original);
  return await recallOriginal(archive, { ref, ...request }, limitTokens === undefined ? {} : { limitTokens });
}

Deno.test("recallOriginal() gives a whole original back, every code unit of it", async () => {
  for (const original of ["", "text\r\n\n", "🙂 \ud83d", "x".repeat(28_000)]) {
    assertEquals(await recall(original), { content: original, error: false });
  }
});

Deno.test("recallOriginal() gives messages as a transcript, so that their lines can be asked for and searched", async () => {
  const archive = memoryArchive();
  const call = { name: "write_file", arguments: '{"path":"a.ts","content":"let a;\\nlet b;"}' };
  const { ref, text } = await archiveMessages([
    { role: "assistant", tool_calls: [{ id: "1", type: "function", function: call }] },
    { role: "tool", tool_call_id: "1", content: "nightly: 7\nweekly: 9" },
  ], { archive, purpose: "drop" });
  const ask = (request: Omit<Parameters<typeof recallOriginal>[1], "ref">) =>
    recallOriginal(archive, { ref, ...request });
  const whole =
    "assistant:\ncalls write_file\npath: a.ts\ncontent: let a;\nlet b;\n\ntool:\nnightly: 7\nweekly: 9";
  assertEquals(await ask({}), { content: whole, error: false });
  assertEquals((await ask({ pattern: "^nightly" })).content, "8:nightly: 7");
  assertEquals((await ask({ lines: "4-5" })).content, "content: let a;\nlet b;");
  // The archive holds every byte of them, and what only looks like messages is given as it is.
  assertEquals(await archive.get(ref), text);
  for (
    const original of [
      `${text}\n{}`,
      `${text}\n`,
      '{"role":"robot","content":""}',
      '{"role":"tool"}',
      '{"role":"user","content":5}',
    ]
  ) {
    assertEquals((await recall(original)).content, original);
  }
});

Deno.test("recallOriginal() gives ranges of lines", async () => {
  const requests = ["2-3", "4-", "5", " 1 - 2 ", "4-99", "1-"];
  const answers = await Promise.all(requests.map((range) => recall(lines(5), { lines: range })));
  assertEquals(answers.map(({ content }) => content), [
    "line 2\nline 3",
    "line 4\nline 5",
    "line 5",
    "line 1\nline 2",
    "line 4\nline 5",
    lines(5),
  ]);
  assertEquals(await recall("a\n\nb\n", { lines: "2-4" }), { content: "\nb\n", error: false });
});

Deno.test("recallOriginal() says what is wrong with a range, and what would be right", async () => {
  for (const range of ["0-3", "3-2", "x", "", "-5", "1-2-3"]) {
    assertEquals(await recall(lines(5), { lines: range }), {
      content: `Cannot recall lines '${range}': a range looks like 120-180, 120- or 120, counted from 1.`,
      error: true,
    });
  }
  assertEquals(await recall(lines(5), { lines: "6-9" }), {
    content: "Cannot recall lines '6-9': the original has 5 lines.",
    error: true,
  });
});

Deno.test("recallOriginal() finds the lines that match a pattern, with their numbers, also within a range", async () => {
  assertEquals(await recall("Apple\nbanana\nCHERRY", { pattern: "(?i)^[ac]" }), {
    content: "1:Apple\n3:CHERRY",
    error: false,
  });
  assertEquals(await recall(lines(30), { pattern: "5$", lines: "10-20" }), {
    content: "15:line 15",
    error: false,
  });
  assertEquals(await recall(lines(5), { pattern: "nothing" }), {
    content: "No match for 'nothing'.",
    error: false,
  });
});

Deno.test("recallOriginal() says what is wrong with a pattern, and what would be right", async () => {
  for (const pattern of ["(", "(?=x)", "a\\1"]) {
    const { content, error } = await recall("text", { pattern });
    assertStringIncludes(content, `Cannot search for '${pattern}': error parsing regexp`);
    assertStringIncludes(content, "Use RE2 syntax");
    assert(error);
  }
});

Deno.test("recallOriginal() says what to do about an unknown reference", async () => {
  for (const ref of ["0123456789abcdef", "../../etc/passwd", "", "recall with ref 0123"]) {
    const { content, error } = await recallOriginal(memoryArchive(), { ref });
    assertStringIncludes(
      content,
      `Cannot recall '${ref}': no original has this reference. Copy the 16 hex digits`,
    );
    assert(error);
  }
});

Deno.test("recallOriginal() forgives space around a reference, and capitals", async () => {
  const archive = memoryArchive();
  const ref = ` ${(await archive.put("text")).toUpperCase()}\n`;
  assertEquals(await recallOriginal(archive, { ref }), { content: "text", error: false });
});

Deno.test("recallOriginal() cuts a long answer and says how to go on", async () => {
  const { content, error } = await recall(lines(10_000), {}, 200);
  const notice = content.split("\n").at(-1)!;
  assertEquals(notice, "[characters 0 to 463 of 98893, lines 1 to 59 of 10000; go on with offset 463]");
  assertEquals(content, `${lines(59)}\n${notice}`);
  assertEquals(error, false);
  const next = await recall(lines(10_000), { offset: 463 }, 200);
  assertStringIncludes(next.content, "line 60\nline 61\n");
});

Deno.test("recallOriginal() gives every byte of an original, piece by piece, within the limit", async () => {
  const originals = fc.array(fc.oneof(fc.string({ unit: "binary" }), fc.constant("\n"), fc.lorem()), {
    minLength: 1,
  })
    .chain((pieces) => fc.integer({ min: 1, max: 50 }).map((times) => pieces.join("").repeat(times)));
  await fc.assert(
    fc.asyncProperty(originals, async (original) => {
      let [offset, read] = [0, ""];
      do {
        const { content } = await recall(original, { offset }, 200);
        assert(estimateTokens(content) <= 200);
        const next = /\n\[characters \d+ to \d+ of .*go on with offset (\d+)\]$/.exec(content);
        const end = next ? Number(next[1]) : original.length;
        // A line break at the end of a piece is the one before the notice.
        read += next ? content.slice(0, next.index).padEnd(end - offset, "\n") : content;
        assert(end > offset || end === 0);
        offset = end;
      } while (offset < original.length);
      assert(read === original);
    }),
    { examples: [["x".repeat(5000)], ["🙂".repeat(2000)]], numRuns: 50 },
  );
});

Deno.test("recallOriginal() refuses an offset behind the end", async () => {
  assertEquals(await recall("text", { offset: 4 }), {
    content: "Cannot recall from offset 4: what was asked for ends at 4.",
    error: true,
  });
  assertEquals((await recall("text", { offset: 3 })).content, "t");
});

Deno.test("recallOriginal() refuses a limit that has no room for the way to the next piece", async () => {
  await assertRejects(() => recall("text", {}, 199), RangeError, "Cannot recall within 199 tokens");
});

Deno.test("recallOriginal() lets the archive's failure through: the model can't mend it", async () => {
  const archive: Archive = { ...memoryArchive(), get: () => Promise.reject(new Error("damaged")) };
  await assertRejects(() => recallOriginal(archive, { ref: "0123456789abcdef" }), Error, "damaged");
});

Deno.test("recallOriginal() answers any request for a very long text at once", async () => {
  const original = `${"x".repeat(500_000)}\n${"é🙂\n".repeat(200_000)}`;
  for (
    const request of [{}, { lines: "2-" }, { pattern: "x+x+y" }, { pattern: "(.*)*x(.*x)?" }, {
      offset: 700_000,
    }]
  ) {
    const { content } = await recall(original, request);
    assertLess(estimateTokens(content), 7000);
  }
});

Deno.test("RECALL_TOOL accepts exactly the requests that recallOriginal() answers", () => {
  const parse = argumentsParser(RECALL_TOOL);
  const ref = "0123456789abcdef";
  for (const good of [{ ref }, { ref, lines: "1-9" }, { ref, pattern: "x", offset: 10 }]) {
    assertEquals(parse(JSON.stringify(good)), { ok: true, value: good });
  }
  for (
    const bad of [{}, { ref: 1 }, { ref, lines: 3 }, { ref, offset: -1 }, { ref, offset: 1.5 }, {
      ref,
      path: "x",
    }]
  ) {
    assertEquals(parse(JSON.stringify(bad)).ok, false);
  }
});

Deno.test("RECALL_TOOL says what a placeholder looks like, and each placeholder says how to call it", () => {
  const ref = "0123456789abcdef";
  const [start = "", end = ""] = /`(\[elided: [^`]*\])`/.exec(RECALL_TOOL.function.description ?? "")?.[1]
    ?.split("…") ?? [];
  for (
    const placeholder of [
      { of: "result", tool: "grep", bytes: 48213, ref },
      { of: "middle", tool: "grep", bytes: 48213, ref },
      { of: "messages", messages: 14, ref },
      { of: "text", bytes: 9000, ref },
    ] as const
  ) {
    const line = formatPlaceholder(placeholder, { recall: true });
    assert(start && line.startsWith(start) && line.endsWith(`recall with ref ${ref}${end}`), line);
  }
});

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
