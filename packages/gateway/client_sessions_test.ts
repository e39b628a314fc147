import { assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { gateway } from "@tare/gateway";
import { call, completion, gatewayed, OPTIONS, post, READ } from "./fixture_test.ts";
import { functionCall, responsesUpstream, textItems } from "./responses_fixture_test.ts";

Deno.test("gateway() recognizes sessions by name or content, forks and subagents", async () => {
  const { fetch } = gatewayed(() => completion({ content: "Hi" }));
  const ask = async (texts: string[], headers: Record<string, string> = {}) => {
    const messages = texts.map((content, at) => ({
      role: at === 0 ? "system" : at % 2 ? "user" : "assistant",
      content,
    }));
    const response = await fetch(post({ model: "m", messages }, headers));
    await response.text();
    return response.headers.get("x-tare-session");
  };
  const one = await ask(["S", "a"]);
  const two = await ask(["S", "b"]);
  assertNotEquals(one, two);
  assertEquals(await ask(["S", "a", "A", "c"]), one);
  assertEquals(await ask(["S", "b", "B", "c"]), two);
  assertEquals(await ask(["S", "b", "B", "c"]), two);
  const fork = await ask(["S", "a", "A2", "d"]);
  assertNotEquals(fork, one);
  assertEquals(await ask(["S", "a", "A", "c", "C", "e"]), one);
  assertEquals(await ask(["S", "a", "A2", "d", "D", "e"]), fork);
  assertNotEquals(await ask(["S", "a", "A", "c", "C", "e"], { authorization: "Bearer other" }), one);
  const named = await ask(["S", "x"], { "x-tare-session": "n" });
  assertEquals(await ask(["T", "rolled back"], { "x-tare-session": "n" }), named);
});

async function flood(fetch: (request: Request) => Promise<Response>): Promise<void> {
  for (let at = 0; at < 50; at++) {
    const content = `${at} ${"x".repeat(2_000)}`;
    await (await fetch(post({ model: "m", messages: [{ role: "user", content }] }))).text();
  }
}

Deno.test("gateway() evicts a session with all references to it", async () => {
  const { fetch, seen } = gatewayed((_, index) => Response.json({ id: `resp_${index}`, output: [] }), {
    limits: { memoryBytes: 100_000 },
  });
  const ask = async (body: object) => {
    const response = await fetch(post({ model: "m", ...body }, {}, "/responses"));
    await response.text();
    return response.headers.get("x-tare-session");
  };
  const first = await ask({ input: "Hello." });
  assertEquals(await ask({ input: "More.", previous_response_id: "resp_0" }), first);
  await flood(fetch);
  assertNotEquals(await ask({ input: "And more.", previous_response_id: "resp_1" }), first);
  assertEquals(seen.at(-1)?.body.previous_response_id, "resp_1");
});

Deno.test("gateway() separates the responses of clients with different keys", async () => {
  const { fetch } = gatewayed((_, index) => Response.json({ id: `resp_${index}`, output: [] }));
  const ask = async (key: string, body: object) => {
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(post({ model: "m", ...body }, headers, "/responses"));
    await response.text();
    return response.headers.get("x-tare-session");
  };
  const mine = await ask("mine", { input: "Hello." });
  const follow = { input: "More.", previous_response_id: "resp_0" };
  assertNotEquals(await ask("yours", follow), mine);
  assertEquals(await ask("mine", follow), mine);
});

Deno.test("gateway() resolves a response's upstream id only for its client", async () => {
  const upstream = responsesUpstream([
    [functionCall("recall", { ref: "none" }, "r1")],
    [textItems("Done.")],
  ]);
  const urls: string[] = [];
  const { fetch } = gateway({
    ...OPTIONS,
    fetch: async (input, init) => {
      const request = new Request(input, init);
      urls.push(request.url);
      return request.method === "GET" ? Response.json({}) : await upstream.fetch(request);
    },
  });
  const tools = [{ type: "function", name: "read", parameters: {} }];
  const body = { model: "m", input: "Go.", tools, stream: true };
  await (await fetch(post(body, { authorization: "Bearer mine" }, "/responses")))?.text();
  for (const key of ["mine", "yours"]) {
    const headers = { authorization: `Bearer ${key}` };
    await (await fetch(new Request("http://localhost/v1/responses/resp_1", { headers })))?.text();
  }
  assertEquals(urls.slice(2).map((url) => url.split("/").at(-1)), ["resp_2", "resp_1"]);
});

Deno.test("gateway() hides texts archived after a fork from the fork", async () => {
  const long = Array.from({ length: 4_000 }, (_, at) => `${at % 97}`).join(" ");
  const { fetch, seen } = gatewayed(({ body }) => {
    const { role, content } = body.messages.at(-1);
    const [, ref, find] = /^(?:Recall (\w+)|Find (.+))/.exec(content) ?? [];
    if (role === "user" && (ref || find)) {
      return completion({ content: null, tool_calls: [call("recall", { ref, find }, "recall_1")] }, 0);
    }
    return completion({ content: content.slice(0, 200) }, 0);
  });
  const ask = async (messages: readonly object[]) => {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    return { session: response.headers.get("x-tare-session"), body: await response.json() };
  };
  const step = (id: string) => [
    { role: "assistant", content: null, tool_calls: [call("read", { id }, id)] },
    { role: "tool", tool_call_id: id, content: `${id} ${long}` },
  ];
  const messages: object[] = [{ role: "user", content: "Go." }];
  const forked = [...messages, ...step("x0")];
  for (let at = 0; at < 8; at++) {
    messages.push(...step(`c${at}`));
    await ask(messages);
    if (at === 0) await ask(forked);
  }
  const [, ref] = /with ref ([0-9a-f]{16})/.exec(JSON.stringify(seen.at(-1)?.body.messages)) ?? [];
  const recall = [{ role: "assistant", content: "Hi." }, { role: "user", content: `Recall ${ref}` }];
  const [one, other] = [await ask([...messages, ...recall]), await ask([...forked, ...recall])];
  assertNotEquals(one.session, other.session);
  assertStringIncludes(one.body.choices[0].message.content, "c0 0 1 2");
  assertStringIncludes(other.body.choices[0].message.content, "Cannot recall");
  const find = [{ role: "assistant", content: "Hi." }, { role: "user", content: "Find C0 0 1" }];
  const [found, missed] = [await ask([...messages, ...find]), await ask([...forked, ...find])];
  assertStringIncludes(
    found.body.choices[0].message.content,
    `ref ${ref}, read {"id":"c0"}: 1 of 1 lines\n1, offset 0: … c0 0 1`,
  );
  assertStringIncludes(missed.body.choices[0].message.content, "Nothing was evicted from this conversation.");
});
