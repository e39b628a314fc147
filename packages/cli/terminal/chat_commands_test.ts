import type { PromptReport } from "@tare/session/internal/report";
import { assertEquals, assertRejects } from "@std/assert";
import type { AgentClient, ListedCall } from "../agent_client.ts";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import { chatCommand, COMMANDS } from "./chat_commands.ts";

const block: PromptReport["blocks"][number] = {
  ...{
    id: "message-3",
    kind: "message",
    role: "tool",
    tool: "read_file",
    subject: null,
    place: 3,
    title: "…",
  },
  ...{ tokens: 35, originalTokens: 1234, state: "replaced", pin: null, mayPin: [] },
};
const priced = { promptTokens: 1000, cachedTokens: 900, warmCostUnits: 190, coldCostUnits: 1000 };

const oneCall = {
  ...{
    number: 1,
    at: null,
    turn: 1,
    afterQuestion: false,
    purpose: "turn",
    estimated: false,
    costUnits: 30,
  },
  ...{
    promptTokens: 1_000,
    cachedTokens: 900,
    writtenTokens: 0,
    newTokens: 100,
    outputTokens: 20,
    usd: 0.25,
  },
  ...{ baseline: null, resendCostUnits: null, projected: null, summary: null, changed: null },
  ...{ uncached: [], rewrites: [] },
} as unknown as ListedCall;
const calls: readonly ListedCall[] = [oneCall, { ...oneCall, turn: 2 }, {
  ...oneCall,
  turn: 2,
  usd: 0.125,
}];

const files = [{ path: "src/a.ts", change: "changed" as const }];
const notCovered = ["shell: what it did outside of the workspace's files."];

/** In the local time zone. */
const CREATED = "2026-01-31T14:05:00";

/** Client of a server with two sessions. */
const client = {
  listSessions: (search: string) =>
    Promise.resolve(
      [
        {
          id: "ab1",
          createdAt: CREATED,
          title: "First things",
          turns: 1,
          ledger: { ...EMPTY_LEDGER, usd: 0.5 },
        },
        { id: "ab2", createdAt: CREATED, title: "Others", turns: 2, ledger: EMPTY_LEDGER },
      ].filter(({ title }) => title.includes(search)),
    ),
  findSession: (given: string) =>
    given === "x" ? Promise.reject(new Error("No id begins with x.")) : Promise.resolve(given),
  resultAt: (_: string, place = 7) => Promise.resolve(place === 7 ? "the\nwhole" : undefined),
  createSession: () => Promise.resolve("new"),
  models: () => Promise.resolve(["gpt-5.5", "gpt-oss:20b"]),
  choose: (session: string, wanted: { readonly model?: string; readonly effort?: string | null }) =>
    Promise.resolve({
      session: {
        ...{ model: wanted.model ?? "gpt-5.5", turns: session === "new" ? 0 : 1 },
        ...(wanted.effort && { effort: wanted.effort }),
      },
      ...(wanted.model !== "other" && { efforts: wanted.model === "plain" ? [] : ["low", "high"] }),
    }),
  questions: (session: string) =>
    session.startsWith("ab")
      ? Promise.resolve(["Hello?", "And now?"])
      : Promise.reject(new Error(`Cannot find session ${session}: there is no such session.`)),
  settings: (session: string) => Promise.resolve({ model: `model of ${session}` }),
  session: (session: string) =>
    Promise.resolve(session === "ab2" ? {} : { plan: { steps: ["Look", "Mend", "Check"], done: 1 } }),
  rename: (_session: string, title: string) => Promise.resolve(title.toUpperCase()),
  fork: (session: string, before?: number) =>
    Promise.resolve({ session: { id: `${session} before ${before}` } }),
  lastQuestion: (session: string) =>
    Promise.resolve(session === "ab2" ? undefined : { place: 7, content: "And\nnow?" }),
  calls: (session: string) => Promise.resolve(session === "ab2" ? [] : calls),
  quote: () =>
    Promise.resolve({ asIs: priced, rewritten: { ...priced, promptTokens: 100 }, cacheHitProbability: 0.9 }),
  prompt: (session: string) =>
    Promise.resolve({
      ...{ tokens: 0, originalTokens: 0, total: 0, hasMore: false },
      blocks: session === "ab2" ? [{ ...block, role: "user" }] : [block, {
        ...block,
        place: 12,
        state: "visible" as const,
        pin: { place: 12, wish: "retain" as const, by: "user", state: "waiting" as const },
        mayPin: [],
      }],
    }),
  pin: (_session: string, place: number, wish: "retain" | "evict") =>
    Promise.resolve({ place, wish, by: "user", state: place === 3 ? "waiting" as const : "done" as const }),
  changes: (session: string) =>
    Promise.resolve(session === "ab2" ? [] : [{ turn: 4, atMs: 0, isUndone: true, files, notCovered }]),
  undo: (_session: string, { turn = 4, conversation }: { turn?: number; conversation?: boolean }) =>
    Promise.resolve({
      ...{ turns: [turn], files, notCovered },
      ...(conversation && { session: { id: `before ${turn}` } }),
    }),
  redo: (_session: string, { force = false }: { force?: boolean }) =>
    Promise.resolve({ turns: [4], files: [], notCovered: [`force: ${force}`] }),
  keepAlive: (_session: string, minutes: number) =>
    Promise.resolve({ until: String(minutes), maxUsd: minutes / 100 }),
} as unknown as AgentClient;

const run = (line: string, session: string | null = "ab1") => chatCommand(line, { client, session });

Deno.test("chatCommand() starts, finds and changes sessions", async () => {
  assertEquals(await run("/help"), { output: COMMANDS });
  assertEquals(await run("/quit"), { output: "", quits: true });
  assertEquals((await run("/new")).session, null);
  assertEquals(await run("/sessions"), {
    output: "ab1  2026-01-31 14:05  1 turn, $0.5000  First things\nab2  2026-01-31 14:05  2 turns  Others",
  });
  assertEquals((await run("/sessions First")).output, "ab1  2026-01-31 14:05  1 turn, $0.5000  First things");
  assertEquals((await run("/sessions none")).output, "No session contains: none");
  assertEquals(await run("/session ab2"), { output: "› Hello?\n› And now?", session: "ab2" });
  assertEquals(await run("/session abcdef"), { output: "› Hello?\n› And now?", session: "abcdef" });
  assertEquals(
    (await run("/session")).output,
    "Cannot change the session: /session needs an id. /sessions lists them.",
  );
  await assertRejects(() => run("/session x"), Error, "No id begins with x.");
  assertEquals([(await run("/output")).output, (await run("/output 7")).output], [
    "the\nwhole",
    "the\nwhole",
  ]);
  assertEquals(
    (await run("/output 9")).output,
    'Cannot show "9": it is not the number of a result. /results lists them.',
  );
  assertEquals(
    (await run("/nonsense")).output,
    "Cannot run /nonsense: there is no such command. /help lists them.",
  );
  assertEquals(await run("/clear"), {
    output: "Your next message starts a new session with the same settings.",
    session: null,
    settings: { model: "model of ab1" },
  });
  assertEquals((await run("/clear", null)).settings, undefined);
  assertEquals((await run("/rename  the notes ")).output, "The session is now named: THE NOTES");
  assertEquals((await run("/rename")).output, "Cannot rename the session: /rename needs a title.");
});

Deno.test("chatCommand() continues in a fork: whole, or with the last message again or edited", async () => {
  const continues = "Continuing in a fork; files are unchanged. Back to the original session: /session ab1";
  const whole = "ab1 before undefined";
  assertEquals(await run("/fork"), { output: continues, session: whole });
  const before = { output: continues, session: "ab1 before 7" };
  assertEquals(await run("/retry"), { ...before, input: "And\nnow?" });
  assertEquals(await run("/edit"), { output: "", typed: "/edit And↵now?" });
  assertEquals(await run("/edit And↵then?\nSay."), { ...before, input: "And\nthen?\nSay." });
  // A long message is replaced by a mark.
  const content = Array.from({ length: 51 }, (_, at) => `line ${at}`).join("\n");
  const long = { ...client, lastQuestion: () => Promise.resolve({ place: 7, content }) };
  const markOf = (text: string) => `[${text.length} characters]`;
  assertEquals(await chatCommand("/edit", { client: long, session: "ab1", markOf }), {
    output: "",
    typed: `/edit [${content.length} characters]`,
  });
  // Images stay until their mark is removed.
  const [shot, sent, recording] = [
    { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
    { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } },
    { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
  ] as const;
  const textOf = (text: string) => ({ type: "text", text }) as const;
  const parts = [textOf("See @shot.png!"), shot, sent, recording];
  const withNamed = (text: string) =>
    Promise.resolve(text.includes("@shot.png") ? [textOf(text), shot] : text);
  const edit = (line: string, isOffered: boolean) =>
    chatCommand(line, {
      client: { ...client, lastQuestion: () => Promise.resolve({ place: 7, content: parts }) },
      ...{ session: "ab1", withNamed, isOffered },
    });
  assertEquals(await edit("/edit", false), {
    output: "",
    typed: "/edit See @shot.png! [image 2] [recording 3]",
  });
  for (
    const [line, input] of [
      ["/edit Look at @shot.png! [image 2] [recording 3]", [
        textOf("Look at @shot.png!"),
        sent,
        recording,
        shot,
      ]],
      ["/edit See @shot.png! [image 2]", [textOf("See @shot.png!"), sent, shot]],
      ["/edit [image 2]", [sent]],
      ["/edit Look.", "Look."],
    ] as const
  ) assertEquals(await edit(line, true), { ...before, input });
  assertEquals(await edit("/edit Look.", false), {
    ...before,
    input: [textOf("Look."), shot, sent, recording],
  });
  assertEquals(await edit("/edit Look. [image 1]", false), { ...before, input: [textOf("Look."), shot] });
  for (const line of ["/retry", "/edit", "/edit x"]) {
    const [name] = line.split(" ");
    assertEquals(await run(line, "ab2"), {
      output: `Cannot run ${name}: this session has no messages yet.`,
    });
  }
});

Deno.test("chatCommand() prints a session's cost and plan", async () => {
  const expected = "prompt tokens";
  assertEquals(
    (await run("/cost")).output,
    `session:    $0.6250 for 3 calls: 3,000 ${expected} (2,700 from the cache), 60 output tokens\n` +
      `last turn:  $0.3750 for 2 calls: 2,000 ${expected} (1,800 from the cache), 40 output tokens`,
  );
  assertEquals((await run("/cost", "ab2")).output, "No model call yet in this session.");
  const baseline = { promptTokens: 0, cachedTokens: 0, costUnits: 50, usd: null, compacts: false };
  const unpriced = { ...client, calls: () => Promise.resolve([{ ...oneCall, usd: null, baseline }]) };
  assertEquals(
    (await chatCommand("/cost", { client: unpriced, session: "ab1" })).output.split("\n").slice(1),
    [
      `last turn:  30 cost units for 1 call: 1,000 ${expected} (900 from the cache), 20 output tokens`,
      "Estimated cost without Tare: 50 cost units.",
    ],
  );
  assertEquals((await run("/plan")).output, "  ☑ Look\n  ▶ Mend\n  ☐ Check");
  assertEquals((await run("/plan", "ab2")).output, "The agent has made no plan.");
});

Deno.test("chatCommand() prints the cost of eviction before it evicts", async () => {
  assertEquals(await run("/compact"), {
    output:
      "900 of 1,000 tokens can be evicted; the model can recall them. Your next message would then cost about " +
      "271 cost units instead of 271.\nThey are evicted automatically once that pays off. /compact now evicts them " +
      "with your next message.",
  });
  assertEquals(await run("/compact now"), {
    output: "Your next message evicts everything that may be evicted.",
    evictNow: true,
  });
  const full = {
    ...client,
    quote: () => Promise.resolve({ asIs: priced, rewritten: priced, cacheHitProbability: 1 }),
  };
  assertEquals(
    (await chatCommand("/compact", { client: full, session: "ab1" })).output,
    "Nothing can be evicted now.",
  );
});

Deno.test("chatCommand() runs custom commands", async () => {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const path = `${folder}/fix.md`;
  await Deno.writeTextFile(path, "---\ndescription: Fixes it\n---\nFix $1.");
  const options = { client, session: null, files: () => new Map([["fix", { name: "fix", path }]]) };
  assertEquals(await chatCommand("/fix it", options), { output: `Running ${path}:`, input: "Fix it." });
  assertEquals((await chatCommand("/help", options)).output, `${COMMANDS}\n\n/fix               Fixes it`);
  const hidden = { ...options, files: () => new Map([["compact", { name: "compact", path }]]) };
  assertEquals(
    (await chatCommand("/help", hidden)).output,
    `${COMMANDS}\n\n${path} is ignored: /compact is a built-in command.`,
  );
  await Deno.remove(folder, { recursive: true });
});

Deno.test("chatCommand() shows and sets model and effort of the next turns", async () => {
  assertEquals(await run("/model"), {
    output: [
      "model gpt-5.5, effort default (one of low, high)",
      "   1  gpt-5.5                      $5 in, $30 out per million",
      "   2  gpt-oss:20b",
      "/model NAME chooses one.",
    ].join("\n"),
    session: "ab1",
  });
  const cold = "\nIts cache contains nothing that was sent to other models, so the next request costs more.";
  assertEquals(await run("/model other low"), {
    output:
      'Cannot use model "other low": names of models have no spaces. /effort sets the reasoning effort.',
  });
  assertEquals((await run("/model other")).output, `model other, effort default${cold}`);
  assertEquals(
    (await run("/model plain")).output,
    `model plain, effort default (not adjustable)${cold}`,
  );
  assertEquals((await run("/effort low")).output, "model gpt-5.5, effort low (one of low, high)");
  assertEquals((await run("/effort default")).output, "model gpt-5.5, effort default (one of low, high)");
  // It creates a session before the first message.
  assertEquals(await run("/model plain", null), {
    output: "model plain, effort default (not adjustable)",
    session: "new",
  });
});

Deno.test("chatCommand() lists, reverts and restores changes of files", async () => {
  const listed = "  changed  src/a.ts\n  not included: shell: what it did outside of the workspace's files.";
  assertEquals((await run("/changes")).output, `turn 4, undone: 1 file\n${listed}`);
  assertEquals(
    (await run("/changes", "ab2")).output,
    "No file changes are recorded.",
  );
  assertEquals(await run("/undo"), { output: `1 file reverted.\n${listed}` });
  assertEquals(await run("/back 2"), {
    output: `1 file reverted.\n${listed}\nThe conversation continues before that turn, in session before 2.`,
    session: "before 2",
  });
  assertEquals(await run("/redo force"), { output: "0 files restored.\n  not included: force: true" });
  assertEquals(await run("/redo"), { output: "0 files restored.\n  not included: force: false" });
  assertEquals(
    (await run("/undo all")).output,
    'Cannot run /undo all: it takes a turn\'s number, as listed by /changes, and "force".',
  );
  assertEquals((await run("/redo 3")).output, 'Cannot run /redo 3: it takes only "force".');
});

Deno.test("chatCommand() prints the next request's cost, lists tool results, and pins them", async () => {
  assertEquals(
    (await run("/quote")).output,
    "as it is:       1,000 tokens; costs 190 cost units if cached, 1,000 if not\n" +
      "after eviction: 100 tokens; costs 190 cost units if cached, 1,000 if not\n" +
      "Probability that the prompt is still cached: 90 %.\n" +
      "A cost unit is the price of one input token that is not read from the cache.",
  );
  assertEquals(
    (await run("/results")).output,
    "   3  read_file, evicted: 35 of 1,234 tokens\n  12  read_file, visible: 35 of 1,234 tokens; retain: waiting",
  );
  assertEquals((await run("/results", "ab2")).output, "No tool results yet.");
  assertEquals((await run("/retain 3")).output, "Result 3 is restored at the next rewrite and retained.");
  assertEquals((await run("/evict 3")).output, "Result 3 is evicted at the next rewrite.");
  assertEquals((await run("/retain 12")).output, "Result 12 is retained.");
  assertEquals((await run("/evict 12")).output, "Result 12 is evicted.");
  assertEquals(
    (await run("/retain all")).output,
    'Cannot use "all": it is not the number of a result. /results lists them.',
  );
  assertEquals(
    (await run("/keep-alive")).output,
    "Keeping the prompt cached until 60 at the latest, for at most $0.6000.",
  );
  assertEquals(
    (await run("/keep-alive 5")).output,
    "Keeping the prompt cached until 5 at the latest, for at most $0.0500.",
  );
  assertEquals(
    (await run("/keep-alive up")).output,
    'Cannot keep the cache alive for "up": it is not a number of minutes.',
  );
  for (
    const line of [
      "/quote",
      "/results",
      "/retain 3",
      "/evict 3",
      "/keep-alive",
      "/changes",
      "/undo",
      "/back 3",
      "/redo",
      "/fork",
      "/retry",
      "/edit x",
      "/cost",
      "/compact",
      "/compact now",
      "/plan",
      "/rename x",
    ]
  ) {
    assertEquals(
      (await run(line, null)).output,
      `Cannot run ${line.split(" ")[0]}: this session has no messages yet.`,
    );
  }
});
