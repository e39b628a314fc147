import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { type Journal, type LoopEvent, run, type RunOptions, type TurnResult } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import { programTool } from "@tare/tools/programs";
import type { Message, Tool } from "@tare/messages";
import fc, { cases } from "./cases.ts";
import {
  breathe,
  call,
  callTools,
  collect,
  outline,
  say,
  scripted,
  tool,
  untilAborted,
} from "../packages/loop/fixture_test.ts";

function playing(code: string, tools: readonly Tool[], options: Partial<RunOptions> = {}) {
  const { model } = scripted(callTools(call("p", "run_program", { code })), say("Done."));
  return collect(
    run({
      ...{ model, history: [], input: "Go", time: { now: () => 17 } },
      tools: [...tools, programTool()],
      ...options,
    }),
  );
}

function resultOf({ messages }: TurnResult): string {
  const answer = messages.find(({ role }) => role === "tool");
  return answer?.role === "tool" ? String(answer.content) : "";
}

const line = tool("line", ({ n }) => `line ${n}`, { stance: "rederivable" });
const fails = tool("fails", () => ({ content: "Cannot do it: no.", error: true }));

Deno.test("run_program: calls tools, and only its output and return value enter the history", async () => {
  const code = `
    const lines: string[] = [];
    for (let n = 1; n < 4; n++) lines.push(await tools.line({ n }));
    print("The last is", lines.at(-1), { of: lines.length });
    const host = "its own";
    console.log("Printed too", host, typeof globalThis);
    return lines.map((line) => line.length);
  `;
  const { events, result } = await playing(code, [line]);
  assertEquals(outline(events), [
    ...["turn_start", "step_start", "assistant_message", "tool_call p"],
    ...[1, 2, 3].flatMap((n) => [`tool_call p/${n}`, `tool_result p/${n}`]),
    ...["tool_result p", "step_end"],
    ...["step_start", "text_delta Done.", "assistant_message", "step_end", "turn_end completed"],
  ]);
  const nested = events.filter((event) => "parent" in event);
  const about = { step: 1, parent: "p", name: "line" };
  assertEquals(nested.slice(0, 2).map((event) => ({ ...event, durationMs: 0 })), [
    { type: "tool_call", id: "p/1", arguments: '{"n":1}', beganAtMs: 17, durationMs: 0, ...about },
    { type: "tool_result", id: "p/1", content: "line 1", error: false, bytes: 6, durationMs: 0, ...about },
  ]);
  assertEquals(result.messages.length, 4);
  assertEquals(resultOf(result), 'The last is line 3 {"of":3}\nPrinted too its own undefined\n[6,6,6]');
});

Deno.test("run_program: reports its calls, the tokens omitted from the prompt, and the written files", async () => {
  const write = tool("write", () => "ok", { writes: "path" });
  const big = tool("big", () => "A long line of words that nobody prints. ".repeat(500));
  const code = `
    await Promise.all([tools.big(), tools.write({ path: "a.ts" }), tools.write({ path: "b.ts" })]);
    await tools.fails().catch(() => {});
  `;
  const { events, result } = await playing(code, [big, write, fails], {
    costs: { countTokens: (text) => text.length },
  });
  assertEquals(resultOf(result), "It printed nothing.\n\n[Written: a.ts, b.ts]");
  const made = events.flatMap((event) => event.type === "tool_result" && event.made ? [event.made] : []);
  const omittedTokens = 500 * 41 + 2 + 2 + "Cannot do it: no.".length - resultOf(result).length;
  assertEquals(made, [{ calls: 4, failed: 1, omittedTokens }]);
});

Deno.test("run_program: names written files in the order of the calls, whichever ended first", async () => {
  const opened = Promise.withResolvers<void>();
  const write = tool("write", async ({ path }) => {
    if (path === "a.ts") await opened.promise;
    return "ok";
  }, { writes: "path" });
  const open = tool("open", () => {
    opened.resolve();
    return "ok";
  });
  const code = `
    const first = tools.write({ path: "a.ts" });
    await tools.write({ path: "b.ts" });
    await tools.write({ path: "c.ts" });
    await tools.open();
    await first;
    await tools.write({ path: "b.ts" });
  `;
  const { result } = await playing(code, [write, open]);
  assertEquals(resultOf(result), "It printed nothing.\n\n[Written: a.ts, b.ts, c.ts]");
});

Deno.test("run_program: returns errors by message and line, and the output before", async () => {
  const failing = async (code: string, tools: readonly Tool[] = [line, fails]) => {
    const { events, result } = await playing(code, tools);
    assertEquals(
      events.findLast((event) => event.type === "tool_result" && event.id === "p")?.type,
      "tool_result",
    );
    return resultOf(result);
  };
  assertEquals(
    await failing(`print("one");\nconst f = () => {\n  throw new TypeError("bad");\n};\nf();`),
    "The program failed. TypeError: bad\n  at line 3, column 13 (f)\n  at line 5, column 1\n\nIt had printed:\none",
  );
  assertMatch(
    await failing("const a = 1;\na b c;"),
    /^The program failed\. SyntaxError: .*\n {2}at line 2, column \d+/,
  );
  assertMatch(
    await failing("print(1);\nawait tools.line({ n: 1 });\nawait tools.fails({});"),
    /^The program failed\. ToolError: Cannot do it: no\.\n {2}at line 3, column \d+[^]*It had printed:\n1$/,
  );
  assertStringIncludes(await failing("await tools.lines({})"), 'Cannot run "lines": there is no such tool.');
  assertStringIncludes(
    await failing("await tools.run_program({ code: '' })"),
    "programs can't be nested",
  );
  assertStringIncludes(await failing('throw { odd: "one" }'), 'Error: {"odd":"one"}');
  assertStringIncludes(await failing("print(fetch)"), "fetch is not defined");
});

Deno.test("run_program: reports tools that can't be called from it, and finds no tools where none are hidden", async () => {
  const clients = { type: "function", function: { name: "theirs" } } as const;
  const code = `
    for (const [name, args] of [["theirs", {}], ["find_tools", { query: "words" }], ["line", { n: 9 }]]) {
      try { print(await tools[name](args)); } catch (error) { print(error.message); }
    }
  `;
  const { result } = await playing(code, [line], { clientTools: [clients] });
  assertEquals(resultOf(result).split("\n"), [
    "Cannot call theirs from a program: the client runs it, and a program can't wait for that. Call it directly.",
    'Cannot run "find_tools": there is no such tool. The tools are: line, run_program.',
    "line 9",
  ]);
});

Deno.test("run_program: has limits, each with an error of its own", async () => {
  const resultFor = async (code: string) => resultOf((await playing(code, [line])).result);
  const many = await resultFor(`
    for (let n = 1; n < 258; n++) await tools.line({ n }).catch((error) => print(n, error.message));
  `);
  assertEquals(
    many,
    "257 Cannot call line: 256 calls were made, which is the limit. Print the results so far.",
  );
  assertStringIncludes(
    await resultFor(`print("x".repeat(300_000))`),
    "RangeError: Cannot print more than 262144 characters",
  );
  assertEquals(
    await resultFor(`await tools.line({ n: "x".repeat(2 ** 20) }).catch((error) => print(error.message))`),
    "Cannot call line: its arguments have 1048584 characters of JSON; the limit is 1048576.",
  );
  assertStringIncludes(
    await resultFor("for (;;) await tools.line({}).catch(() => {})"),
    "JavaScript runtime exceeded the 1000 bridge request limit.",
  );
  assertStringIncludes(
    await resultFor(`const all = []; for (;;) all.push("x".repeat(1000) + all.length)`),
    "It used more than the 64 MB that a program may.",
  );
  assertStringIncludes(
    await resultFor("for (;;) {}"),
    "It computed for too long without calling a tool. Look for a loop that doesn't end",
  );
});

Deno.test("run_program: fails at once if it waits for something that can't happen, and not for what a call may still do", async () => {
  const forEver = `
    print(await tools.line({ n: 1 }));
    await new Promise(() => {});
  `;
  const { events, result } = await playing(forEver, [line]);
  assertEquals(
    resultOf(result),
    "The program failed. Error: It waits for a promise that nothing resolves: no call runs any more, and there are no " +
      "timers. Await the calls themselves, or resolve it.\n\nIt had printed:\nline 1",
  );
  assertEquals(
    events.flatMap((event) => event.type === "tool_result" ? [[event.id, event.error]] : []),
    [["p/1", false], ["p", true]],
  );
  const resolved = `
    const { promise, resolve } = Promise.withResolvers();
    tools.slow({}).then(async (text) => {
      for (let ticks = 0; ticks < 1_000; ticks++) await null;
      resolve(text);
    });
    return await promise;
  `;
  const slow = tool("slow", async () => {
    await breathe();
    return "slow";
  });
  assertEquals(resultOf((await playing(resolved, [slow])).result), "slow");
});

Deno.test("run_program: waits for its calls, however it ends, and limits concurrent ones", async () => {
  let running = 0;
  let most = 0;
  const slow = tool("slow", async ({ n }) => {
    most = Math.max(most, ++running);
    await breathe();
    running--;
    return `slow ${n}`;
  });
  const code = `
    const first = Promise.race([1, 2, 3, 4].map((n) => tools.slow({ n })));
    tools.slow({ n: 5 });
    print(await first);
    throw new Error("early");
  `;
  const { events, result } = await playing(code, [slow], { limits: { maxParallelTools: 2 } });
  const ended = events.filter((event) => event.type === "tool_result" && event.parent === "p");
  assertEquals([most, running, ended.length], [2, 0, 5]);
  assertStringIncludes(resultOf(result), "Error: early");
});

Deno.test("run_program: waits for the effects of a call's end, however long the next call takes", async () => {
  const code = `
    const aside = async () => {
      for (let n = 1; n < 4; n++) {
        print(await tools.line({ n }));
        for (let ticks = 0; ticks < 1_000; ticks++) await null;
      }
    };
    aside();
    return "over";
  `;
  const { result } = await playing(code, [line]);
  assertEquals(resultOf(result), "over\nline 1\nline 2\nline 3");
});

Deno.test("run_program: runs next to a call whose id its own calls could have", async () => {
  const { model } = scripted(
    callTools(
      call("p", "run_program", { code: "await tools.line({ n: 1 });" }),
      call("p/1", "line", { n: 2 }),
      call("q", "run_program", { code: "return await tools.line({ n: 3 });" }),
    ),
    say("Done."),
  );
  const tools = [line, programTool()];
  const { events } = await collect(run({ model, history: [], input: "Go", time: { now: () => 17 }, tools }));
  const results = events.flatMap((event) =>
    event.type === "tool_result" ? [[event.id, event.parent, event.content]] : []
  );
  assertEquals(results.toSorted(([one], [other]) => String(one) < String(other) ? -1 : 1), [
    ["call_4", undefined, "line 2"],
    ["p", undefined, "It printed nothing."],
    ["p/1", "p", "line 1"],
    ["q", undefined, "line 3"],
    ["q/1", "q", "line 3"],
  ]);
});

Deno.test("run_program: stops with its turn", async () => {
  const controller = new AbortController();
  const hangs = tool("hangs", async (_, { signal }) => {
    controller.abort();
    await untilAborted(signal);
    throw signal.reason;
  });
  const { events, result } = await playing("await tools.hangs(); print('never')", [hangs], {
    signal: controller.signal,
  });
  assertEquals(outline(events).slice(-5), [
    ...["tool_call p/1", "tool_result p/1 error", "tool_result p error", "step_end", "turn_end cancelled"],
  ]);
  assertEquals(resultOf(result), "Cannot finish run_program: the turn was stopped before it ended.");
});

function journalOf(events: readonly LoopEvent[]): Journal {
  const calls = events.filter((event) => event.type === "tool_call" && event.parent !== undefined);
  return {
    beganAtMs: 17,
    made: new Map(calls.flatMap((event) => event.type === "tool_call" ? [[event.id, event] as const] : [])),
    results: events.flatMap((event) =>
      event.type === "tool_result" && event.parent !== undefined ? [event] : []
    ),
  };
}

async function playingOn(code: string, journal: Journal, tools: readonly Tool[]) {
  const calls = [call("p", "run_program", { code })];
  const messages: Message[] = [
    { role: "user", content: "Go" },
    { role: "assistant", content: null, tool_calls: calls },
  ];
  const { model } = scripted(say("Done."));
  return await collect(run({
    ...{ model, history: [], time: { now: () => 99 } },
    approvals: { journal: () => Promise.resolve(journal) },
    tools: [...tools, programTool()],
    resumed: { messages, step: 2, ledger: EMPTY_LEDGER, calls },
  }));
}

Deno.test("run_program: runs nothing more if it makes other calls than before", async () => {
  const made = new Map([["p/1", { name: "line", arguments: '{"n":2}' }]]);
  const results = [{ id: "p/1", content: "line 2", error: false }];
  const ran: unknown[] = [];
  const noting = tool("line", (args) => {
    ran.push(args);
    return "";
  });
  const journal = { beganAtMs: 17, made, results };
  const { result } = await playingOn("await tools.line({ n: 3 }); await tools.line({ n: 4 });", journal, [
    noting,
  ]);
  assertEquals(ran, []);
  assertEquals(
    resultOf(result),
    "Cannot resume run_program: its calls differ from those before the interruption: call 1 was line " +
      '{"n":2}, and is now line {"n":3}. Earlier effects remain; nothing more was run.',
  );
});

type Plan =
  | { readonly call: number }
  | { readonly all: readonly Plan[] }
  | { readonly race: readonly Plan[] }
  | { readonly seq: readonly Plan[] };

const { plan } = fc.letrec<{ plan: Plan }>((tie) => ({
  plan: fc.oneof(
    { maxDepth: 3 },
    fc.record({ call: fc.nat(99) }),
    fc.record({ all: fc.array(tie("plan"), { minLength: 1, maxLength: 3 }) }),
    fc.record({ race: fc.array(tie("plan"), { minLength: 1, maxLength: 3 }) }),
    fc.record({ seq: fc.array(tie("plan"), { minLength: 1, maxLength: 3 }) }),
  ),
}));

const PLAYS = `
  const log = [];
  const play = async (node) => {
    if ("call" in node) {
      try {
        log.push(await tools.odd({ n: node.call, at: log.length }));
      } catch (error) {
        log.push(error.message);
      }
      return log.at(-1);
    }
    if ("all" in node) return (await Promise.all(node.all.map(play))).join("+");
    if ("race" in node) return await Promise.race(node.race.map(play));
    let all = "";
    for (const one of node.seq) all += await play(one) + Math.floor(Math.random() * 10);
    return all;
  };
  print(await play(plan));
  return [log, Date.now(), Math.random()];
`;

function oddTool(chance: () => number) {
  const pending: (() => void)[] = [];
  const ran: string[] = [];
  const odd = tool("odd", ({ n }, { callId = "" }) => {
    ran.push(callId);
    const { promise, resolve } = Promise.withResolvers<{ content: string; error: boolean }>();
    pending.push(() => resolve({ content: `${n}:${ran.length}`, error: Number(n) % 5 === 0 }));
    return promise;
  });
  let isOver = false;
  const releasing = async () => {
    while (!isOver) {
      await breathe();
      if (chance() < 0.5) pending.splice(Math.floor(chance() * pending.length), 1)[0]?.();
    }
  };
  return { odd, ran, releasing, over: () => isOver = true };
}

async function released<T>(odd: ReturnType<typeof oddTool>, work: Promise<T>): Promise<T> {
  const [value] = await Promise.all([work.finally(odd.over), odd.releasing()]);
  return value;
}

Deno.test("run_program: does the same when replayed, in whatever order its calls ended, and makes none twice", async () => {
  const seeds = fc.integer({ min: 1, max: 2 ** 31 - 1 });
  await fc.assert(
    fc.asyncProperty(plan, seeds, fc.nat(1000), async (plan, seed, cut) => {
      let state = seed;
      const chance = () => (state = Math.imul(state, 48_271) % 0x7fffffff, Math.abs(state) / 0x7fffffff);
      const code = `const plan = ${JSON.stringify(plan)};${PLAYS}`;
      const first = oddTool(chance);
      const { events, result } = await released(first, playing(code, [first.odd]));
      const nested = events.filter((event) => "parent" in event);

      const all = await playingOn(code, journalOf(nested), [
        tool("odd", () => ({ content: "Again", error: true })),
      ]);
      assertEquals(resultOf(all.result), resultOf(result));
      assertEquals(all.events.filter((event) => "parent" in event), []);

      const known = nested.slice(0, cut % (nested.length + 1));
      const second = oddTool(chance);
      const part = await released(second, playingOn(code, journalOf(known), [second.odd]));
      const ended = new Set(journalOf(known).results.map(({ id }) => id));
      assertEquals(second.ran.filter((id) => ended.has(id)), []);
      assertEquals(new Set(second.ran).size, second.ran.length);
      // The events of both parts form the whole.
      const both = [...known, ...part.events.filter((event) => "parent" in event)];
      const again = await playingOn(code, journalOf(both), []);
      assertEquals(resultOf(again.result), resultOf(part.result));
    }),
    { numRuns: cases(25) },
  );
});
