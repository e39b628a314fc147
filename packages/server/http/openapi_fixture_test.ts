/**
 * Checks every answer of a handler against its OpenAPI document. Contains no tests.
 * @module
 */
import type { JsonSchema } from "@tare/messages";
import { schemaChecker } from "@tare/loop/internal";
import type { HttpAgent } from "@tare/server";

type Fetch = HttpAgent["fetch"];
type Check = (value: unknown) => string | undefined;

interface Media {
  readonly schema: JsonSchema;
}

interface Operation {
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>;
}

/** The checked part of an OpenAPI document. */
export interface OpenapiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

/** Statuses of the guard and the dispatcher for requests without an operation. */
const WITHOUT_OPERATION = { unknownPath: [401, 403, 404, 421, 431], otherMethod: [401, 403, 405, 421, 431] };

/**
 * Wraps a handler's `fetch` so that it, or reading its body, throws if the status, content type, JSON body or event
 * data isn't documented. With `forwardsTo`, answers to unknown operations may be a provider's.
 */
export function checkedFetch(
  fetch: Fetch,
  document: () => Promise<OpenapiDocument>,
  { forwardsTo = false }: { readonly forwardsTo?: boolean } = {},
): Fetch {
  return async (request, client) => {
    const response = await fetch(request, client);
    const { status } = response;
    const answered = `${request.method} ${new URL(request.url).pathname} answered ${status}`;
    const { paths, components } = await document();
    const checker = (schema: JsonSchema) => checkerOf({ ...schema, components });
    const path = paths[new URL(request.url).pathname] ??
      Object.entries(paths).find(([template]) => matches(template, request))?.[1];
    const operation = path?.[request.method === "HEAD" ? "get" : request.method.toLowerCase()];
    if (!operation) {
      if (forwardsTo && isAnothers(request)) return response;
      if (request.method === "OPTIONS" && status === 204) return response;
      const { unknownPath, otherMethod } = WITHOUT_OPERATION;
      if (!(path ? otherMethod : unknownPath).includes(status)) {
        throw new Error(`${answered}: no such operation`);
      }
      return await checkJson(response, checker(errorSchema(request, status)), answered);
    }
    const documented = operation.responses[status] ?? operation.responses.default;
    if (!documented) throw new Error(`${answered}: that status isn't documented`);
    const type = response.headers.get("content-type")?.split(";")[0];
    if (!documented.content) {
      if (response.body !== null) throw new Error(`${answered} with a body, which isn't documented`);
      return response;
    }
    const media = type === undefined ? undefined : documented.content[type] ?? documented.content["*/*"];
    if (!media) throw new Error(`${answered} with ${type}, which isn't documented`);
    if (type === "application/json") return await checkJson(response, checker(media.schema), answered);
    if (type === "application/x-ndjson") return await checkLines(response, checker(media.schema), answered);
    if (type === "text/event-stream") return checkEvents(response, checker(media.schema), answered);
    return response;
  };
}

function isAnothers({ url }: Request): boolean {
  const { pathname } = new URL(url);
  return pathname === "/" || pathname.startsWith("/v1/");
}

/** The guard uses the server's error shape; the dispatcher, that of the path's clients. */
function errorSchema({ url }: Request, status: number): JsonSchema {
  const { pathname } = new URL(url);
  const isTheirs = (status === 404 || status === 405) &&
    pathname.startsWith("/v1/");
  if (!isTheirs) return { $ref: "#/components/schemas/Error" };
  return pathname.startsWith("/v1/messages") ? MESSAGES_ERROR : { $ref: "#/components/schemas/OpenaiError" };
}

const MESSAGES_ERROR: JsonSchema = {
  type: "object",
  properties: { type: { const: "error" }, error: { required: ["type", "message"] } },
  required: ["type", "error"],
};

const checkers = new Map<string, Check>();

function checkerOf(schema: JsonSchema): Check {
  const name = JSON.stringify(schema);
  const checker = checkers.get(name) ?? schemaChecker(schema, undefined, { trusted: true });
  checkers.set(name, checker);
  return checker;
}

function matches(template: string, { url }: Request): boolean {
  return new URLPattern({ pathname: template.replaceAll(/\{(\w+)\}/g, ":$1") }).test({
    pathname: new URL(url).pathname,
  });
}

async function checkJson(response: Response, check: Check, answered: string): Promise<Response> {
  const text = await response.text();
  const faults = check(JSON.parse(text));
  if (faults !== undefined) throw new Error(`${answered} with an undocumented body: ${faults}\n${text}`);
  return new Response(text, response);
}

async function checkLines(response: Response, check: Check, answered: string): Promise<Response> {
  const text = await response.text();
  for (const line of text.split("\n").slice(0, -1)) {
    const faults = check(JSON.parse(line));
    if (faults !== undefined) throw new Error(`${answered} with an undocumented line: ${faults}\n${line}`);
  }
  return new Response(text, response);
}

function checkEvents(response: Response, check: Check, answered: string): Response {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) {
        if (rest !== "") throw new Error(`${answered} and broke off in an event: ${rest}`);
        return controller.close();
      }
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = blocks.pop()!;
      for (const block of blocks) {
        const data = /^data: (.*)$/m.exec(block)?.[1];
        if (data === undefined && !block.startsWith(":")) {
          throw new Error(`${answered} with no event: ${block}`);
        }
        const faults = data === undefined ? undefined : check(data === "[DONE]" ? data : JSON.parse(data));
        if (faults !== undefined) {
          throw new Error(`${answered} with an undocumented event: ${faults}\n${data}`);
        }
      }
      controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  return new Response(body, response);
}
