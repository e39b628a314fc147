import type { Store, StoreRecord } from "@tare/conversation";
import { ApiError, type JsonRecord, type ResponseBody } from "@tare/wire";
import { Type } from "typebox";
import { errorResponses } from "../http/http_error.ts";
import { queryNumber } from "../http/query_number.ts";
import { type Route, route } from "../http/route.ts";
import { closed } from "../http/schema.ts";
import { API_ERROR, API_ERRORS, unsupported } from "./errors.ts";
import type { ConversationPoint } from "./known_conversations.ts";
import { type InputItem, RESPONSE } from "./responses_schema.ts";

/** A response that can be read later and be followed. */
export interface StoredResponse {
  readonly response: ResponseBody;
  /** Where its session stood after it. */
  readonly point: ConversationPoint;
  /** What its request brought; absent of one that was stored before that was kept. */
  readonly input?: readonly JsonRecord[] | undefined;
}

const KIND = "response";

/** The record that keeps a response. */
export function storedResponse(
  { response, point: { sessionId, messages }, input }: StoredResponse,
): StoreRecord {
  return { type: "document", kind: KIND, id: response.id, sessionId, value: { response, messages, input } };
}

/** The record that forgets a response: its session stays. */
function deletedResponse({ response, point: { sessionId } }: StoredResponse): StoreRecord {
  return { type: "document", kind: KIND, id: response.id, sessionId, value: null };
}

/** The stored response of this name, or nothing if there is none. */
export async function findResponse(store: Store, id: string): Promise<StoredResponse | undefined> {
  const document = await store.getDocument(KIND, id);
  if (!document?.value) return undefined;
  const { response, messages, input } = document.value as {
    readonly response: ResponseBody;
    readonly messages: number;
    readonly input?: readonly JsonRecord[];
  };
  return { response, point: { sessionId: document.sessionId, messages }, input };
}

/** The items of a request as they are listed later: each with a name, messages with their parts. */
export function listedItems(items: readonly InputItem[], hex: string): readonly JsonRecord[] {
  return items.map((item, index): JsonRecord => {
    const { content } = item;
    const kind = item.role === "assistant" ? "output_text" : "input_text";
    const type = item.type ?? (item.role ? "message" : "item_reference");
    return {
      ...item,
      id: item.id ?? `in_${hex}_${index}`,
      type,
      ...(type === "message" && {
        status: "completed",
        content: typeof content === "string" ? [{ type: kind, text: content }] : content ?? [],
      }),
    };
  });
}

const LIMIT = queryNumber({
  name: "limit",
  says: "Most items in the answer.",
  usual: 20,
  least: 1,
  most: 100,
});

const NO_RESPONSE = errorResponses({
  400: "The request asks for what isn't supported.",
  404: "There is no such response.",
}, API_ERROR);

const ITEMS = closed({
  object: Type.Literal("list"),
  data: Type.Array(Type.Object({ id: Type.String(), type: Type.String() })),
  first_id: Type.Union([Type.String(), Type.Null()]),
  last_id: Type.Union([Type.String(), Type.Null()]),
  has_more: Type.Boolean(),
}, "ResponseItemList");

const DELETED = closed(
  {
    id: Type.String(),
    object: Type.Literal("response"),
    deleted: Type.Literal(true),
  },
  "DeletedResponse",
  { id: `resp_${"0".repeat(32)}`, object: "response", deleted: true },
);

/** The routes that show and forget stored responses, and list what their requests brought. */
export function storedResponseRoutes({ store }: { readonly store: Store }): readonly Route[] {
  return [
    route({
      method: "GET",
      path: "/v1/responses/{id}",
      operationId: "getResponse",
      summary: "Gives a stored response.",
      responses: {
        200: { description: "The response.", content: { "application/json": RESPONSE } },
        ...NO_RESPONSE,
      },
      errors: API_ERRORS,
      async answer({ request, path: { id = "" } }) {
        if (new URL(request.url).searchParams.get("stream") === "true") {
          throw unsupported("stream", "only the request that makes a response can stream it");
        }
        return { json: (await find(store, id)).response };
      },
    }),
    route({
      method: "DELETE",
      path: "/v1/responses/{id}",
      operationId: "deleteResponse",
      summary: "Forgets a stored response. Its session stays.",
      responses: {
        200: { description: "It is gone.", content: { "application/json": DELETED } },
        ...NO_RESPONSE,
      },
      errors: API_ERRORS,
      async answer({ path: { id = "" } }) {
        await store.commit([deletedResponse(await find(store, id))]);
        return { json: { id, object: "response", deleted: true } };
      },
    }),
    route({
      method: "GET",
      path: "/v1/responses/{id}/input_items",
      operationId: "listInputItems",
      summary: "Lists what the request for a stored response brought, the last item first.",
      parameters: [
        LIMIT.parameter,
        {
          name: "order",
          in: "query",
          description: "Whether the last item comes first. Default: desc.",
          schema: Type.Enum(["asc", "desc"]),
        },
        {
          name: "after",
          in: "query",
          description: "Id of the last item of the page before.",
          schema: Type.String(),
        },
      ],
      responses: {
        200: { description: "The items.", content: { "application/json": ITEMS } },
        ...NO_RESPONSE,
      },
      errors: API_ERRORS,
      async answer({ request, path: { id = "" } }) {
        const { input } = await find(store, id);
        if (!input) {
          throw missing("id", `Cannot list the input of response ${JSON.stringify(id)}: it wasn't kept.`);
        }
        return { json: page(input, request) };
      },
    }),
  ];
}

function page(input: readonly JsonRecord[], request: Request): object {
  const query = new URL(request.url).searchParams;
  const order = query.get("order") ?? "desc";
  if (order !== "asc" && order !== "desc") {
    const message = `Cannot list the items: order is ${JSON.stringify(order)}, and asc or desc is wanted.`;
    throw new ApiError(400, message, { code: "invalid_request", param: "order" });
  }
  const limit = LIMIT.read(request, "list the items");
  const items = order === "asc" ? input : input.toReversed();
  const after = query.get("after");
  const at = after === null ? -1 : items.findIndex(({ id }) => id === after);
  if (after !== null && at < 0) {
    throw missing("after", `Cannot find item ${JSON.stringify(after)}: there is none.`);
  }
  const data = items.slice(at + 1, at + 1 + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: at + 1 + limit < items.length,
  };
}

async function find(store: Store, id: string): Promise<StoredResponse> {
  const stored = await findResponse(store, id);
  if (stored) return stored;
  const message = `Cannot find response ${JSON.stringify(id)}: there is none stored.`;
  throw new ApiError(404, message, { code: "response_not_found", param: "id" });
}

function missing(param: string, message: string): ApiError {
  return new ApiError(404, message, { code: "item_not_found", param });
}
