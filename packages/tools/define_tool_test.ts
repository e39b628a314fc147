import { assertEquals, assertRejects } from "@std/assert";
import { defineTool, ioReason, ToolRefusal } from "./define_tool.ts";
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

Deno.test("defineTool() returns a tool with a closed schema", () => {
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

Deno.test("defineTool() returns refusals and system errors as results, and throws bugs", async () => {
  const run = (error: unknown) => toolThat(() => Promise.reject(error)).run({ path: "a" }, context);
  assertEquals(await run(new ToolRefusal("no.")), { content: "Cannot look at a: no.", error: true });
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

const systemError = (code: string) => Object.assign(new Error(`of '/secret/path'`), { code });

Deno.test("ioReason() explains system errors without their paths", async () => {
  assertEquals(ioReason(systemError("ENOSPC")), "the disk is full.");
  assertEquals(ioReason(systemError("EACCES")), "permission denied.");
  assertEquals(ioReason(systemError("EWEIRD")), "the system answered EWEIRD.");
  const real = await Deno.open("/does/not/exist").catch((error) => error);
  assertEquals(ioReason(real), "it does not exist.");
  assertEquals(
    ioReason(new Deno.errors.NotCapable("x")),
    "the server was started without permission for it.",
  );
});

Deno.test("ioReason() returns undefined for other errors", () => {
  assertEquals(ioReason(new TypeError("bug")), undefined);
  assertEquals(ioReason(new DOMException("Aborted", "AbortError")), undefined);
  assertEquals(ioReason("text"), undefined);
});
