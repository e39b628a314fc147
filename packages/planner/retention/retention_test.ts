import { assertEquals } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { hashPiece } from "@tare/messages/internal";
import { profileNamed } from "@tare/planner";
import {
  BY_AGE,
  EAGER,
  findRemovals,
  KEEP_WANTED,
  type RemovalOptions,
  Standings,
  type StandingsOptions,
} from "./retention.ts";
import { compactedTools, Layout } from "../edits/view.ts";
import { NOTHING_PINNED } from "../edits/pin.ts";
import type { Edit } from "../edits/edit.ts";

const tool: ToolDefinition = {
  type: "function",
  function: { name: "run", description: "Runs. ".repeat(1_000), parameters: { type: "object" } },
};

function step(id: string, tokens: number, name = "run"): Message[] {
  const args = `{"path":"src/${id}.ts"}`;
  return [
    { role: "assistant", tool_calls: [{ id, type: "function", function: { name, arguments: args } }] },
    { role: "tool", tool_call_id: id, content: "x ".repeat(2 * tokens) },
  ];
}

function turn(id: string, tokens: number, name = "run"): Message[] {
  return [
    { role: "user", content: "Go on." },
    ...step(id, tokens, name),
    { role: "assistant", content: "Done." },
  ];
}

const retention = { ...KEEP_WANTED, stepTailTokens: 0 };

/** Returns the positions of evictable results, and the starts of evictable steps. */
function find(
  messages: readonly Message[],
  { edits = [], tools = [], traits = {}, isError, ...options }:
    & Partial<Omit<RemovalOptions, "tools">>
    & Pick<StandingsOptions, "isError">
    & {
      readonly edits?: readonly Edit[];
      readonly tools?: readonly ToolDefinition[];
      readonly traits?: NonNullable<StandingsOptions["tools"]>;
    } = {},
) {
  const layout = new Layout(estimateTokens);
  layout.update(messages, edits);
  const standings = new Standings({ tools: traits, ...(isError && { isError }) });
  for (const message of messages) standings.add(message);
  const seen = { layout, standings, tools, visibleTools: compactedTools(tools, edits), toolTokens: 0 };
  return findRemovals(seen, {
    pinned: NOTHING_PINNED,
    referredTokens: () => 0,
    seenMessages: Infinity,
    seenTools: new Set(tools.map(hashPiece)),
    countTokens: estimateTokens,
    retention,
    profile: profileNamed("none"),
    scale: { perToken: 1, unseen: 0 },
    weighsLoss: false,
    all: false,
    ...options,
  }).flatMap(({ how, evicts }) => {
    if (!evicts) return [];
    return how.type === "compact"
      ? how.tool
      : how.type === "drop"
      ? `${how.from}-${how.to}`
      : how.candidate.index;
  });
}

const messages = [...turn("a", 2_000), ...turn("b", 1_500), ...turn("c", 400), ...turn("d", 500).slice(0, 3)];

Deno.test("findRemovals() returns the steps of old turns, and the results of the newest two", () => {
  assertEquals(find(messages), ["1-3", "5-7", 10]);
  assertEquals(find(messages, { retention: { ...retention, stepTailTokens: Infinity } }), [2, 6, 10]);
  assertEquals(find(messages, { retention: { ...retention, resultTailTokens: Infinity } }), ["1-3", "5-7"]);
  assertEquals(find([...messages, { role: "assistant", content: "Done." }]), ["1-3", "5-7", 10, 14]);
});

Deno.test("findRemovals() returns no step of the tail", () => {
  assertEquals(find(messages, { retention: { ...retention, stepTailTokens: 1_000 } }), ["1-3", "5-7", 10]);
  assertEquals(find(messages, { retention: { ...retention, stepTailTokens: 3_000 } }), ["1-3", 6, 10]);
  assertEquals(find(messages, { retention: { ...retention, stepTailTokens: 3_000 }, windowTokens: 4_000 }), [
    "1-3",
    "5-7",
    10,
  ]);
});

Deno.test("findRemovals() treats an interrupted turn and those after it, up to the next answer, as one", () => {
  const interrupted = [
    ...turn("a", 2_000).slice(0, 3),
    ...turn("b", 1_500),
    ...turn("c", 2_000),
    ...turn("d", 500),
    ...turn("e", 500).slice(0, 1),
  ];
  assertEquals(find(interrupted), ["1-3", "4-6", "8-10", 13]);
  const open = [
    ...turn("a", 2_000).slice(0, 3),
    ...turn("b", 1_500).slice(0, 3),
    ...turn("c", 9).slice(0, 1),
  ];
  assertEquals(find(open), [2]);
});

Deno.test("findRemovals() keeps errors, results of keep tools, and unseen results", () => {
  assertEquals(find(messages, { isError: (_, index) => index === 2 })[0], "1-3");
  const old = [...turn("a", 2_000), ...turn("b", 2_000).slice(0, 1)];
  assertEquals(find(old), [2]);
  assertEquals(find(old, { isError: () => true, retention: BY_AGE }), []);
  assertEquals(find(old, { traits: { run: { stance: "keep" } } }), []);
  assertEquals(find(messages, { traits: { run: { stance: "keep" } } }), []);
  assertEquals(find(old.slice(0, 3)), []);
  assertEquals(find([...turn("a", 50), ...turn("b", 2_000).slice(0, 1)]), []);
});

Deno.test("findRemovals() carries an unanswered error longer than another result, but not forever", () => {
  const profile = profileNamed("anthropic-5m");
  const callsUntilIdle = (isError: boolean) => {
    const failing: Message[] = [{ role: "user", content: "Go." }, ...step("build", 3_000)];
    for (let calls = 1; calls < 200; calls++) {
      failing.push(...step(`other ${calls}`, 10));
      if (find(failing, { isError: (_, at) => isError && at === 2, profile }).length > 0) return calls;
    }
    return Infinity;
  };
  const [result, error] = [callsUntilIdle(false), callsUntilIdle(true)];
  assertEquals([result, error], [3, 9]);
});

Deno.test("findRemovals() evicts an error first whose call has succeeded since", () => {
  const run = (id: string, content: string): Message[] => [
    { role: "assistant", tool_calls: [{ id, type: "function", function: { name: "run", arguments: "{}" } }] },
    { role: "tool", tool_call_id: id, content },
  ];
  const failing = [{ role: "user", content: "Go." } as const, ...run("1", "x".repeat(8_000))];
  const isError = (_: unknown, index: number) => index === 2;
  const profile = profileNamed("anthropic-5m");
  assertEquals(find([...failing, ...step("other", 10)], { isError, profile }), []);
  const succeeded = [...failing, ...run("2", "ok"), ...step("other", 10)];
  assertEquals(find(succeeded, { isError, profile }), [2]);
});

Deno.test("findRemovals() evicts a step with the reasoning before it, if that is a message of its own", () => {
  const thought: Message = { role: "assistant", content: null, reasoning_content: "I look first." };
  const thinking = [messages[0]!, thought, thought, ...messages.slice(1)];
  assertEquals(find(messages)[0], "1-3");
  assertEquals(find(thinking)[0], "1-5");
  // A text in between belongs to the reasoning.
  const reply: Message = { role: "assistant", content: "I look." };
  assertEquals(find([messages[0]!, thought, reply, ...messages.slice(1)])[0], "3-5");
});

Deno.test("findRemovals() evicts no step whose results are missing or in another place", () => {
  const call = messages[1]!;
  const moved = [messages[0]!, call, { role: "user", content: "Wait." } as const, ...messages.slice(2)];
  assertEquals(find(moved)[0], 3);
  assertEquals(find([messages[0]!, call, ...messages.slice(3)])[0], "4-6");
});

Deno.test("findRemovals() keeps a read of the active turn that the user named, until the file is edited", () => {
  const question = (name: string): Message => ({ role: "user", content: `Look at src/${name}.` });
  const later = Array.from({ length: 16 }, (_, at) => step(`s${at}`, 10)).flat();
  const found = (name: string, ...more: readonly Message[]) =>
    find([question(name), ...step("parser", 5_000, "read"), ...later, ...more], {
      profile: profileNamed("anthropic-5m"),
    });
  assertEquals(found("lexer.ts"), [2]);
  assertEquals(found("parser.ts"), []);
  // A call that reads several files reads each.
  const [, result] = step("several", 5_000);
  const args = '{"path":"src/a_file.ts","also":[{"path":"src/parser.ts","start_line":9}]}';
  const several: Message = {
    role: "assistant",
    tool_calls: [{ id: "several", type: "function", function: { name: "read_file", arguments: args } }],
  };
  const foundOf = (name: string) =>
    find([question(name), several, result!, ...later], { profile: profileNamed("anthropic-5m") });
  assertEquals([foundOf("lexer.ts"), foundOf("a_file.ts"), foundOf("parser.ts")], [[2], [], []]);
  // A long list that is read is a scan.
  const list = Array.from({ length: 9 }, (_, at) => `reader_${at}`);
  const reads = list.map((id) => step(id, 10, "read")).flat();
  const afterReads = (name: string) =>
    find([question(name), ...step("parser", 5_000, "read"), ...reads, ...later.slice(0, 12)], {
      profile: profileNamed("anthropic-5m"),
    });
  assertEquals(afterReads(`parser.ts, src/${list.join(".ts, src/")}.ts`), [2]);
  assertEquals(afterReads("parser.ts"), []);
  const edit = step("parser", 10, "edit");
  const long = Array.from({ length: 30 }, (_, at) => step(`t${at}`, 10)).flat();
  assertEquals(found("parser.ts", ...edit, ...long), [2]);
});

Deno.test("EAGER evicts a result sooner", () => {
  const later = Array.from({ length: 6 }, (_, at) => step(`s${at}`, 10)).flat();
  const history = [{ role: "user", content: "Go." } as const, ...step("parser", 3_000, "read"), ...later];
  const found = (retention: typeof EAGER) =>
    find(history, { retention, profile: profileNamed("anthropic-5m") });
  assertEquals([found(KEEP_WANTED), found(EAGER)], [[], [2]]);
});

Deno.test("findRemovals() keeps a result that was recalled twice, for some calls", () => {
  const recall = (id: string): Message[] => [
    {
      role: "assistant",
      tool_calls: [{
        id,
        type: "function",
        function: { name: "recall", arguments: '{"ref":"0123456789abcdef"}' },
      }],
    },
    { role: "tool", tool_call_id: id, content: "x ".repeat(4_000) },
  ];
  const ask: Message = { role: "user", content: "Find it." };
  const more = (steps: number) => Array.from({ length: steps }, (_, at) => step(`s${at}`, 10)).flat();
  assertEquals(find([ask, ...recall("1"), ...more(9)]), [2]);
  assertEquals(find([ask, ...recall("1"), ...recall("2"), ...more(6)]), []);
  assertEquals(find([ask, ...recall("1"), ...recall("2"), ...more(9)]), [2, 4]);
});

Deno.test("findRemovals() returns nothing twice, but elides results truncated at ingestion", () => {
  const elide: Edit = {
    type: "elide",
    index: 2,
    toolCallId: "a",
    ref: "0123456789abcdef",
    text: "[elided: run result, 8000 bytes; ref 0123456789abcdef]",
  };
  const old = [...turn("a", 2_000), ...turn("b", 10)];
  assertEquals(find(old, { edits: [elide] }), []);
  assertEquals(find(old, { edits: [{ ...elide, text: "head\n".repeat(1_000) }] }), [2]);
  const drop: Edit = { type: "drop", from: 1, to: 3, ref: "r", text: "[gone]" };
  assertEquals(find(messages, { edits: [drop] }), ["5-7", 10]);
});

Deno.test("findRemovals() returns the tools that the model has called, except recall", () => {
  const recall = { ...tool, function: { ...tool.function, name: "recall" } };
  const other = { ...tool, function: { ...tool.function, name: "other" } };
  const tools = [other, tool, recall];
  const called = [...turn("a", 9), ...turn("b", 9, "recall")];
  assertEquals(find(called, { tools }), ["run"]);
  assertEquals(find(called.slice(0, 1), { tools }), []);
  assertEquals(find(called, { tools, retention: BY_AGE }), []);
});

Deno.test("findRemovals() by age returns all results before the tail, whatever they contain", () => {
  const old = [...turn("a", 2_000, "read"), ...turn("b", 15_000, "read"), ...turn("c", 9_000, "read")];
  assertEquals(find(old, { retention: BY_AGE }), [2, 6]);
});

Deno.test("findRemovals() keeps results that were in no request yet", () => {
  // A reply over several items: the result of its first call is before its last.
  const history: Message[] = [{ role: "user", content: "Find it." }, ...step("a", 4_000), ...step("b", 10)];
  assertEquals(find(history), [2]);
  assertEquals(find(history, { seenMessages: 1 }), []);
  assertEquals(find(history, { seenMessages: 5 }), [2]);
});

Deno.test("Standings attribute a call of call_tool to the tool that it names", () => {
  const made = (id: string, name: string): Message[] => {
    const text = JSON.stringify({ name, arguments: { path: `src/${id}.ts` } });
    const call = { id, type: "function", function: { name: "call_tool", arguments: text } } as const;
    return [
      { role: "assistant", tool_calls: [call] },
      { role: "tool", tool_call_id: id, content: "x ".repeat(2_000) },
    ];
  };
  const standings = new Standings({ tools: { ask: { stance: "keep" }, patch_it: { writes: "path" } } });
  for (const message of [...made("a", "ask"), ...made("b", "patch_it")]) standings.add(message);
  assertEquals(standings.results.map(({ at, tool }) => [at, tool]), [[3, "patch_it"]]);
  assertEquals([...standings.called], ["ask", "patch_it"]);
  assertEquals(standings.bearers.map(({ isWorkedOn, files }) => isWorkedOn && files[0]), [
    false,
    false,
    "b.ts",
    false,
  ]);
});

Deno.test("Standings count a batch of reads as worked on from an edit to the next read", () => {
  const tools = { look: { reads: "path" }, patch: { writes: "path" } } as const;
  const standings = new Standings({ tools });
  const workedOn = (...messages: readonly Message[]) => {
    for (const message of messages) standings.add(message);
    return standings.bearers.flatMap(({ isWorkedOn }, at) => isWorkedOn ? [at] : []);
  };
  assertEquals(workedOn(...step("a", 10, "look"), ...step("b", 10, "look")), []);
  assertEquals(workedOn(...step("a", 1, "patch")), [1, 3, 4]);
  assertEquals(workedOn(...step("go", 10)), [1, 3, 4]);
  assertEquals(workedOn(...step("b", 1, "patch")), [1, 3, 4, 8]);
  assertEquals(workedOn(...step("c", 10, "look")), [4, 8]);
  assertEquals(workedOn(...step("c", 1, "patch")), [4, 8, 11, 12]);
});

Deno.test("findRemovals() reads names only in head and tail of a very long text", () => {
  const names: number[] = [];
  const hazard = (standing: Parameters<typeof KEEP_WANTED.hazard>[0]) => {
    names.push(standing.names);
    return 0;
  };
  const spaces = (count: number) => "- ".repeat(count / 2);
  const named = (before: number, after: number) => {
    names.length = 0;
    const content = `${spaces(before)}someHelper_name${spaces(after)}`;
    const call = { id: "a", type: "function", function: { name: "run", arguments: "{}" } } as const;
    find([
      { role: "user", content: "Go." },
      { role: "assistant", tool_calls: [call] },
      { role: "tool", tool_call_id: "a", content },
      ...turn("b", 10),
      ...turn("c", 10),
    ], { retention: { ...retention, hazard } });
    return Math.max(...names);
  };
  assertEquals(
    [named(300_000, 100), named(100, 300_000), named(90_000, 90_000), named(150_000, 150_000)],
    [1, 1, 1, 0],
  );
});
