import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { agent, call, request, scriptedModel } from "../fixture_test.ts";
import { openapiDocument } from "../route_table.ts";
import { checkedFetch, type OpenapiDocument } from "./openapi_fixture_test.ts";
import type { Route } from "./route.ts";

const route: Route = {
  method: "GET",
  path: "/things/{id}",
  operationId: "getThing",
  summary: "Shows a thing.",
  responses: {
    200: {
      description: "The thing.",
      content: {
        "application/json": { title: "Thing", type: "object", properties: { name: { type: "string" } } },
        "text/event-stream": { title: "Change", enum: [1, 2] },
      },
    },
    204: { description: "There is none." },
  },
  answer: () => new Response(),
};

Deno.test("openapiDocument() describes each route, its errors, and each titled schema once", () => {
  const post: Route = {
    ...route,
    method: "POST",
    operationId: "putThing",
    isPublic: true,
    body: { title: "Thing", type: "object", properties: { name: { type: "string" } } },
    responses: { 409: { description: "It is taken." } },
  };
  const { paths, components, ...rest } = openapiDocument([route, post]) as Record<
    string,
    // deno-lint-ignore no-explicit-any
    any
  >;
  assertEquals([rest.openapi, rest.info.title, rest.security], ["3.1.1", "Tare agent server", [
    { token: [] },
    {},
  ]]);
  const { get, post: posted } = paths["/things/{id}"];
  assertEquals(get.parameters, [{ name: "id", in: "path", required: true, schema: { type: "string" } }]);
  assertEquals(get.responses[200].content, {
    "application/json": { schema: { $ref: "#/components/schemas/Thing" } },
    "text/event-stream": { schema: { $ref: "#/components/schemas/Change" } },
  });
  assertEquals(get.responses[204], { description: "There is none." });
  assertEquals(Object.keys(get.responses).map(Number), [
    200,
    204,
    400,
    401,
    403,
    421,
    429,
    431,
    500,
    503,
    507,
  ]);
  assertEquals(Object.keys(posted.responses).map(Number), [400, 403, 409, 413, 415, 421, 422, 431, 500]);
  assertEquals([posted.responses[409].description, posted.security], ["It is taken.", []]);
  assertEquals(posted.requestBody.content["application/json"].schema, { $ref: "#/components/schemas/Thing" });
  assertEquals(posted.parameters[1].name, "Idempotency-Key");
  assertEquals(Object.keys(components.schemas).sort(), ["Change", "Error", "Thing"]);
});

Deno.test("openapiDocument() refuses two schemas of one title", () => {
  const other: Route = { ...route, method: "POST", body: { title: "Thing" } };
  assertThrows(() => openapiDocument([route, other]), Error, "two different schemas have the title Thing");
});

Deno.test("openapiDocument() of the agent server has complete references and unique operation ids", async () => {
  const { body } = await call(agent(scriptedModel([])), "GET", "/openapi.json");
  const { paths, components } = body as OpenapiDocument;
  const references = JSON.stringify(body).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g);
  assertEquals([...references].filter(([, name]) => !components.schemas[name ?? ""]), []);
  const ids = Object.values(paths).flatMap((path) => Object.values(path)).map((operation) =>
    (operation as unknown as { operationId: string }).operationId
  );
  assertEquals(new Set(ids).size, ids.length);
});

const document = JSON.parse(JSON.stringify(openapiDocument([route])));

function checked(response: Response, path = "/things/1", method = "GET"): Promise<Response> {
  const fetch = checkedFetch(() => Promise.resolve(response), () => Promise.resolve(document));
  return fetch(request(method, path));
}

const sse = (text: string) => new Response(text, { headers: { "content-type": "text/event-stream" } });

Deno.test("checkedFetch() passes documented answers unchanged", async () => {
  assertEquals(await (await checked(Response.json({ name: "a" }))).json(), { name: "a" });
  assertEquals((await checked(new Response(null, { status: 204 }))).status, 204);
  const events = "id: 1\ndata: 1\n\n: heartbeat\n\ndata: 2\n\n";
  assertEquals(await (await checked(sse(events))).text(), events);
  const expected = { error: { status: 404, code: "not_found", message: "No." } };
  assertEquals(await (await checked(Response.json(expected, { status: 404 }), "/none")).json(), expected);
});

Deno.test("checkedFetch() throws for an undocumented status, type, body, event or route", async () => {
  const cases: [Response, string, path?: string, method?: string][] = [
    [Response.json({}, { status: 201 }), "answered 201: that status isn't documented"],
    [new Response("a"), "answered 200 with text/plain, which isn't documented"],
    [new Response(null), "answered 200 with undefined, which isn't documented"],
    [Response.json({ name: 1 }), "with an undocumented body: name must be string"],
    [
      Response.json({}, { status: 401 }),
      "with an undocumented body: the value must have required property 'error'",
    ],
    [Response.json({}), "no such operation", "/none"],
    [Response.json({}), "no such operation", "/things/1", "PUT"],
  ];
  for (const [response, message, path, method] of cases) {
    await assertRejects(() => checked(response, path, method), Error, message);
  }
  for (
    const [text, message] of [["data: 3\n\n", "undocumented event"], ["data: 1", "broke off"], [
      "x: 1\n\n",
      "no event",
    ]]
  ) {
    const response = await checked(sse(text!));
    await assertRejects(() => response.text(), Error, message);
  }
});

Deno.test("checkedFetch() wraps every agent server in this package's tests", async () => {
  const makers: string[] = [];
  const search = async (folder: URL): Promise<void> => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      if (isDirectory) await search(new URL(`${name}/`, folder));
      if (!name.endsWith("_test.ts")) continue;
      const text = await Deno.readTextFile(new URL(name, folder));
      if (/^import [^;]*\bagentHandler\b[^;]* from/m.test(text) || /import\(/.test(text)) makers.push(name);
    }
  };
  await search(new URL("../", import.meta.url));
  assertEquals(makers, ["fixture_test.ts"]);
});
