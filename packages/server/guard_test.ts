import { assertEquals } from "@std/assert";
import { allowedHosts } from "@tare/server";
import { agent, error, scriptedModel } from "./fixture_test.ts";
import type { AgentOptions } from "@tare/server";

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

Deno.test("guard() refuses pages of other origins, before it looks at the token", async () => {
  const origin = "https://evil.example";
  const { status, body, headers } = await answerOf({ token: "t" }, "http://localhost:8787/v1/sessions", {
    method: "POST",
    headers: { origin },
  });
  assertEquals(
    { status, body },
    error(
      403,
      "origin_not_allowed",
      `Cannot let pages of ${origin} use this server: TARE_CORS_ORIGINS doesn't list that origin.`,
    ),
  );
  assertEquals(headers.get("access-control-allow-origin"), null);
  for (const foreign of ["null", "http://localhost:3000", "http://localhost", "https://localhost:8788"]) {
    assertEquals(
      await statusOf(undefined, "http://localhost:8787/health", { origin: foreign }),
      403,
      foreign,
    );
  }
  for (const own of ["http://localhost:8787", "https://localhost:8787"]) {
    assertEquals(await statusOf(undefined, "http://localhost:8787/health", { origin: own }), 200, own);
  }
});

Deno.test("guard() lets pages of configured origins read answers, refusals included, and answers their preflight", async () => {
  const origin = "https://chat.example";
  const guard = { origins: [origin], token: "secret" };
  const preflight = await answerOf(guard, "http://localhost/v1/sessions", {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST" },
  });
  assertEquals(preflight.status, 204);
  assertEquals(
    ["allow-origin", "allow-methods", "allow-headers", "max-age"].map((name) =>
      preflight.headers.get(`access-control-${name}`)
    ),
    [origin, "GET, POST, DELETE", "authorization, content-type, idempotency-key, last-event-id", "600"],
  );
  for (const headers of [{ origin }, { origin, authorization: "Bearer secret" }]) {
    const answer = await answerOf(guard, "http://localhost/v1/sessions", { headers });
    assertEquals(answer.status, "authorization" in headers ? 200 : 401);
    assertEquals(answer.headers.get("access-control-allow-origin"), origin);
    assertEquals(answer.headers.get("vary"), "origin");
  }
  const other = await answerOf(guard, "http://localhost/health", {
    method: "OPTIONS",
    headers: { origin: "https://other.example", "access-control-request-method": "GET" },
  });
  assertEquals([other.status, other.headers.get("access-control-allow-origin")], [403, null]);
  assertEquals(await statusOf(guard, "http://localhost/health"), 200);
});

Deno.test("guard() forbids browsers to guess the type of an answer", async () => {
  assertEquals(
    (await answerOf(undefined, "http://localhost/health")).headers.get("x-content-type-options"),
    "nosniff",
  );
});
