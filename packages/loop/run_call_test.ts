import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { run, type RunOptions } from "@tare/loop";
import type { Tool, ToolCall } from "@tare/messages";
import { breathe, call, callTools, collect, FakeClock, say, scripted, tool } from "./fixture_test.ts";

async function resultOf(toolCall: ToolCall, tools: readonly Tool[], options: Partial<RunOptions> = {}) {
  const reply = callTools().map((event) =>
    event.type === "completed" ? { ...event, message: { ...event.message, tool_calls: [toolCall] } } : event
  );
  const { model } = scripted(reply, say("Done."));
  const { events, result } = await collect(run({ model, tools, history: [], input: "Go", ...options }));
  assertEquals(result.reason, "completed");
  const event = events.find((event) => event.type === "tool_result");
  assert(event?.type === "tool_result");
  assertEquals(result.messages[2]?.content, event.content);
  return { content: event.content, error: event.error };
}

const readFile: Tool = {
  definition: {
    type: "function",
    function: {
      name: "read_file",
      parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
    },
  },
  run: ({ path }) => `text of ${path}`,
};

Deno.test("runCall() passes valid arguments to the tool", async () => {
  assertEquals(await resultOf(call("1", "read_file", { path: "a" }), [readFile]), {
    content: "text of a",
    error: false,
  });
});

Deno.test("runCall() runs the tool that a call resolves to, or reports the problem", async () => {
  const general: Tool = {
    definition: {
      type: "function",
      function: {
        name: "call_tool",
        parameters: { type: "object", properties: { path: { type: "string" } } },
      },
    },
    resolve: ({ path }) =>
      path === "secret"
        ? { problem: "Cannot call that." }
        : { tool: readFile, args: { path: `real ${path}` } },
    run: () => "never run",
  };
  assertEquals(await resultOf(call("1", "call_tool", { path: "a" }), [general]), {
    content: "text of real a",
    error: false,
  });
  assertEquals(await resultOf(call("1", "call_tool", { path: "secret" }), [general]), {
    content: "Cannot call that.",
    error: true,
  });
});

Deno.test("runCall() returns the definition to a model that calls with invalid arguments", async () => {
  for (
    const [args, fault] of [
      ['{"path":', "not valid JSON"],
      ["{}", "must have required property 'path'"],
      ['{"path":1}', "path must be string"],
    ] as const
  ) {
    const { content, error } = await resultOf(call("1", "read_file", args), [readFile]);
    assertEquals(error, true);
    assertStringIncludes(content, fault);
    assertStringIncludes(content, JSON.stringify(readFile.definition.function));
  }
});

Deno.test("runCall() lists the existing tools and suggests the nearest", async () => {
  const tools = [readFile, tool("list_files", () => "")];
  assertEquals(await resultOf(call("1", "ReadFile"), tools), {
    content: 'Cannot run "ReadFile": there is no such tool. Did you mean read_file? ' +
      "The tools are: read_file, list_files.",
    error: true,
  });
  assertEquals(await resultOf(call("1", "browse"), tools), {
    content: 'Cannot run "browse": there is no such tool. The tools are: read_file, list_files.',
    error: true,
  });
  assertEquals(await resultOf(call("1", "browse"), []), {
    content: 'Cannot run "browse": there is no such tool. There are no tools. Answer without them.',
    error: true,
  });
});

Deno.test("runCall() returns an error result if a tool throws or marks it", async () => {
  class NotFound extends Error {
    override name = "NotFound";
  }
  for (
    const [thrown, content] of [
      [new Error("No such file."), "No such file."],
      [new NotFound(), "NotFound"],
      ["text", "text"],
      ["", "Cannot finish f: it failed without a message."],
    ] as const
  ) {
    const throwing = tool("f", () => {
      throw thrown;
    });
    assertEquals(await resultOf(call("1", "f"), [throwing]), { content, error: true });
    const rejecting = tool("f", () => Promise.reject(thrown));
    assertEquals(await resultOf(call("1", "f"), [rejecting]), { content, error: true });
  }
  const marked = tool("f", () => ({ content: "exit code 1", error: true }));
  assertEquals(await resultOf(call("1", "f"), [marked]), { content: "exit code 1", error: true });
});

Deno.test("runCall() stops a tool at its own limit, or else at the loop's, and reports it", async () => {
  const reasons: unknown[] = [];
  const slow = async (_: unknown, { signal }: { readonly signal: AbortSignal }) => {
    while (!signal.aborted) {
      await breathe();
      clock.advance(500);
    }
    reasons.push(signal.reason.name);
    throw signal.reason;
  };
  let clock = new FakeClock();
  const timeoutText = (seconds: number) =>
    `Cannot finish f: it exceeded its limit of ${seconds} s and was stopped. Request less in one call.`;
  assertEquals(
    await resultOf(call("1", "f"), [tool("f", slow)], { time: { clock }, limits: { toolTimeoutMs: 1_500 } }),
    { content: timeoutText(1.5), error: true },
  );
  clock = new FakeClock();
  assertEquals(
    await resultOf(call("1", "f"), [tool("f", slow, { timeoutMs: 1_000 })], {
      time: { clock },
      limits: { toolTimeoutMs: 1_500 },
    }),
    { content: timeoutText(1), error: true },
  );
  assertEquals(reasons, ["TimeoutError", "TimeoutError"]);
});

Deno.test("runCall() doesn't wait for a tool that ignores its signal", async () => {
  const release = Promise.withResolvers<string>();
  const deaf = tool("f", () => release.promise, { timeoutMs: 1 });
  const { model } = scripted(callTools(call("1", "f")), say("Done."));
  const turn = collect(run({ model, tools: [deaf], history: [], input: "Go" }), (event) => {
    if (event.type === "text_delta") release.resolve("late");
  });
  const { result } = await turn;
  assertStringIncludes(`${result.messages[2]?.content}`, "its limit of 0.001 s");
});

Deno.test("runCall() accepts a custom call with JSON input", async () => {
  const custom = { id: "1", type: "custom", custom: { name: "read_file", input: '{"path":"b"}' } } as const;
  assertEquals(await resultOf(custom, [readFile]), { content: "text of b", error: false });
});

Deno.test("runCall() suggests the nearest tool", async () => {
  const tools = ["list_files", "read_file", "search_files", "write_file"].map((name) => tool(name, () => ""));
  for (
    const [given, meant] of [
      ["readFile", "read_file"],
      ["READ-FILE", "read_file"],
      ["raed_file", "read_file"],
      ["read_files", "read_file"],
      ["searchfile", "search_files"],
      ["browse", undefined],
      ["", undefined],
    ] as const
  ) {
    const { content } = await resultOf(call("1", given), tools);
    assertEquals([given, /Did you mean (\w+)\?/.exec(content)?.[1]], [given, meant]);
  }
});

Deno.test("runCall() neither quotes nor compares a tool name that is too long", async () => {
  const { content } = await resultOf(call("1", "read_file".repeat(100_000)), [readFile]);
  assertEquals(
    content,
    `Cannot run "${"read_file".repeat(23).slice(0, 200)}…": there is no such tool. The tools are: read_file.`,
  );
});

Deno.test("runCall() runs an unlisted tool, and returns its full definition on errors", async () => {
  const broken: Tool = {
    ...readFile,
    definition: { type: "function", function: { name: "broken", parameters: { type: "nothing" } } },
  };
  const options = { unlisted: [readFile, broken] };
  assertEquals(await resultOf(call("1", "read_file", { path: "a" }), [], options), {
    content: "text of a",
    error: false,
  });
  const { content } = await resultOf(call("1", "read_file", {}), [], options);
  assertStringIncludes(content, JSON.stringify(readFile.definition.function));
  const { content: why } = await resultOf(call("1", "broken", {}), [], options);
  assertStringIncludes(why, "Cannot use tool broken: its parameters are not a valid JSON Schema");
  const listed: Tool = {
    definition: { type: "function", function: { name: "listed" } },
    run: () => "",
  };
  const { content: close } = await resultOf(call("1", "read-file", {}), [listed], options);
  assertStringIncludes(close, "Did you mean read_file? The tools are: listed.");
});
