import { assert, assertEquals } from "@std/assert";
import { contentText, estimateTokens, type Message } from "@tare/messages";
import { memoryArchive } from "@tare/prune";
import { plannerSession, profileNamed, type PromptSessionOptions } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import fc, { cases } from "../../../tests/cases.ts";
import { makePin } from "../edits/pin.ts";
import { expand, type NamedText } from "../../../tests/expand_compressed.ts";

const user = (content: string): Message => ({ role: "user", content });
const answer = (content: string): Message => ({ role: "assistant", content });

let ids = 0;

function step(name: string, args: object, content: string, failed?: boolean): Message[] {
  const id = `call_${ids++}`;
  return [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
    },
    { role: "tool", tool_call_id: id, content, ...(failed && { failed }) },
  ];
}

const lines = (name: string, from: number, to: number) =>
  Array.from(
    { length: to - from },
    (_, at) => `  const ${name}${from + at} = compute(${from + at}, "${name}");`,
  );
const numbered = (text: readonly string[], from = 1) =>
  text.map((line, at) => `${String(from + at).padStart(6)}→${line}`).join("\n");

const header = (runs: string) => `[compressed: line numbers ${runs} only on the first and each tenth line]`;

function label(which: string, as: string, block: readonly string[]): string {
  const [first, last] = [block[0]!.trim().slice(0, 40), block.at(-1)!.trim().slice(-24)];
  return `[${which} unchanged, as in ${as} above: "${first}" to "${last}"]`;
}

function make(options: Partial<PromptSessionOptions> = {}) {
  const archive = memoryArchive();
  const session = plannerSession({
    profile: profileNamed("anthropic-5m"),
    countTokens: estimateTokens,
    archive,
    ...options,
    mechanisms: { references: true, ...options.mechanisms },
  });
  let nowMs = 0;
  return {
    archive,
    session,
    async view(messages: readonly Message[]) {
      const seen = await session.view({ messages, tools: [] }, { nowMs: nowMs += 1_000, recall: true });
      session.sent();
      return seen;
    },
  };
}

async function lastVisible(history: readonly Message[], options: Partial<PromptSessionOptions> = {}) {
  const { view } = make(options);
  return contentText((await view(history)).messages.at(-1)!.content);
}

Deno.test("normalization: a numbered read shows the first number, each tenth and those after a gap; its archive has all", async () => {
  const { view, archive, session } = make();
  const text = `${numbered(lines("a", 0, 15), 5)}\n${numbered(lines("b", 0, 5), 40)}`;
  const { messages, saved } = await view([user("Go."), ...step("Read", { file_path: "/p/a.ts" }, text)]);
  const expected = [
    header('"     5→" to 19, "    40→" to 44'),
    `     5→${lines("a", 0, 1)[0]}`,
    ...lines("a", 1, 5),
    `    10→${lines("a", 5, 6)[0]}`,
    ...lines("a", 6, 15),
    `    40→${lines("b", 0, 1)[0]}`,
    ...lines("b", 1, 5),
  ];
  assertEquals(contentText(messages.at(-1)!.content).split("\n"), expected);
  assert(saved.normalization > 0 && saved.references === 0);
  const [edit] = (session.state as { readonly edits: readonly { readonly ref: string }[] }).edits;
  assertEquals(await archive.get(edit!.ref), text);
});

Deno.test("normalization: searches, lists of paths, terminal output and JSON are compacted; a file stays unchanged", async () => {
  const visible = (name: string, content: string, args: object = {}) =>
    lastVisible([user("Go."), ...step(name, args, content)]);
  const hits = lines("x", 0, 6).map((line, at) => `src/deep/folder/file.ts:${at + 7}:${line}`);
  assertEquals(
    await visible("Grep", [...hits, "--", "src/other.ts:1:y"].join("\n")),
    [
      "[compressed: hits by file]",
      "src/deep/folder/file.ts",
      ...lines("x", 0, 6).map((line, at) => `${at + 7}:${line}`),
      "--",
      "src/other.ts",
      "1:y",
    ].join("\n"),
  );
  const paths = Array.from({ length: 12 }, (_, at) => `/srv/project/packages/core/file_${at}.ts`);
  assertEquals(
    await visible("Glob", paths.join("\n")),
    ["[compressed: paths are in /srv/project/packages/core/]", ...paths.map((path) => path.slice(27))].join(
      "\n",
    ),
  );
  assertEquals(await visible("Glob", [...paths, "README.md"].join("\n")), [...paths, "README.md"].join("\n"));
  // Times and addresses are no files.
  const log = Array.from(
    { length: 12 },
    (_, at) => `2026-11-23T09:1${at % 10}:0${at % 9} 10.0.0.1:8080: ${at}`,
  );
  const shell = { command: "npm test" };
  assertEquals(await visible("bash", log.join("\n"), shell), log.join("\n"));
  const terminal = `\x1b[32m${"ok ".repeat(100)}\x1b[0m\n10 %\r50 %\rdone\n${"retry\n".repeat(60)}end`;
  assertEquals(
    (await visible("bash", terminal, shell)).replace(/[0-9a-f]{16}/, "REF"),
    "[compressed: equal lines are counted; terminal codes and overwritten progress omitted; recall with ref REF]\n" +
      `${"ok ".repeat(100)}\ndone\nretry\n(59 more lines like this)\nend`,
  );
  const value = { name: "a  b", list: Array.from({ length: 40 }, (_, at) => ({ at })), big: "x" };
  const json = JSON.stringify(value, undefined, 2).replace('"x"', "12345678901234567890.10");
  const compact = await visible("fetch", json);
  const [first, body = ""] = compact.split("\n");
  assertEquals(first, '[compressed: JSON without its indentation by "  "]');
  assertEquals(JSON.parse(body), JSON.parse(json));
  assert(compact.includes("12345678901234567890.10") && compact.length < json.length / 2);
  const file = `${"same\n".repeat(100)}{}`;
  assertEquals(await visible("Read", file, { file_path: "a.txt" }), file);
});

Deno.test("references: a visible block becomes a reference to its source, and is expanded once that was evicted", async () => {
  const file = lines("a", 0, 60);
  const history: Message[] = [user("Go."), ...step("Read", { file_path: "/p/a.ts" }, numbered(file))];
  const changed = [...file.slice(0, 30), "  changed();", ...file.slice(31)];
  const again = [
    ...history,
    answer("Now again."),
    user("Again."),
    ...step("Read", { file_path: "/p/a.ts" }, numbered(changed)),
  ];
  const { view, session } = make();
  await view(history);
  const second = await view(again);
  assertEquals(contentText(second.messages.at(-1)!.content).split("\n"), [
    header('"     1→" to 60'),
    label("lines 1-30", "a.ts", file.slice(0, 30)),
    "    31→  changed();",
    label("lines 32-60", "a.ts", file.slice(31)),
  ]);
  assert(second.saved.references > 300);
  // Evicting the first expands the reference.
  const pin = makePin(again, { place: 2, wish: "evict" }, { countTokens: estimateTokens });
  const later = [...again, answer("Seen.")];
  const third = await session.view({ messages: [...later, user("Go on.")], tools: [] }, {
    nowMs: 1e9,
    recall: true,
    pins: [pin],
  });
  assertEquals(contentText(third.messages[2]!.content).startsWith("[elided: Read result"), true);
  assertEquals(expand(contentText(third.messages[6]!.content)).text, numbered(changed));
});

Deno.test("ingestion: errors, recalled results and reminders of the harness stay unchanged", async () => {
  const text = lines("a", 0, 40).join("\n");
  const history = (...last: Message[]) => [user("Go."), ...step("bash", { command: "x" }, text), ...last];
  assertEquals(await lastVisible(history(...step("bash", { command: "x" }, text, true))), text);
  assertEquals(await lastVisible(history(...step("recall", { ref: "0123456789abcdef" }, text))), text);
  const reminder = `<system-reminder>\n${text}\n</system-reminder>`;
  assertEquals(await lastVisible(history(...step("bash", { command: "y" }, reminder))), reminder);
  const repeated = await lastVisible(history(...step("bash", { command: "y" }, text)));
  assertEquals(repeated, label("40 lines", "the result of bash", text.split("\n")));
});

Deno.test("ingestion: one long line, or many odd ones, take no noticeable time", async () => {
  const base64 = "ab/CD+ef9/".repeat(200_000);
  const long = [
    `${base64}"`,
    JSON.stringify({ image: base64, nested: [base64] }, undefined, 2),
    `${"a/".repeat(300_000)}"\n`.repeat(6),
    "\x1b]".repeat(300_000),
    `${"\x1b[".repeat(300_000)}\r`,
    `${" ".repeat(500_000)}1\t`,
    `${"a:".repeat(300_000)}\n`.repeat(5),
    "[".repeat(500_000),
    `"${"\\".repeat(1_000_001)}`,
    "1\tx\n".repeat(100_000),
  ];
  for (const text of long) {
    const { view } = make({ mechanisms: { truncate: false } });
    const { messages } = await view([user("Go."), ...step("bash", {}, text)]);
    assert(contentText(messages.at(-1)!.content).length <= text.length);
  }
});

Deno.test("references: a result of several files refers and is referred to by file", async () => {
  const [a, b, c] = [lines("a", 0, 60), lines("b", 0, 60), lines("c", 0, 60)];
  const part = (path: string, text: readonly string[]) => [`==> ${path} <== lines 1-60 of 60`, ...text];
  const several = (paths: readonly string[], content: readonly string[]) => {
    const [path, ...also] = paths;
    return step("read_file", { path, also: also.map((path) => ({ path })) }, content.join("\n"));
  };
  const history = [
    user("Go."),
    ...step("read_file", { path: "src/a.ts" }, ["lines 1-60 of 60", ...a].join("\n")),
    ...several(["src/b.ts", "src/a.ts", "src/c.ts", "x"], [
      ...part("src/b.ts", b),
      ...part("src/a.ts", a),
      ...part("src/c.ts", c),
      '==> x <== Cannot read "x": it does not exist.',
    ]),
    ...step("read_file", { path: "src/c.ts" }, ["lines 1-60 of 60", ...c].join("\n")),
    ...several(["src/b.ts", "src/c.ts"], [...part("src/b.ts", b), ...part("src/c.ts", c)]),
    ...step("bash", { command: "head -n 60 src/b.ts src/c.ts" }, ["==> src/b.ts <==", ...b].join("\n")),
  ];
  const { view, session } = make();
  for (const length of [3, 5, 7, 9]) await view(history.slice(0, length));
  const { messages } = await view(history);
  const refers = (file: string, block: readonly string[]) => label("60 lines", `${file}.ts`, block);
  assertEquals([4, 6, 8, 10].map((at) => contentText(messages[at]!.content).split("\n")), [
    [
      ...part("src/b.ts", b),
      "==> src/a.ts <== lines 1-60 of 60",
      refers("a", a),
      ...part("src/c.ts", c),
      '==> x <== Cannot read "x": it does not exist.',
    ],
    ["lines 1-60 of 60", refers("c", c)],
    [
      "==> src/b.ts <== lines 1-60 of 60",
      refers("b", b),
      "==> src/c.ts <== lines 1-60 of 60",
      refers("c", c),
    ],
    ["==> src/b.ts <==", refers("b", b)],
  ]);
  // Without their source references are expanded.
  const evicted = await session.view({ messages: history, tools: [] }, {
    ...{ nowMs: 10_000_000_000, recall: true },
    pins: [makePin(history, { place: 4, wish: "evict" }, { countTokens: estimateTokens })],
  });
  const visible = evicted.messages.map(({ content }) => contentText(content));
  assert(visible[4]!.startsWith("[elided: read_file result, "), visible[4]);
  assertEquals([6, 8].map((at) => visible[at]!.split("\n")), [
    ["lines 1-60 of 60", ...c],
    [...part("src/b.ts", b), "==> src/c.ts <== lines 1-60 of 60", refers("c", c)],
  ]);
});

Deno.test("ingestion: a result that the client changed is ingested again, and references to it are expanded", async () => {
  const file = lines("a", 0, 60);
  const [asks, answers] = step("Read", { file_path: "/p/a.ts" }, numbered(file)) as [
    Message,
    Message & { role: "tool" },
  ];
  const again = step("Read", { file_path: "/p/a.ts" }, numbered(file));
  const history = [user("Go."), asks, answers, ...again];
  const { view } = make();
  assert(contentText((await view(history)).messages[4]!.content).includes("\n[lines 1-60 unchanged"));
  // With the same ids: first the source is cleared, then the result that refers to it.
  const cleared: Message = { ...answers, content: "[cleared]" };
  const later = [answer("Seen."), user("On.")];
  const visible = (await view([user("Go."), asks, cleared, ...again, ...later])).messages;
  assertEquals(expand(contentText(visible[4]!.content)).text, numbered(file));
  const both = [
    user("Go."),
    asks,
    answers,
    again[0]!,
    { ...again[1]!, content: "[cleared]" } as Message,
    ...later,
  ];
  assertEquals(contentText((await view(both)).messages[4]!.content), "[cleared]");
});

Deno.test("ingestion: each part can be switched off", async () => {
  const file = numbered(lines("a", 0, 60));
  const history = [user("Go."), ...step("Read", { path: "a" }, file), ...step("Read", { path: "a" }, file)];
  const visible = (mechanisms: PromptSessionOptions["mechanisms"]) => lastVisible(history, { mechanisms });
  assertEquals(await visible({ references: false, normalization: false }), file);
  const [marker, reference] = (await visible({ normalization: false })).split("\n");
  assertEquals(marker, '[compressed: line numbers "     1→" to 60 but in references]');
  assert(reference!.startsWith("[lines 1-60 unchanged"));
  assertEquals((await visible({ references: false })).split("\n").length, 61);
});

Deno.test("references: each profile refers to earlier blocks, unless switched off", async () => {
  const file = numbered(lines("a", 0, 60));
  const history = [user("Go."), ...step("Read", { path: "a" }, file), ...step("Read", { path: "a" }, file)];
  const refers = async (options: Partial<PromptSessionOptions>) => {
    const { messages } = await plannerSession({
      profile: profileNamed("openai"),
      countTokens: estimateTokens,
      archive: memoryArchive(),
      ...options,
    }).view({ messages: history, tools: [] }, { nowMs: 0, recall: true });
    return contentText(messages.at(-1)!.content).includes("[lines 1-60 unchanged");
  };
  const off = { mechanisms: { references: false } };
  for (const profile of Object.values(PROFILES)) {
    assertEquals([await refers({ profile }), await refers({ profile, ...off })], [true, false], profile.name);
  }
  assertEquals(await refers({ evict: "lossless" }), true);
  assertEquals(await refers({ ...off, evict: "lossless" }), false);
});

Deno.test("lossless mode: results are deduplicated, and only a full window evicts", async () => {
  const options = { profile: profileNamed("none"), evict: "lossless" } as const;
  const { view } = make(options);
  let history: Message[] = [user("Go.")];
  for (let turn = 0; turn < 12; turn++) {
    history = [
      ...history,
      ...step("bash", { turn }, lines(`t${turn}_`, 0, 900).join("\n")),
      answer("Ok."),
      user("On."),
    ];
    const { messages, rewrites } = await view(history);
    assertEquals([messages.map(({ content }) => content), rewrites], [
      history.map(({ content }) => content),
      [],
    ]);
  }
  const small = make({ ...options, windowTokens: 60_000 });
  const { messages } = await small.view(history);
  assert(messages.some(({ content }) => contentText(content).startsWith("[elided: ")));
});

const BLOCKS = ["alpha", "beta", "gamma", "delta"].map((name) => lines(name, 0, 14));

const reads = fc.record({
  file: fc.constantFrom("a.ts", "b.ts"),
  blocks: fc.array(fc.nat({ max: BLOCKS.length - 1 }), { minLength: 1, maxLength: 4 }),
  from: fc.constantFrom(1, 30),
  tool: fc.constantFrom("Read", "bash", "Write"),
  asks: fc.boolean(),
  crash: fc.boolean(),
});

/**
 * Returns the visible texts of a message with their names: the file that a call writes, or a result's call.
 */
function namedTexts(message: Message, before: Message | undefined): NamedText[] {
  const [call] = (message.role === "assistant" ? message : before?.role === "assistant" ? before : undefined)
    ?.tool_calls ?? [];
  if (call?.type !== "function") return [];
  const { path, content } = JSON.parse(call.function.arguments);
  if (message.role === "assistant") {
    return [path, content].filter(Boolean).map((text) => ({ name: path, text }));
  }
  const name = call.function.name === "bash" ? "the result of bash" : path;
  return message.role === "tool" ? [{ name, text: contentText(message.content) }] : [];
}

Deno.test("invariant 12: removed content is visible above its result in every view, after rewrites and restarts too", async () => {
  let references = 0;
  let evictedCount = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(reads, { minLength: 3, maxLength: 14 }), async (steps) => {
      const archive = memoryArchive();
      // Without a cache everything unneeded is evicted at once; in so small a window the rest must be.
      const options = {
        profile: profileNamed(steps[0]!.crash ? "none" : "anthropic-5m"),
        countTokens: estimateTokens,
        windowTokens: 6_000,
        archive,
        mechanisms: { references: true },
      };
      let session = plannerSession(options);
      let history: Message[] = [user("Go.")];
      let nowMs = 0;
      for (const { file, blocks, from, tool, asks, crash } of steps) {
        const text = blocks.flatMap((block) => BLOCKS[block]!);
        const content = tool === "Read" ? numbered(text, from) : text.join("\n");
        const args = tool === "Write" ? { path: file, content: text.join("\n") } : { path: file };
        history = [...history, ...step(tool, args, tool === "Write" ? "ok" : content)];
        if (asks) history = [...history, answer("Done."), user("Next.")];
        const { messages, places } = await session.view({ messages: history, tools: [] }, {
          nowMs: nowMs += 60_000,
          recall: true,
        });
        const above: NamedText[] = [];
        for (const [row, message] of messages.entries()) {
          const original = history[places[row]!];
          const visible = contentText(message.content);
          if (message.role === "tool" && !visible.includes("[elided: ")) {
            assertEquals(expand(visible, above).text, contentText(original!.content));
            if (visible.includes(" unchanged, as in ")) references++;
          } else if (message.role === "tool") evictedCount++;
          above.push(...namedTexts(message, messages[row - 1]));
        }
        session.sent();
        if (crash) session = plannerSession({ ...options, state: JSON.parse(JSON.stringify(session.state)) });
      }
    }),
    { numRuns: cases(200) },
  );
  assert(references > 100 && evictedCount > 100);
});

Deno.test("ingestion: an archive that rejects with any value leaves a result whole and gives the reason", async () => {
  for (const reason of [new Error("the disk is full"), "the disk is full"]) {
    const { view } = make({ archive: { ...memoryArchive(), put: () => Promise.reject(reason) } });
    const messages = [user("Go."), ...step("Read", { file_path: "/p/a.ts" }, numbered(lines("a", 0, 60)))];
    const seen = await view(messages);
    assertEquals(seen.messages, messages);
    assertEquals(seen.warnings, ["Cannot archive a result: the disk is full. Nothing was evicted."]);
  }
});
