import { assertEquals } from "@std/assert";
import { type AgentOptions, allowedHosts } from "@tare/server";
import { agent, error, scriptedModel } from "../fixture_test.ts";

type Headers = Readonly<Record<string, string>>;

async function answerOf(guard: AgentOptions["guard"], url: string, init: RequestInit = {}) {
  const handler = agent(scriptedModel([]), guard ? { guard } : {});
  const response = await handler.fetch(new Request(url, init));
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
}

async function statusOf(guard: AgentOptions["guard"], url: string, headers: Headers = {}): Promise<number> {
  return (await answerOf(guard, url, { headers })).status;
}

Deno.test("guard() asks for the token on every route but /health", async () => {
  const guard = { token: "secret" };
  const { status, body, headers } = await answerOf(guard, "http://localhost/v1/sessions");
  assertEquals(
    { status, body },
    error(
      401,
      "unauthorized",
      "Cannot let the request in: it must carry the server's token, as in Authorization: Bearer TOKEN.",
    ),
  );
  assertEquals(headers.get("www-authenticate"), "Bearer");
  assertEquals(await statusOf(guard, "http://localhost/v1/sessions", { authorization: "Bearer wrong" }), 401);
  assertEquals(
    await statusOf(guard, "http://localhost/v1/sessions", { authorization: "Bearer secret" }),
    200,
  );
  // Who isn't let in learns of no route.
  assertEquals(await statusOf(guard, "http://localhost/none"), 401);
  assertEquals(await statusOf(guard, "http://localhost/health"), 200);
});

Deno.test("guard() takes the token under any spelling of the scheme, and nothing else", async () => {
  const by = (authorization: string) =>
    statusOf({ token: "secret" }, "http://localhost/v1/sessions", { authorization });
  for (const right of ["Bearer secret", "bearer secret", "BEARER  secret"]) {
    assertEquals(await by(right), 200);
  }
  for (const wrong of ["", "Bearer", "Bearer ", "secret", "Basic secret", "Bearer secre", "Bearer secrets"]) {
    assertEquals(await by(wrong), 401, wrong);
  }
});

Deno.test("guard() answers for its own hosts alone, /health included", async () => {
  assertEquals(await statusOf(undefined, "http://127.0.0.1:8787/health"), 200);
  assertEquals(await statusOf(undefined, "http://evil.example/health"), 421);
  assertEquals(await statusOf({ hosts: allowedHosts("agent.example") }, "http://agent.example/health"), 200);
  assertEquals(await statusOf({ hosts: allowedHosts("agent.example") }, "http://localhost/health"), 421);
});

Deno.test("guard() refuses headers over the limit", async () => {
  const guard = { maxHeaderBytes: 100 };
  // Name, value, colon, space and line break count.
  assertEquals(await statusOf(guard, "http://localhost/health", { a: "x".repeat(95) }), 200);
  const { status, body } = await answerOf(guard, "http://localhost/health", {
    headers: { a: "x".repeat(96) },
  });
  assertEquals(
    { status, body },
    error(431, "headers_too_large", "Cannot read the request: its headers have more than 100 bytes."),
  );
});

Deno.test("guard() forbids browsers to guess the type of an answer", async () => {
  assertEquals(
    (await answerOf(undefined, "http://localhost/health")).headers.get("x-content-type-options"),
    "nosniff",
  );
});
