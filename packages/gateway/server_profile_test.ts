import { assertEquals } from "@std/assert";
import { serverProfile } from "./upstream.ts";

const HERE = "http://127.0.0.1:8080/v1/";
const list = (...owners: unknown[]) =>
  Response.json({ object: "list", data: owners.map((owned_by) => ({ id: "m", object: "model", owned_by })) });

/** What is known of a server that answers so, one request after the other, and what it was asked. */
function asking(...answers: readonly (Response | Error)[]) {
  const waiting = [...answers];
  const asked: [string, string | null][] = [];
  let nowMs = 0;
  const server = serverProfile({
    baseURL: HERE,
    apiKey: "k",
    now: () => nowMs,
    fetch: (input, init) => {
      asked.push([String(input), new Headers(init?.headers).get("authorization")]);
      const answer = waiting.shift() ?? new Error("no more");
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
  });
  return { server, asked, pass: (ms: number) => nowMs += ms };
}

Deno.test("serverProfile() takes a server for one's own that lists only such models", async () => {
  for (
    const [owners, name] of [
      [["llamacpp"], "local"],
      [["vllm", "vllm"], "local"],
      [["sglang"], "local"],
      [["library"], "local"],
      [["organization_owner"], "local"],
      // A proxy passes others' models on too.
      [["vllm", "openai"], undefined],
      [[undefined], undefined],
    ] as const
  ) {
    const { server, asked } = asking(list(...owners));
    await server.asked();
    assertEquals([server.name(), asked], [name, [[`${HERE}models`, "Bearer k"]]]);
    await server.close();
  }
});

Deno.test("serverProfile() tells the windows of models, and on one's own machine that of the only one", async () => {
  const data = [{ id: "m", owned_by: "vllm", max_model_len: 40_960 }];
  const { server: own } = asking(Response.json({ data }));
  const { server: others } = asking(Response.json({ data: [...data, { id: "n", owned_by: "openai" }] }));
  const windows = [];
  for (const server of [own, others]) {
    await server.asked();
    windows.push(["m", "n"].map(server.windowTokens));
    await server.close();
  }
  assertEquals(windows, [[40_960, 40_960], [40_960, undefined]]);
});

Deno.test("serverProfile() asks again after a while, without waiting, until there is a list", async () => {
  const { server, asked, pass } = asking(
    new TypeError("refused"),
    Response.json({}),
    new Response("<html>"),
    list("vllm"),
  );
  const names: unknown[] = [];
  for (let time = 0; time < 6; time++) {
    names.push(server.name());
    // Within the pause nobody is asked.
    names.push(server.name());
    await server.asked();
    pass(30_000);
  }
  assertEquals([names.slice(0, 8), names.slice(8), asked.length], [
    Array(8).fill(undefined),
    Array(4).fill("local"),
    4,
  ]);
  await server.close();
});

Deno.test("serverProfile() asks no provider that its address tells", async () => {
  const fetch = () => Promise.reject(new Error("was asked"));
  for (const baseURL of ["https://api.openai.com/v1", "https://api.deepseek.com"]) {
    const server = serverProfile({ baseURL, fetch });
    await server.asked();
    assertEquals(server.name(), undefined);
  }
});

Deno.test("serverProfile() waits no longer than it is asked to", async () => {
  const server = serverProfile({
    baseURL: HERE,
    fetch: (_, init) =>
      new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason))),
  });
  assertEquals(server.name(), undefined);
  await server.close();
  assertEquals(server.name(), undefined);
});
