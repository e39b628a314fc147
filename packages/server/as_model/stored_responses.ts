import { type Caller, Keys, type Store } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import type { JsonRecord } from "@tare/wire";
import { ApiError, type ResponseBody } from "@tare/wire/internal";
import { type Static, type TObject, Type } from "typebox";
import { json, route } from "../http/route.ts";
import { closed, COUNT, limitOf, optionalText, storedReader } from "../http/schema.ts";
import { API_ERRORS, unsupported } from "./errors.ts";
import type { ConversationPoint } from "./known_conversations.ts";
import { type InputItem, RESPONSE } from "./responses_schema.ts";

export interface StoredResponse {
  readonly response: ResponseBody;
  readonly point: ConversationPoint;
  /** Absent: not stored. */
  readonly input?: readonly JsonRecord[] | undefined;
}

const KIND = "response";

const readStored = storedReader(
  Type.Object({
    response: Type.Unsafe<ResponseBody>(RESPONSE),
    messages: COUNT,
    input: Type.Optional(Type.Array(Type.Unsafe<JsonRecord>(Type.Object({})))),
  }),
  "a response",
);

export function storedResponse(
  { response, point: { sessionId, messages }, input }: StoredResponse,
): StoreRecord {
  return { type: "document", kind: KIND, id: response.id, sessionId, value: { response, messages, input } };
}

function deletedResponse({ response, point: { sessionId } }: StoredResponse): StoreRecord {
  return { type: "document", kind: KIND, id: response.id, sessionId, value: null };
}

/** Returns a store without documents of sessions that the caller can't see. */
export function visibleTo(store: Store, caller: Caller): Store {
  if (Keys.nameOf(caller) === undefined) return store;
  return {
    ...store,
    async getDocument(kind, id) {
      const found = await store.getDocument(kind, id);
      const session = await store.getSession(found?.sessionId ?? "");
      return session && Keys.sees(caller, session.by) ? found : undefined;
    },
  };
}

export async function findResponse(store: Store, id: string): Promise<StoredResponse | undefined> {
  const document = await store.getDocument(KIND, id);
  if (!document?.value) return undefined;
  const { response, messages, input } = readStored(document.value);
  return { response, point: { sessionId: document.sessionId ?? "", messages }, input };
}

/** Returns a request's items as they are listed: with unique ids, and messages with parts. */
export function listedItems(items: readonly InputItem[], hex: string): readonly JsonRecord[] {
  const ids = new Set<unknown>();
  const own = (id: unknown, index: number): unknown => {
    let unique = id;
    // Clients may repeat ids or send generated ones.
    for (let made = index; unique === undefined || ids.has(unique); made += items.length) {
      unique = `in_${hex}_${made}`;
    }
    ids.add(unique);
    return unique;
  };
  return items.map((item, index): JsonRecord => {
    const { content } = item;
    const kind = item.role === "assistant" ? "output_text" : "input_text";
    const type = item.type ?? (item.role ? "message" : "item_reference");
    return {
      ...item,
      id: own(item.id, index),
      type,
      ...(type === "message" && {
        status: "completed",
        content: typeof content === "string" ? [{ type: kind, text: content }] : content ?? [],
      }),
    };
  });
}

const NO_RESPONSE = {
  400: "The request uses an unsupported feature.",
  404: "There is no such response.",
};

const ITEMS = closed({
  object: Type.Literal("list"),
  data: Type.Array(Type.Unsafe<JsonRecord>(Type.Object({ id: Type.String(), type: Type.String() }))),
  first_id: Type.Union([Type.String(), Type.Null()]),
  last_id: Type.Union([Type.String(), Type.Null()]),
  has_more: Type.Boolean(),
}, "ResponseItemList");

const ITEMS_QUERY = {
  limit: limitOf(100, 20, "Maximum number of items."),
  order: Type.Enum(["asc", "desc"], {
    default: "desc",
    description: "Order of the items; desc: the last one first.",
  }),
  after: optionalText("Id of the last item of the previous page."),
};

const DELETED = closed(
  {
    id: Type.String(),
    object: Type.Literal("response"),
    deleted: Type.Literal(true),
  },
  "DeletedResponse",
  { id: `resp_${"0".repeat(32)}`, object: "response", deleted: true },
);

export function storedResponseRoutes({ store }: { readonly store: Store }) {
  return [
    route({
      method: "GET",
      path: "/v1/responses/{id}",
      operationId: "getResponse",
      summary: "Returns a stored response.",
      responses: {
        200: json("The response.", RESPONSE),
        ...NO_RESPONSE,
      },
      errors: API_ERRORS,
      query: { stream: Type.Boolean({ default: false, description: "Must be false." }) },
      async answer({ query: { stream }, path: { id }, caller }) {
        // The provider may stream its own.
        const { response } = await find(visibleTo(store, caller), id);
        if (stream) {
          throw unsupported("stream", "only the request that creates a response can stream it");
        }
        return { json: response };
      },
    }),
    route({
      method: "DELETE",
      path: "/v1/responses/{id}",
      operationId: "deleteResponse",
      summary: "Deletes a stored response. Its session remains.",
      responses: {
        200: json("The response was deleted.", DELETED),
        ...NO_RESPONSE,
      },
      errors: API_ERRORS,
      async answer({ path: { id }, caller }) {
        await store.commit([deletedResponse(await find(visibleTo(store, caller), id))]);
        return { json: { id, object: "response", deleted: true } as const };
      },
    }),
    route({
      method: "GET",
      path: "/v1/responses/{id}/input_items",
      operationId: "listInputItems",
      summary: "Lists the input items of a stored response, the last one first.",
      query: ITEMS_QUERY,
      responses: {
        200: json("The items.", ITEMS),
        ...NO_RESPONSE,
      },
      errors: API_ERRORS,
      async answer({ query, path: { id }, caller }) {
        const { input } = await find(visibleTo(store, caller), id);
        if (!input) {
          throw missing("id", `Cannot list the input of response ${JSON.stringify(id)}: it isn't stored.`);
        }
        return { json: page(input, query) };
      },
    }),
  ];
}

function page(
  input: readonly JsonRecord[],
  { order, limit, after }: Static<TObject<typeof ITEMS_QUERY>>,
): Static<typeof ITEMS> {
  const items = order === "asc" ? input : input.toReversed();
  const at = after === undefined ? -1 : items.findIndex(({ id }) => id === after);
  if (after !== undefined && at < 0) {
    throw missing("after", `Cannot find item ${JSON.stringify(after)}: it doesn't exist.`);
  }
  const data = items.slice(at + 1, at + 1 + limit);
  return {
    object: "list",
    data,
    first_id: idOf(data[0]),
    last_id: idOf(data.at(-1)),
    has_more: at + 1 + limit < items.length,
  };
}

function idOf(item: JsonRecord | undefined): string | null {
  return item ? String(item.id) : null;
}

async function find(store: Store, id: string): Promise<StoredResponse> {
  const stored = await findResponse(store, id);
  if (stored) return stored;
  const message = `Cannot find response ${JSON.stringify(id)}: it isn't stored.`;
  throw new ApiError(404, message, { code: "response_not_found", param: "id" });
}

function missing(param: string, message: string): ApiError {
  return new ApiError(404, message, { code: "item_not_found", param });
}
