import { assertEquals } from "@std/assert";
import { Keys } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import type { HttpOptions } from "@tare/server";
import { allowedHosts } from "@tare/server/internal";
import { guard } from "./guard.ts";
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

Deno.test("guard() requires a key on every route but /health", async () => {
  const options = { keys: KEYS };
  const { status, body, headers } = await answerOf(options, "http://localhost/tare/v1/sessions");
  assertEquals(
    { status, body },
    error(
      401,
      "unauthorized",
      "Unauthorized: send a server key as `Authorization: Bearer KEY`. " +
        "The owner's key is in owner.json in the server's data folder, or is the server's TARE_TOKEN; commands send " +
        "their own TARE_TOKEN.",
    ),
  );
  assertEquals(headers.get("www-authenticate"), "Bearer");
  assertEquals(
    await statusOf(options, "http://localhost/tare/v1/sessions", { authorization: "Bearer wrong" }),
    401,
  );
  assertEquals(
    await statusOf(options, "http://localhost/tare/v1/sessions", { authorization: "Bearer secret" }),
    200,
  );
  assertEquals(await statusOf(options, "http://localhost/none"), 401);
  assertEquals(await statusOf(options, "http://localhost/health"), 200);
});

Deno.test("guard() accepts the key with any spelling of the scheme and nothing else", async () => {
  const by = (authorization: string) =>
    statusOf({ keys: KEYS }, "http://localhost/tare/v1/sessions", { authorization });
  for (const right of ["Bearer secret", "bearer secret", "BEARER  secret"]) {
    assertEquals(await by(right), 200);
  }
  for (const wrong of ["", "Bearer", "Bearer ", "secret", "Basic secret", "Bearer secre", "Bearer secrets"]) {
    assertEquals(await by(wrong), 401, wrong);
  }
});

Deno.test("guard() serves public files without a key, only for reading", async () => {
  const file = ({ method }: Request) => new Response(method === "HEAD" ? null : "A page.");
  const { fetch } = agent(scriptedModel([]), { keys: KEYS, files: new Map([["/", file], ["/a.css", file]]) });
  const reported = async (method: string, path: string, key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch(new Request(`http://localhost${path}`, { method, headers }));
    return [response.status, response.ok ? await response.text() : (await response.json()).error.code];
  };
  assertEquals(
    await Promise.all([reported("GET", "/"), reported("HEAD", "/a.css"), reported("GET", "/?x")]),
    [
      [200, "A page."],
      [200, ""],
      [200, "A page."],
    ],
  );
  assertEquals(
    await Promise.all([reported("POST", "/"), reported("GET", "/b.css"), reported("GET", "/constructor")]),
    [
      [401, "unauthorized"],
      [401, "unauthorized"],
      [401, "unauthorized"],
    ],
  );
  assertEquals(await Promise.all([reported("POST", "/", "secret"), reported("GET", "/b.css", "secret")]), [
    [404, "not_found"],
    [404, "not_found"],
  ]);
});

Deno.test("guard() accepts the key in agents' headers and forwards other keys", async () => {
  const keys = new Keys({ store: memoryStore(), owners: ["secret"] });
  const secret = await keys.add({ name: "alice", routes: ["gateway"] });
  const seen: unknown[] = [];
  const guarded = guard((request, { caller }) => {
    seen.push([caller.name, Object.fromEntries(request.headers)]);
    return Promise.resolve(new Response());
  }, { keys, guests: true, isPublic: () => false, onError: () => {} });
  const ask = async (headers: Headers) =>
    (await guarded(new Request("http://localhost/v1/messages", { headers }))).status;
  const theirs = { authorization: "Bearer sk-theirs", "x-api-key": "sk-other" };
  assertEquals(await ask({ "x-api-key": secret }), 200);
  assertEquals(await ask({ "x-api-key": "sk-other", authorization: `Bearer ${secret}` }), 200);
  assertEquals(await ask({ ...theirs, "x-tare-key": secret }), 200);
  assertEquals(await ask({ ...theirs, "x-tare-key": "secret" }), 200);
  assertEquals(await ask(theirs), 200);
  assertEquals(seen, [
    ["alice", {}],
    ["alice", { "x-api-key": "sk-other" }],
    ["alice", theirs],
    ["owner", theirs],
    ["guest", theirs],
  ]);
  // A removed key never reaches a provider.
  await keys.remove("alice");
  assertEquals(await Promise.all([{ "x-api-key": secret }, { authorization: `Bearer ${secret}` }].map(ask)), [
    401,
    401,
  ]);
  assertEquals(await ask({ ...theirs, "x-tare-key": "wrong" }), 401);
  assertEquals(seen.length, 5);
});

Deno.test("guard() refuses requests from other sites, images and links included, for every caller", async () => {
  const origins = ["https://chat.example"];
  for (const site of ["cross-site", "same-site"]) {
    const headers = { "sec-fetch-site": site, authorization: "Bearer secret" };
    for (
      const path of [
        "/tare/v1/backup",
        "/tare/v1/sessions",
        "/tare/v1/agent",
        "/openapi.json",
        "/tare/v1/key",
      ]
    ) {
      const { status, body } = await answerOf({ keys: KEYS, guests: true }, `http://localhost${path}`, {
        headers,
      });
      assertEquals([status, body.error.code], [403, "origin_not_allowed"], path);
    }
    // Health checks are allowed from any site, and configured pages are.
    assertEquals(await statusOf({ keys: KEYS }, "http://localhost/health", { "sec-fetch-site": site }), 200);
    const configured = { ...headers, origin: "https://chat.example" };
    assertEquals(
      await statusOf({ keys: KEYS, origins }, "http://localhost/tare/v1/sessions", configured),
      200,
    );
  }
  for (const site of ["same-origin", "none"]) {
    const headers = { "sec-fetch-site": site, authorization: "Bearer secret" };
    assertEquals(await statusOf({ keys: KEYS }, "http://localhost/tare/v1/sessions", headers), 200);
  }
});

Deno.test("guard() accepts only its own hosts, for /health too", async () => {
  assertEquals(await statusOf(undefined, "http://127.0.0.1:8787/health"), 200);
  assertEquals(await statusOf(undefined, "http://evil.example/health"), 421);
  assertEquals(await statusOf({ hosts: allowedHosts("agent.example") }, "http://agent.example/health"), 200);
  assertEquals(await statusOf({ hosts: allowedHosts("agent.example") }, "http://localhost/health"), 421);
});

Deno.test("guard() refuses headers over the limit", async () => {
  const limits = { maxHeaderBytes: 100 };
  // Name, value, colon, space and line break count.
  assertEquals(await statusOf(limits, "http://localhost/health", { a: "x".repeat(95) }), 200);
  const { status, body } = await answerOf(limits, "http://localhost/health", {
    headers: { a: "x".repeat(96) },
  });
  assertEquals(
    { status, body },
    error(431, "headers_too_large", "Request header fields too large: more than 100 bytes."),
  );
});

Deno.test("guard() forbids browsers to guess the type of an answer", async () => {
  assertEquals(
    (await answerOf(undefined, "http://localhost/health")).headers.get("x-content-type-options"),
    "nosniff",
  );
});
