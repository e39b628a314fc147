import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { chooseModel, lacksModel, listModels, modelRows } from "./choose_model.ts";

/** Serves a list of models, and returns the paths and keys of its requests. */
function provider(list: unknown, status = 200) {
  const requests: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ url, headers }) => {
    const { pathname, search } = new URL(url);
    requests.push(`${pathname}${search} ${headers.get("authorization") ?? headers.get("x-api-key")}`);
    return Response.json(list, { status });
  });
  return { url: `http://127.0.0.1:${server.addr.port}`, requests, close: () => server.shutdown() };
}

Deno.test("lacksModel() is true with a provider and without a model", () => {
  assertEquals(lacksModel({}), false);
  assertEquals(lacksModel({ OPENAI_API_KEY: "k" }), true);
  assertEquals(lacksModel({ ANTHROPIC_BASE_URL: "http://localhost" }), true);
  assertEquals(lacksModel({ OPENAI_API_KEY: "k", TARE_MODEL: "m" }), false);
});

Deno.test("listModels() requests the list of either provider with its key", async () => {
  const { url, requests, close } = provider({ data: [{ id: "a" }, { id: 1 }, { id: "b" }] });
  assertEquals(await listModels({ OPENAI_API_KEY: "k", OPENAI_BASE_URL: `${url}/v1/` }), ["a", "b"]);
  assertEquals(await listModels({ OPENAI_BASE_URL: `${url}/v1` }), ["a", "b"]);
  assertEquals(await listModels({ ANTHROPIC_API_KEY: "c", ANTHROPIC_BASE_URL: url }), ["a", "b"]);
  assertEquals(requests, ["/v1/models Bearer k", "/v1/models null", "/v1/models?limit=1000 c"]);
  await close();
});

Deno.test("chooseModel() rejects with the provider's error and what to do", async () => {
  const { url, close } = provider({ error: { message: "Wrong key" } }, 401);
  const error = await assertRejects(() => chooseModel({ OPENAI_API_KEY: "k", OPENAI_BASE_URL: url }), Error);
  assertStringIncludes(error.message, `${url}/models answered 401: Wrong key`);
  assertStringIncludes(error.message, "tare settings TARE_MODEL=NAME");
  await close();
});

Deno.test("modelRows() numbers the first models, with list prices that are known", () => {
  assertEquals(modelRows(["mine", "gpt-5.5"]), [
    "   1  mine",
    `   2  ${"gpt-5.5".padEnd(28)} $5 in, $30 out per million`,
  ]);
  const rows = modelRows(Array.from({ length: 15 }, (_, at) => `m${at}`));
  assertEquals([rows.length, rows.at(-1)], [13, "      and 3 more"]);
});
