import { assertEquals, assertRejects } from "@std/assert";
import { defineTool, Refusal } from "./define_tool.ts";
import { context } from "./fixture_test.ts";

const toolThat = (run: () => Promise<string>) =>
  defineTool<{ readonly path: string }>({
    name: "look",
    description: "Looks.",
    properties: { path: { type: "string" } },
    required: ["path"],
    stance: "rederivable",
    reads: "path",
    attempt: ({ path }) => `look at ${path}`,
    run,
  });

Deno.test("defineTool() makes a tool with a closed schema", () => {
  const { run: _, ...tool } = toolThat(() => Promise.resolve(""));
  assertEquals(tool, {
    definition: {
      type: "function",
      function: {
        name: "look",
        description: "Looks.",
        parameters: {
          type: "object",
          properties: { path: { type: "string" } },
          required: ["path"],
          additionalProperties: false,
        },
      },
    },
    stance: "rederivable",
    reads: "path",
  });
});

Deno.test("defineTool() turns refusals and system errors into results, and lets bugs through", async () => {
  const run = (error: unknown) => toolThat(() => Promise.reject(error)).run({ path: "a" }, context);
  assertEquals(await run(new Refusal("no.")), { content: "Cannot look at a: no.", error: true });
  assertEquals(await run(Object.assign(new Error("at /secret"), { code: "ENOSPC" })), {
    content: "Cannot look at a: the disk is full.",
    error: true,
  });
  await assertRejects(async () => await run(new TypeError("bug")), TypeError, "bug");
});

Deno.test("defineTool() runs nothing if the call is aborted already", async () => {
  const tool = toolThat(() => Promise.reject(new Error("must not run")));
  const signal = AbortSignal.abort();
  await assertRejects(async () => await tool.run({ path: "a" }, { ...context, signal }), DOMException);
});
