import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { withServer } from "./watched_server.ts";

const keys = (count: number) => Array.from({ length: count }, (_, at) => `"k${at}":"v"`).join(",");
const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);

const BODIES: Readonly<Record<string, readonly [path: string, body: string, expected: string]>> = {
  "400,000 keys of metadata": [
    "/tare/v1/sessions",
    `{"metadata":{${keys(400_000)}}}`,
    "one of its objects has more than 5000 fields",
  ],
  "4,000 keys of metadata": [
    "/tare/v1/sessions",
    `{"metadata":{${keys(4_000)}}}`,
    "1000 properties",
  ],
  "2 million lists inside one another": [
    "/tare/v1/sessions",
    `{"metadata":{"a":${nested(2_000_000)}}}`,
    "it is nested more than 200 levels deep",
  ],
  "the same, of an agent's client": [
    "/v1/chat/completions",
    `{"model":"agent","messages":${nested(2_000_000)}}`,
    "it is nested more than 200 levels deep",
  ],
  "9 million lists that never end": [
    "/tare/v1/sessions",
    "[".repeat(9_000_000),
    "it is nested more than 200 levels deep",
  ],
  "4 million wrong values": [
    "/v1/responses",
    `{"model":"agent","input":[${"1,".repeat(4_000_000)}1]}`,
    "it holds more than 100000 values",
  ],
  "90,000 wrong values": [
    "/v1/chat/completions",
    `{"model":"agent","messages":[${"1,".repeat(90_000)}1]}`,
    "messages.0",
  ],
  "90,000 names of tools": [
    "/tare/v1/sessions",
    `{"tools":[${Array.from({ length: 90_000 }, (_, at) => `"t${at}"`).join(",")}]}`,
    "1000 items",
  ],
  "48 objects of 5,000 keys": [
    "/tare/v1/sessions",
    `{"metadata":{"a":[${Array.from({ length: 48 }, () => `{${keys(4_990)}}`).join(",")}]}}`,
    "it holds more than 100000 values",
  ],
  "400,000 fields in front of the model": [
    "/v1/chat/completions",
    `{${keys(400_000)},"model":"m","messages":[]}`,
    "one of its objects has more than 5000 fields",
  ],
  "2 million lists inside one another, to be imported": [
    "/tare/v1/sessions/import",
    `{"role":"user","content":"Hi.","more":${nested(2_000_000)}}`,
    "it is nested more than 200 levels deep",
  ],
  "200,000 values in a line, to be imported": [
    "/tare/v1/sessions/import",
    `{"role":"user","content":"Hi."}\n{"role":"user","content":"Hi.","more":[${"0,".repeat(200_000)}0]}`,
    "in line 2, it holds more than 100000 values",
  ],
};

Deno.test("hostile bodies: each is refused in a sentence, faster than a harmless one of its size is accepted", async (t) => {
  await withServer([], async (server) => {
    await server.post("/tare/v1/sessions", "{}");
    const innocent = await server.post(
      "/tare/v1/sessions",
      `{"instructions":"${"word ".repeat(1_900_000)}"}`,
    );
    assertEquals(innocent.status, 201);
    for (const [name, [path, body, expected]] of Object.entries(BODIES)) {
      await t.step(name, async () => {
        const { status, text, ms, stallMs } = await server.post(
          path,
          body,
          path.endsWith("/import") ? "application/x-ndjson" : undefined,
        );
        assertEquals(status, 400);
        assertStringIncludes(text, expected);
        const worst = Math.max(ms, stallMs);
        assert(
          worst < 3 * innocent.ms + 1_000,
          `took ${Math.round(worst)} ms (${Math.round(innocent.ms)} ms)`,
        );
      });
    }
  });
});
