import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/store";
import { emptyResponse } from "./openai_response.ts";
import { findResponse, storeResponse } from "./stored_response.ts";

Deno.test("storeResponse() keeps a response and where its session stood, as long as the session is there", () => {
  const store = memoryStore();
  store.createSession({ id: "s", createdAtMs: 0, settings: {} });
  const response = emptyResponse({ model: "agent", input: "q" }, { id: "resp_1", createdAtMs: 0 });
  const stored = { response, point: { sessionId: "s", messages: 3 } };
  storeResponse(store.documents, stored);
  assertEquals(findResponse(store.documents, "resp_1"), stored);
  assertEquals(findResponse(store.documents, "resp_2"), undefined);
  store.deleteSession("s");
  assertEquals(findResponse(store.documents, "resp_1"), undefined);
});
