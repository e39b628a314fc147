import {
  assert,
  assertEquals,
  assertLess,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { argumentsParser } from "@tare/loop/arguments";
import { type Archive, memoryArchive, RECALL_TOOL, recallOriginal } from "@tare/prune";
import { archiveMessages, formatPlaceholder } from "@tare/prune/internal";
import fc, { cases } from "../../tests/cases.ts";
import { codePoints } from "../../tests/code_points.ts";

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

Deno.test("recallOriginal() returns every code unit of an original", async () => {
  for (const original of ["", "text\r\n\n", "🙂 \ud83d", "x".repeat(28_000)]) {
    assertEquals(await recall(original), { content: original, error: false });
  }
});

Deno.test("recallOriginal() returns messages as a transcript with lines and search", async () => {
  const archive = memoryArchive();
  const call = { name: "write_file", arguments: '{"path":"a.ts","content":"let a;\\nlet b;"}' };
  const { ref, text } = await archiveMessages([
    {
      role: "assistant",
      tool_calls: [{ id: "1", type: "function", function: call }],
      carried: { by: "m", items: [{ type: "reasoning", sealed: "gAAA" }] },
    },
    { role: "tool", tool_call_id: "1", content: "nightly: 7\nweekly: 9" },
  ], { archive, purpose: "drop" });
  const ask = (request: Omit<Parameters<typeof recallOriginal>[1], "ref">) =>
    recallOriginal(archive, { ref, ...request });
  const whole =
    "assistant:\ncalls write_file\npath: a.ts\ncontent: let a;\nlet b;\n\ntool:\nnightly: 7\nweekly: 9";
  assertEquals(await ask({}), { content: whole, error: false });
  assertEquals((await ask({ find: "nightly" })).content, "6-\n7-tool:\n8:nightly: 7\n9-weekly: 9");
  assertEquals((await ask({ lines: "4-5" })).content, "content: let a;\nlet b;");
  assertEquals(text.includes("gAAA"), false);
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

Deno.test("recallOriginal() returns images only to a model that accepts them, and mistakes no text for one", async () => {
  const archive = memoryArchive();
  const url = "data:image/png;base64,AAAA";
  const ref = await archive.put(
    JSON.stringify([{ type: "text", text: "A chart." }, { type: "image_url", image_url: { url } }]),
  );
  const visible = await recallOriginal(archive, { ref }, { supportsImages: true });
  assertEquals([visible.error, visible.images], [false, [url]]);
  assertStringIncludes(visible.content, "A chart.");
  const refused = await recallOriginal(archive, { ref });
  assertEquals([refused.error, refused.images], [true, undefined]);
  assertStringIncludes(refused.content, "this model accepts no images");
  const quoted = `See ${await archive.get(ref)}`;
  for (const original of ['[{"type":"text","text":"A chart."}]', quoted]) {
    assertEquals(await recall(original), { content: original, error: false });
  }
});

Deno.test("recallOriginal() returns ranges of lines", async () => {
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
  assertEquals(await recall("\nb", { lines: "1" }), { content: "", error: false });
});

Deno.test("recallOriginal() explains an invalid range", async () => {
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

Deno.test("recallOriginal() finds lines with a text in any case, with context, also within a range", async () => {
  assertEquals(await recall("Apple\nbanana\nCHERRY", { find: "ch" }), {
    content: "1-Apple\n2-banana\n3:CHERRY",
    error: false,
  });
  assertEquals(await recall(lines(30), { find: "5", lines: "10-20" }), {
    content: "13-line 13\n14-line 14\n15:line 15\n16-line 16\n17-line 17",
    error: false,
  });
  const far = [...lines(3).split("\n"), "HERE", ...lines(5).split("\n"), "here", "here"].join("\n");
  assertEquals(
    (await recall(far, { find: "Here" })).content,
    "2-line 2\n3-line 3\n4:HERE\n5-line 1\n6-line 2\n--\n8-line 4\n9-line 5\n10:here\n11:here",
  );
  assertEquals(await recall("a\nİx ΟΔΟΣ (x+)*\nb", { find: "οδος (X+)*" }), {
    content: "1-a\n2:İx ΟΔΟΣ (x+)*\n3-b",
    error: false,
  });
  assertEquals(await recall(lines(5), { find: "nothing" }), {
    content: "No line contains 'nothing'.",
    error: false,
  });
});

Deno.test("recallOriginal() returns matching lines of up to 500 characters whole", async () => {
  for (const length of [500, 501]) {
    const line = "here".padEnd(length, "x");
    const { content } = await recall(line, { find: "here" });
    assertEquals(content === `1:${line}`, length === 500);
  }
});

Deno.test("recallOriginal() finds a text in an original that begins with empty lines", async () => {
  assertEquals((await recall("\n\napple", { find: "apple" })).content, "1-\n2-\n3:apple");
});

Deno.test("recallOriginal() explains an invalid search text", async () => {
  const wrong: [string, string][] = [
    ["", "Cannot find '': the text is empty. Pass a part of the line to find."],
    ["a\nb", "Cannot find several lines: pass text from one of them."],
    ["x".repeat(201), "Cannot find a text of 201 characters: pass at most 200 of them."],
  ];
  for (const [find, content] of wrong) {
    assertEquals(await recall("text", { find }), { content, error: true });
    assertEquals(await recallOriginal(memoryArchive(), { find }), { content, error: true });
  }
});

Deno.test("recallOriginal() explains an unknown reference", async () => {
  for (const ref of ["0123456789abcdef", "../../etc/passwd", "recall with ref 0123"]) {
    const { content, error } = await recallOriginal(memoryArchive(), { ref });
    assertStringIncludes(
      content,
      `Cannot recall '${ref}': no original has this reference. Copy the 16 hex digits`,
    );
    assert(error);
  }
});

Deno.test("recallOriginal() accepts space around a reference, and capitals", async () => {
  const archive = memoryArchive();
  const ref = ` ${(await archive.put("text")).toUpperCase()}\n`;
  assertEquals(await recallOriginal(archive, { ref }), { content: "text", error: false });
});

Deno.test("recallOriginal() cuts a long answer and states how to continue", async () => {
  const { content, error } = await recall(lines(10_000), {}, 200);
  const notice = content.split("\n").at(-1)!;
  assertEquals(notice, "[characters 0 to 463 of 98893, lines 1 to 59 of 10000; continue with offset 463]");
  assertEquals(content, `${lines(59)}\n${notice}`);
  assertEquals(error, false);
  const next = await recall(lines(10_000), { offset: 463 }, 200);
  assertStringIncludes(next.content, "line 60\nline 61\n");
});

Deno.test("recallOriginal() returns every byte of an original in parts within the limit", async () => {
  const originals = fc.array(fc.oneof(fc.string({ unit: codePoints() }), fc.constant("\n"), fc.lorem()), {
    minLength: 1,
  })
    .chain((pieces) => fc.integer({ min: 1, max: 50 }).map((times) => pieces.join("").repeat(times)));
  await fc.assert(
    fc.asyncProperty(originals, async (original) => {
      let [offset, read] = [0, ""];
      do {
        const { content } = await recall(original, { offset }, 200);
        assert(estimateTokens(content) <= 200);
        const next = /\n\[characters \d+ to \d+ of .*continue with offset (\d+)\]$/.exec(content);
        const end = next ? Number(next[1]) : original.length;
        read += next ? content.slice(0, next.index).padEnd(end - offset, "\n") : content;
        assert(end > offset || end === 0);
        offset = end;
      } while (offset < original.length);
      assert(read === original);
    }),
    { examples: [["x".repeat(5000)], ["🙂".repeat(2000)]], numRuns: cases(50) },
  );
});

Deno.test("recallOriginal() rejects an offset after the end", async () => {
  assertEquals(await recall("text", { offset: 4 }), {
    content: "Cannot recall from offset 4: the requested part ends at 4.",
    error: true,
  });
  assertEquals((await recall("text", { offset: 3 })).content, "t");
});

Deno.test("recallOriginal() rejects a limit below the length of the continuation line", async () => {
  await assertRejects(() => recall("text", {}, 199), RangeError, "Cannot recall within 199 tokens");
});

Deno.test("recallOriginal() throws the archive's error: the model can't fix it", async () => {
  const archive: Archive = { ...memoryArchive(), get: () => Promise.reject(new Error("damaged")) };
  await assertRejects(() => recallOriginal(archive, { ref: "0123456789abcdef" }), Error, "damaged");
});

Deno.test("recallOriginal() answers any request for a very long text at once", async () => {
  const original = `${"x".repeat(500_000)}\n${"é🙂\n".repeat(200_000)}`;
  for (
    const request of [
      {},
      { lines: "2-" },
      { find: "x".repeat(200) },
      { find: `${"x".repeat(199)}y` },
      { find: `y${"x".repeat(199)}` },
      { find: "é" },
      { offset: 700_000 },
    ]
  ) {
    const { content } = await recall(original, request);
    assertLess(estimateTokens(content), 7000);
  }
});

Deno.test("RECALL_TOOL accepts exactly the requests that recallOriginal() answers", () => {
  const parse = argumentsParser(RECALL_TOOL);
  const ref = "0123456789abcdef";
  for (const good of [{ ref }, { ref, lines: "1-9" }, { ref, find: "x", offset: 10 }, { find: "x" }]) {
    assertEquals(parse(JSON.stringify(good)), { ok: true, value: good });
  }
  for (
    const bad of [
      { ref: 1 },
      { ref, lines: 3 },
      { ref, offset: -1 },
      { ref, offset: 1.5 },
      { ref, pattern: "x" },
    ]
  ) {
    assertEquals(parse(JSON.stringify(bad)).ok, false);
  }
});

Deno.test("RECALL_TOOL describes placeholders, and each placeholder states how to call it", () => {
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

async function search(original: string, find: string, limitTokens = 300) {
  const archive = memoryArchive();
  const ref = await archive.put(original);
  const found: string[] = [];
  let offset: number | undefined = 0;
  let answers = 0;
  for (; offset !== undefined; answers += 1) {
    const { content } = await recallOriginal(archive, { ref, find, offset }, { limitTokens });
    assert(estimateTokens(content) <= limitTokens);
    const more = /\n\[there is more; continue with the same find and offset (\d+)\]$/.exec(content);
    found.push(...content.slice(0, more?.index).split("\n").filter((line) => /^\d+[:,]/.test(line)));
    offset = more ? Number(more[1]) : undefined;
  }
  return { found, answers };
}

Deno.test("findText() finds each matching line once, over several answers", async () => {
  const lines = Array.from({ length: 1000 }, (_, n) => `Line ${n + 1}.`);
  const { found, answers } = await search(lines.join("\n"), "5.");
  assertEquals(found, lines.map((line, n) => `${n + 1}:${line}`).filter((line) => line.endsWith("5.")));
  assert(answers > 2);
});

Deno.test("findText() finds what includes() finds, line by line", async () => {
  const text = fc.array(fc.constantFrom("a", "B", "b", "\n", "Σ", "ς", "İ", "🙂", "x".repeat(300)))
    .map((pieces) => pieces.join(""));
  const find = fc.array(fc.constantFrom("a", "b", "B", "σ", "🙂", "xx"), { minLength: 1, maxLength: 3 })
    .map((pieces) => pieces.join(""));
  const lower = (text: string) => text.toLowerCase().replaceAll("ς", "σ");
  await fc.assert(fc.asyncProperty(text, find, async (text, find) => {
    const { found } = await search(text, find, 400);
    assertEquals(
      [...new Set(found.map((line) => parseInt(line)))],
      text.split("\n").flatMap((line, at) => lower(line).includes(lower(find)) ? [at + 1] : []),
    );
  }));
});

Deno.test("findText() returns excerpts of a long line around each match, with offsets", async () => {
  const line = `${"-".repeat(2000)}NEEDLE${"-".repeat(2000)}NEEDLE${"-".repeat(100)}`;
  const { found } = await search(`first\n${line}\nlast NEEDLE`, "needle");
  assertEquals(found, [
    `2, offset 1906: … ${"-".repeat(100)}NEEDLE${"-".repeat(194)} …`,
    `2, offset 3912: … ${"-".repeat(100)}NEEDLE${"-".repeat(100)} …`,
    "3:last NEEDLE",
  ]);
});

Deno.test("findText() continues within a long line with many matches, without loss", async () => {
  const line = Array.from({ length: 3000 }, (_, n) => `id${n}`).join(" ");
  const { found, answers } = await search(line, "7 ", 2000);
  const ids = found.flatMap((excerpt) => excerpt.match(/id\d*7\b/g) ?? []);
  assertEquals(new Set(ids).size, 300);
  assert(answers > 2);
});

Deno.test("findText() returns matches whole that the end of the previous part cut", async () => {
  const { found } = await search(`needle${"-".repeat(291)}needle${"-".repeat(400)}`, "needle");
  assertEquals(found, [
    `1, offset 0: … needle${"-".repeat(291)}nee …`,
    `1, offset 197: … ${"-".repeat(100)}needle${"-".repeat(194)} …`,
  ]);
});

Deno.test("findText() returns a match once that ends with the previous part", async () => {
  const { found } = await search(
    `${"-".repeat(100)}needle${"-".repeat(188)}needle${"-".repeat(400)}`,
    "needle",
  );
  assertEquals(found, [`1, offset 0: … ${"-".repeat(100)}needle${"-".repeat(188)}needle …`]);
});

Deno.test("recallOriginal() counts lines from the first, also where that is empty", async () => {
  const archive = memoryArchive();
  const ref = await archive.put(`\n${"line of text\n".repeat(200)}`);
  const { content } = await recallOriginal(archive, { ref, offset: 14 }, { limitTokens: 200 });
  assertEquals(/, lines [^;]*;/.exec(content)?.[0], ", lines 3 to 37 of 202;");
});

Deno.test("findText() splits no characters", async () => {
  const { found } = await search(`${"🙂".repeat(1000)}x${"🙂".repeat(1000)}`, "x");
  assertMatch(found[0]!, /^1, offset 1900: … 🙂.*x/u);
  assert(found[0]!.isWellFormed());
  const odd = await search(`é${"🙂".repeat(1000)}x${"🙂".repeat(1000)}`, "x");
  assert(odd.found[0]!.isWellFormed());
});

function step(id: string, [tool, args]: readonly [string, object], content: string): Message[] {
  const call = { name: tool, arguments: JSON.stringify(args) };
  return [
    { role: "assistant", tool_calls: [{ id, type: "function", function: call }] },
    { role: "tool", tool_call_id: id, content },
  ];
}

Deno.test("recallOriginal() without a ref lists the evicted originals that contain a text, newest first", async () => {
  const archive = memoryArchive();
  const elided = async (text: string, tool: string) => {
    const ref = await archive.put(text);
    return {
      ref,
      line: formatPlaceholder({ of: "result", tool, bytes: text.length, ref }, { recall: true }),
    };
  };
  const inner = await elided("deep\nTIMEOUT = 1", "read");
  const old = [
    { role: "user", content: "What is the timeout?" } as const,
    ...step("0", ["read", { path: "deep.ts" }], inner.line),
    ...step("1", ["grep", { pattern: "t" }], "x\ny\ntimeout: 2"),
    ...step("2", ["recall", { ref: inner.ref }], "deep\nTIMEOUT = 1"),
  ];
  const dropped = await archiveMessages(old, { archive, purpose: "drop" });
  const gone = { of: "messages", messages: old.length, ref: dropped.ref } as const;
  const file = await elided(lines(9).replaceAll("line", "timeout"), "read");
  const again = await elided("deep\nTIMEOUT = 1\n", "recall");
  const unseen = await archive.put("timeout, in what left another conversation");
  const visible: Message[] = [
    { role: "user", content: formatPlaceholder(gone, { recall: true }) },
    ...step("3", ["read", { path: "a.ts" }], file.line),
    ...step("4", ["read", { path: "b.ts" }], "timeout, which is shown"),
    ...step("5", ["recall", { ref: inner.ref }], again.line),
    { role: "user", content: `Not archived: [elided: read result, 1 bytes; ref 0123456789abcdef]` },
  ];
  const all = (find: string) => recallOriginal(archive, { find }, { visible: () => visible });
  const { content, error } = await all("timeout");
  assertEquals([content.split("\n"), error], [[
    `ref ${file.ref}, read {"path":"a.ts"}: 9 of 9 lines`,
    "1:timeout 1",
    "2:timeout 2",
    "3:timeout 3",
    `ref ${dropped.ref}, grep {"pattern":"t"}: 1 of 4 lines`,
    "18:timeout: 2",
    `ref ${dropped.ref}, user message: 1 of 2 lines`,
    "2:What is the timeout?",
    `ref ${inner.ref}, read {"path":"deep.ts"}: 1 of 2 lines`,
    "2:TIMEOUT = 1",
  ], false]);
  assertEquals(
    (await recallOriginal(archive, { ref: dropped.ref, lines: "18" })).content,
    "timeout: 2",
  );
  assert(!content.includes(unseen));
  assertEquals(await all("which is shown"), {
    content: "No evicted content contains 'which is shown'.",
    error: false,
  });
  assertEquals(await recallOriginal(archive, { find: "timeout" }, { visible: () => [] }), {
    content: "No placeholder is visible: give the ref of an original.",
    error: false,
  });
});

Deno.test("recallOriginal() searches all that an archive lists, with or without a visible placeholder", async () => {
  const refs: string[] = [];
  const contents = new Map<string, string>();
  const texts = memoryArchive(contents);
  const archive = { ...texts, refs: () => refs };
  const find = async (find: string, visible: readonly Message[] = []) =>
    (await recallOriginal(archive, { find }, { visible: () => visible })).content;
  assertEquals(await find("port"), "Nothing was evicted from this conversation.");
  refs.push(await texts.put("first\nport = 1"), await texts.put("second\nport = 2"));
  const [first, second] = refs;
  assertEquals(
    await find("PORT"),
    `ref ${second}, an earlier result: 1 of 2 lines\n2:port = 2\n` +
      `ref ${first}, an earlier result: 1 of 2 lines\n2:port = 1`,
  );
  const content = formatPlaceholder({ of: "result", tool: "read", bytes: 9, ref: first! }, { recall: true });
  assertEquals(
    await find("port", step("1", ["read", { path: "a" }], content)),
    `ref ${first}, read {"path":"a"}: 1 of 2 lines\n2:port = 1\n` +
      `ref ${second}, an earlier result: 1 of 2 lines\n2:port = 2`,
  );
  assertEquals(await find("host"), "No evicted content contains 'host'.");
  // A listed original that can't be read counts as evicted.
  contents.clear();
  assertEquals(await find("port"), "No evicted content contains 'port'.");
  assertEquals((await recallOriginal(archive, { find: "port" })).error, false);
});

Deno.test("recallOriginal() without a ref answers within its limits, however many texts match", async () => {
  const archive = memoryArchive();
  const visible: Message[] = [];
  for (let at = 0; at < 300; at++) {
    const ref = await archive.put(`${at}\n${lines(500)}${"long ".repeat(1_000)}`);
    const content = formatPlaceholder({ of: "result", tool: "read", bytes: 9, ref }, { recall: true });
    visible.push(...step(`${at}`, ["read", { path: `${at}.ts` }], content));
  }
  const { content } = await recallOriginal(archive, { find: "line 499" }, { visible: () => visible });
  assert(estimateTokens(content) <= 2_000);
  const refCount = content.match(/^ref /gm)?.length ?? 0;
  assertStringIncludes(content, `\n[${300 - refCount} more earlier ones; find a longer text]`);
  assert(refCount > 20);
  const little = await recallOriginal(archive, { find: "e" }, { visible: () => visible, limitTokens: 200 });
  assert(estimateTokens(little.content) <= 200);
});

Deno.test("recallOriginal() without a ref states the missing argument", async () => {
  const missing =
    "Cannot recall: the ref is missing. Copy the 16 hex digits after 'ref' from an [elided: …] line of " +
    "this conversation, or pass only find to search everything evicted from it.";
  const visible = () => [];
  for (
    const request of [{}, { ref: "" }, { lines: "2" }, { find: "x", lines: "2" }, { find: "x", offset: 1 }]
  ) {
    assertEquals(await recallOriginal(memoryArchive(), request, { visible }), {
      content: missing,
      error: true,
    });
  }
  assertEquals(await recallOriginal(memoryArchive(), { find: "x" }), {
    content: "Cannot search all evicted content: the conversation is unknown. Pass a ref as well.",
    error: true,
  });
});

Deno.test("recallOriginal() returns the images of evicted messages in the requested lines", async () => {
  const archive = memoryArchive();
  const url = (at: number) => `data:image/png;base64,${btoa(`picture ${at}`)}`;
  const messages = Array.from({ length: 10 }, (_, at): Message => ({
    role: "tool",
    tool_call_id: `${at}`,
    content: [{ type: "text", text: `Shot ${at}.` }, { type: "image_url", image_url: { url: url(at) } }],
  }));
  const { ref } = await archiveMessages(messages, { archive, purpose: "drop" });
  const supportsImages = true;
  const all = await recallOriginal(archive, { ref }, { supportsImages });
  assertEquals(all.images, [0, 1, 2, 3, 4, 5, 6, 7].map(url));
  assertStringIncludes(all.content, "Shot 9.");
  assertStringIncludes(all.content, "[2 more images; recall fewer lines]");
  assertEquals(
    (await recallOriginal(archive, { ref, lines: "33-39" }, { supportsImages })).images,
    [8, 9].map(url),
  );
  assertEquals((await recallOriginal(archive, { ref, lines: "5-7" }, { supportsImages })).images, [url(1)]);
  assertEquals((await recallOriginal(archive, { ref, find: "Shot" }, { supportsImages })).images, undefined);
  assertEquals((await recallOriginal(archive, { ref })).images, undefined);
});
