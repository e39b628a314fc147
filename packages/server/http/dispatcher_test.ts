import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { request } from "../fixture_test.ts";
import { openapiDocument } from "../route_table.ts";
import { dispatcher } from "./dispatcher.ts";
import { errorResponse, HttpError } from "./http_error.ts";
import { checkedFetch } from "./openapi_fixture_test.ts";
import type { Route } from "./route.ts";

function serve(
  route: Partial<Route>,
  reported: unknown[] = [],
): (method: string, path: string, body?: unknown) => Promise<[number, unknown]> {
  const routes: Route[] = [{
    method: "POST",
    path: "/things/{kind}/{id}",
    operationId: "makeThing",
    summary: "Makes a thing.",
    responses: { 200: { description: "It.", content: { "application/json": {} } } },
    answer: () => new Response(),
    ...route,
  }];
  const options = {
    maxBodyBytes: 100,
    store: memoryStore(),
    respondAt: () => errorResponse,
    onError: (error: unknown) => reported.push(error),
  };
  const document = JSON.parse(JSON.stringify(openapiDocument(routes)));
  const fetch = checkedFetch(dispatcher(routes, options).answer, () => Promise.resolve(document));
  return async (method, path, body) => {
    const response = await fetch(request(method, path, body));
    return [response.status, await response.json()];
  };
}

Deno.test("dispatcher() passes path parameters and a valid body to the route", async () => {
  const send = serve({
    body: { type: "object", properties: { n: { type: "number" } } },
    answer: ({ path, body }) => Response.json({ ...path, body }),
  });
  assertEquals(await send("POST", "/things/a/b?c=d", { n: 1 }), [200, {
    kind: "a",
    id: "b",
    body: { n: 1 },
  }]);
  assertEquals((await send("POST", "/things/a/b", { n: "1" }))[0], 400);
  assertEquals((await send("POST", "/things/a"))[0], 404);
  assertEquals((await send("GET", "/things/a/b"))[0], 405);
});

Deno.test("dispatcher() doesn't read a body without a schema", async () => {
  const send = serve({
    answer: async ({ body, request }) => Response.json([body ?? null, await request.text()]),
  });
  assertEquals(await send("POST", "/things/a/b", "{"), [200, [null, "{"]]);
});

Deno.test("dispatcher() formats errors as the route does and reports only bugs to onError", async () => {
  const reported: unknown[] = [];
  const bug = new Error("bug");
  const thrown = [new HttpError(400, "invalid_request", "No."), bug];
  const send = serve({
    errors: {
      schema: { type: "object", properties: { oops: { type: "boolean" } }, required: ["oops"] },
      respond: (error) =>
        Response.json({ oops: true }, { status: error instanceof HttpError ? error.status : 500 }),
    },
    answer() {
      throw thrown.shift();
    },
  }, reported);
  assertEquals(await send("POST", "/things/a/b"), [400, { oops: true }]);
  assertEquals(await send("POST", "/things/a/b"), [500, { oops: true }]);
  assertEquals(reported, [bug]);
});

Deno.test("dispatcher() answers HEAD as GET and reports no errors after a disconnect", async () => {
  const reported: unknown[] = [];
  const route: Route = {
    method: "GET",
    path: "/thing",
    operationId: "getThing",
    summary: "Gives a thing.",
    responses: {},
    answer({ request: { method }, signal }) {
      if (signal.aborted) throw new Error("aborted");
      return Response.json({ method });
    },
  };
  const options = {
    maxBodyBytes: 100,
    store: memoryStore(),
    respondAt: () => errorResponse,
    onError: (error: unknown) => reported.push(error),
  };
  const { answer: fetch } = dispatcher([route], options);
  const head = await fetch(new Request("http://localhost/thing", { method: "HEAD" }));
  assertEquals([head.status, await head.json()], [200, { method: "HEAD" }]);
  const left = await fetch(new Request("http://localhost/thing"), { signal: AbortSignal.abort() });
  assertEquals([left.status, reported], [500, []]);
  const refused = await fetch(new Request("http://localhost/thing", { method: "DELETE" }));
  assertEquals([refused.status, refused.headers.get("allow")], [405, "GET, HEAD"]);
});
