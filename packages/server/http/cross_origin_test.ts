import { assertEquals } from "@std/assert";
import { Keys } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import type { HttpOptions } from "@tare/server";
import { agent, error, scriptedModel } from "../fixture_test.ts";

type Headers = Readonly<Record<string, string>>;

const KEYS = new Keys({ store: memoryStore(), owners: ["secret"] });

async function answerOf(
  guard: HttpOptions & { readonly keys?: Keys } | undefined,
  url: string,
  init: RequestInit = {},
) {
  const handler = agent(scriptedModel([]), guard);
  const response = await handler.fetch(new Request(url, init));
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
}

async function statusOf(
  guard: Parameters<typeof answerOf>[0],
  url: string,
  headers: Headers = {},
): Promise<number> {
  return (await answerOf(guard, url, { headers })).status;
}

Deno.test("crossOrigin() refuses pages of other origins before checking the key", async () => {
  const origin = "https://evil.example";
  const { status, body, headers } = await answerOf({ keys: KEYS }, "http://localhost:8787/tare/v1/sessions", {
    method: "POST",
    headers: { origin },
  });
  assertEquals(
    { status, body },
    error(
      403,
      "origin_not_allowed",
      `Forbidden: TARE_CORS_ORIGINS doesn't list the origin ${origin}.`,
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

Deno.test("crossOrigin() lets pages of configured origins read answers and errors, and answers their preflight", async () => {
  const origin = "https://chat.example";
  const guard = { origins: [origin], keys: KEYS };
  const preflight = await answerOf(guard, "http://localhost/tare/v1/sessions", {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST" },
  });
  assertEquals(preflight.status, 204);
  assertEquals(
    ["allow-origin", "allow-methods", "allow-headers", "max-age"].map((name) =>
      preflight.headers.get(`access-control-${name}`)
    ),
    [
      origin,
      "GET, POST, DELETE",
      "authorization, content-type, idempotency-key, last-event-id, x-tare-key",
      "600",
    ],
  );
  for (const headers of [{ origin }, { origin, authorization: "Bearer secret" }]) {
    const answer = await answerOf(guard, "http://localhost/tare/v1/sessions", { headers });
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
