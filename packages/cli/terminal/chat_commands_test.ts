import type { PromptReport } from "@tare/session/internal/report";
import { assertEquals, assertRejects } from "@std/assert";
import type { AgentClient, ToldCall } from "../agent_client.ts";
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
  ...{ tokens: 35, originalTokens: 1234, state: "elided", pin: null },
};
const priced = { promptTokens: 1000, cachedTokens: 900, warmTokenUnits: 190, coldTokenUnits: 1000 };

const oneCall = {
  ...{
    number: 1,
    at: null,
    turn: 1,
    afterQuestion: false,
    purpose: "turn",
    estimated: false,
    tokenUnits: 30,
  },
  ...{
    promptTokens: 1_000,
    cachedTokens: 900,
    writtenTokens: 0,
    newTokens: 100,
    outputTokens: 20,
    usd: 0.25,
  },
  ...{ without: null, resendTokenUnits: null, projected: null, summary: null, changed: null },
  ...{ uncached: [], rewrites: [] },
} as unknown as ToldCall;
const calls: readonly ToldCall[] = [oneCall, { ...oneCall, turn: 2 }, { ...oneCall, turn: 2, usd: 0.125 }];

const files = [{ path: "src/a.ts", change: "changed" as const }];
const notCovered = ["shell: what it did outside of the workspace's files."];

/** A client of a server with two sessions. */
const client = {
  listSessions: (search: string) =>
    Promise.resolve(
      [
        { id: "ab1", title: "First things", turns: 1, ledger: { ...EMPTY_LEDGER, usd: 0.5 } },
        { id: "ab2", title: "Others", turns: 2, ledger: EMPTY_LEDGER },
      ].filter(({ title }) => title.includes(search)),
    ),
  createSession: () => Promise.resolve("new"),
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
  quote: () => Promise.resolve({ asIs: priced, rewritten: { ...priced, promptTokens: 100 }, alive: 0.9 }),
  prompt: (session: string) =>
    Promise.resolve({
      ...{ tokens: 0, originalTokens: 0, total: 0, hasMore: false },
      blocks: session === "ab2" ? [{ ...block, role: "user" }] : [block, {
        ...block,
        place: 12,
        state: "alive" as const,
        pin: { place: 12, wish: "keep" as const, by: "user", state: "waiting" as const },
      }],
    }),
  pin: (_session: string, place: number, wish: "keep" | "let_go") =>
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
  keepWarm: (_session: string, minutes: number) =>
    Promise.resolve({ until: String(minutes), maxUsd: minutes / 100 }),
} as unknown as AgentClient;

const run = (line: string, session: string | null = "ab1") => chatCommand(line, { client, session });

Deno.test("chatCommand() begins, finds and changes sessions", async () => {
  assertEquals(await run("/help"), { says: COMMANDS });
  assertEquals(await run("/quit"), { says: "", quits: true });
  assertEquals((await run("/new")).session, null);
  assertEquals(await run("/sessions"), {
    says: "ab1  1 turn, $0.5000  First things\nab2  2 turns  Others",
  });
  assertEquals((await run("/sessions First")).says, "ab1  1 turn, $0.5000  First things");
  assertEquals((await run("/sessions none")).says, "Nowhere was said: none");
  assertEquals(await run("/session ab2"), { says: "› Hello?\n› And now?", session: "ab2" });
  assertEquals(await run("/session abcdef"), { says: "› Hello?\n› And now?", session: "abcdef" });
  assertEquals((await run("/session ab")).says, "Cannot change the session: 2 ids begin with ab.");
  assertEquals(
    (await run("/session")).says,
    "Cannot change the session: /session needs an id, as /sessions lists them.",
  );
  await assertRejects(() => run("/session x"), Error, "Cannot find session x: there is no such session.");
  assertEquals(
    (await run("/nonsense")).says,
    "Cannot do /nonsense: there is no such command. /help lists them.",
  );
  assertEquals(await run("/clear"), {
    says: "A new session with the same settings begins with what you say next.",
    session: null,
    settings: { model: "model of ab1" },
  });
  assertEquals((await run("/clear", null)).settings, undefined);
  assertEquals((await run("/rename  the notes ")).says, "The session is called: THE NOTES");
  assertEquals((await run("/rename")).says, "Cannot rename the session: /rename needs a title.");
});

Deno.test("chatCommand() goes on in a copy: whole, with the last message again, or with it changed", async () => {
  const goesOn = "A copy goes on; files stay as they are. Back to the session before: /session ab1";
  const whole = "ab1 before undefined";
  assertEquals(await run("/fork"), { says: goesOn, session: whole });
  const before = { says: goesOn, session: "ab1 before 7" };
  assertEquals(await run("/retry"), { ...before, input: "And\nnow?" });
  assertEquals(await run("/edit"), { says: "", typed: "/edit And↵now?" });
  assertEquals(await run("/edit And↵then?\nSay."), { ...before, input: "And\nthen?\nSay." });
  // A long one would fill the screen.
  const content = Array.from({ length: 51 }, (_, at) => `line ${at}`).join("\n");
  const long = { ...client, lastQuestion: () => Promise.resolve({ place: 7, content }) };
  const markOf = (text: string) => `[${text.length} characters]`;
  assertEquals(await chatCommand("/edit", { client: long, session: "ab1", markOf }), {
    says: "",
    typed: `/edit [${content.length} characters]`,
  });
  // Pictures stay until somebody takes them out.
  const [shot, sent, recording] = [
    { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
    { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } },
    { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
  ] as const;
  const textOf = (text: string) => ({ type: "text", text }) as const;
  const said = [textOf("See @shot.png!"), shot, sent, recording];
  const withNamed = (text: string) =>
    Promise.resolve(text.includes("@shot.png") ? [textOf(text), shot] : text);
  const edit = (line: string, isOffered: boolean) =>
    chatCommand(line, {
      client: { ...client, lastQuestion: () => Promise.resolve({ place: 7, content: said }) },
      ...{ session: "ab1", withNamed, isOffered },
    });
  assertEquals(await edit("/edit", false), {
    says: "",
    typed: "/edit See @shot.png! [picture 2] [recording 3]",
  });
  for (
    const [line, input] of [
      ["/edit Look at @shot.png! [picture 2] [recording 3]", [
        textOf("Look at @shot.png!"),
        sent,
        recording,
        shot,
      ]],
      ["/edit See @shot.png! [picture 2]", [textOf("See @shot.png!"), sent, shot]],
      ["/edit [picture 2]", [sent]],
      ["/edit Look.", "Look."],
    ] as const
  ) assertEquals(await edit(line, true), { ...before, input });
  assertEquals(await edit("/edit Look.", false), {
    ...before,
    input: [textOf("Look."), shot, sent, recording],
  });
  assertEquals(await edit("/edit Look. [picture 1]", false), { ...before, input: [textOf("Look."), shot] });
  for (const line of ["/retry", "/edit", "/edit x"]) {
    const [name] = line.split(" ");
    assertEquals(await run(line, "ab2"), {
      says: `Cannot do ${name}: nothing has been said yet in this session.`,
    });
  }
});

Deno.test("chatCommand() tells what a session has cost and what the agent means to do", async () => {
  const told = "prompt tokens, of these";
  assertEquals(
    (await run("/cost")).says,
    `the session:  $0.6250 for 3 calls: 3,000 ${told} 2,700 from the cache, and 60 written\n` +
      `newest turn:  $0.3750 for 2 calls: 2,000 ${told} 1,800 from the cache, and 40 written`,
  );
  assertEquals((await run("/cost", "ab2")).says, "No call has been made yet in this session.");
  const without = { promptTokens: 0, cachedTokens: 0, tokenUnits: 50, usd: null, compacts: false };
  const unpriced = { ...client, calls: () => Promise.resolve([{ ...oneCall, usd: null, without }]) };
  assertEquals(
    (await chatCommand("/cost", { client: unpriced, session: "ab1" })).says.split("\n").slice(1),
    [
      `newest turn:  30 token units for 1 call: 1,000 ${told} 900 from the cache, and 20 written`,
      "Without Tare the session would have cost 50 token units.",
    ],
  );
  assertEquals((await run("/plan")).says, "  ☑ Look\n  ▶ Mend\n  ☐ Check");
  assertEquals((await run("/plan", "ab2")).says, "The agent has made no plan.");
});

Deno.test("chatCommand() tells what letting all leave costs before it does", async () => {
  assertEquals(await run("/compact"), {
    says:
      "900 of 1,000 tokens may leave; the model can recall them. Your next message would then cost about " +
      "271 token units in place of 271.\nBy itself all leaves as soon as that pays. /compact now lets it leave " +
      "with your next message.",
  });
  assertEquals(await run("/compact now"), {
    says: "All that may leave leaves with your next message.",
    leavesNow: true,
  });
  const full = { ...client, quote: () => Promise.resolve({ asIs: priced, rewritten: priced, alive: 1 }) };
  assertEquals(
    (await chatCommand("/compact", { client: full, session: "ab1" })).says,
    "Nothing may leave now: of this session the model sees only what it needs.",
  );
});

Deno.test("chatCommand() says what a command's file says", async () => {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const path = `${folder}/fix.md`;
  await Deno.writeTextFile(path, "---\ndescription: Fixes it\n---\nFix $1.");
  const options = { client, session: null, files: () => new Map([["fix", { name: "fix", path }]]) };
  assertEquals(await chatCommand("/fix it", options), { says: `By ${path}:`, input: "Fix it." });
  assertEquals((await chatCommand("/help", options)).says, `${COMMANDS}\n\n/fix               Fixes it`);
  const hidden = { ...options, files: () => new Map([["compact", { name: "compact", path }]]) };
  assertEquals(
    (await chatCommand("/help", hidden)).says,
    `${COMMANDS}\n\n${path} isn't done: /compact is a command of the chat.`,
  );
  await Deno.remove(folder, { recursive: true });
});

Deno.test("chatCommand() tells and changes what the next turns ask", async () => {
  assertEquals(await run("/model"), {
    says: "model gpt-5.5, effort its own (there is low, high)",
    session: "ab1",
  });
  const cold = "\nIts cache holds what it was sent itself, and nothing of what other models were.";
  assertEquals(await run("/model other low"), {
    says: 'Cannot choose "other low": the name of a model has no spaces. /effort sets how much it reasons.',
  });
  assertEquals((await run("/model other")).says, `model other, effort its own${cold}`);
  assertEquals(
    (await run("/model plain")).says,
    `model plain, effort its own (there is nothing to choose)${cold}`,
  );
  assertEquals((await run("/effort low")).says, "model gpt-5.5, effort low (there is low, high)");
  assertEquals((await run("/effort default")).says, "model gpt-5.5, effort its own (there is low, high)");
  // Before anything was said there is a session then.
  assertEquals(await run("/model plain", null), {
    says: "model plain, effort its own (there is nothing to choose)",
    session: "new",
  });
});

Deno.test("chatCommand() tells what turns have changed, puts it back and makes it again", async () => {
  const listed = "  changed  src/a.ts\n  not covered: shell: what it did outside of the workspace's files.";
  assertEquals((await run("/changes")).says, `turn 4, undone: 1 file\n${listed}`);
  assertEquals(
    (await run("/changes", "ab2")).says,
    "No turn has changed files that are kept on the server's machine.",
  );
  assertEquals(await run("/undo"), { says: `1 file put back.\n${listed}` });
  assertEquals(await run("/back 2"), {
    says: `1 file put back.\n${listed}\nThe conversation goes on before that turn, in session before 2.`,
    session: "before 2",
  });
  assertEquals(await run("/redo force"), { says: "0 files made again.\n  not covered: force: true" });
  assertEquals(await run("/redo"), { says: "0 files made again.\n  not covered: force: false" });
  assertEquals(
    (await run("/undo all")).says,
    'Cannot do /undo all: it takes a turn\'s number, as /changes lists them, and "force".',
  );
  assertEquals((await run("/redo 3")).says, 'Cannot do /redo 3: it takes nothing but "force".');
});

Deno.test("chatCommand() tells what the next request would cost and what the model sees, and pins", async () => {
  assertEquals(
    (await run("/quote")).says,
    "as it is:            1,000 tokens; costs 190 token units from a warm cache, 1,000 from a cold one\n" +
      "without what may go: 100 tokens; costs 190 token units from a warm cache, 1,000 from a cold one\n" +
      "The cache is warm with probability 0.90.",
  );
  assertEquals(
    (await run("/results")).says,
    "   3  read_file, elided: 35 of 1,234 tokens\n  12  read_file, alive: 35 of 1,234 tokens; kept, waiting",
  );
  assertEquals((await run("/results", "ab2")).says, "No tool has given a result yet.");
  assertEquals((await run("/keep 3")).says, "Result 3 comes back at the next rewrite, and stays.");
  assertEquals((await run("/let-go 3")).says, "Result 3 leaves at the next rewrite.");
  assertEquals((await run("/keep 12")).says, "Result 12 stays.");
  assertEquals((await run("/let-go 12")).says, "Result 12 has left.");
  assertEquals(
    (await run("/keep all")).says,
    'Cannot do this to "all": a number is needed, as /results lists them.',
  );
  assertEquals(
    (await run("/warm")).says,
    "The prompt is kept warm until 60 at most, for at most $0.6000.",
  );
  assertEquals((await run("/warm 5")).says, "The prompt is kept warm until 5 at most, for at most $0.0500.");
  assertEquals(
    (await run("/warm up")).says,
    'Cannot keep the prompt warm for "up": a number of minutes is needed.',
  );
  for (
    const line of [
      "/quote",
      "/results",
      "/keep 3",
      "/let-go 3",
      "/warm",
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
      (await run(line, null)).says,
      `Cannot do ${line.split(" ")[0]}: nothing has been said yet in this session.`,
    );
  }
});
