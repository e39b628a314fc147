import { assertEquals, assertThrows } from "@std/assert";
import { withStore } from "./fixture_test.ts";

Deno.test("documents keeps one document for each kind and id, until its session goes", () =>
  withStore(({ documents, deleteSession }) => {
    const first = { kind: "response", id: "r", sessionId: "a", value: { output: [] } };
    const other = { kind: "conversation", id: "r", sessionId: "b", value: null };
    documents.put(first);
    documents.put(other);
    assertEquals([documents.get("response", "r"), documents.get("conversation", "r")], [first, other]);
    assertEquals([documents.get("response", "none"), documents.get("none", "r")], [undefined, undefined]);
    const second = { ...first, sessionId: "b", value: 2 };
    documents.put(second);
    deleteSession("a");
    assertEquals(documents.get("response", "r"), second);
    deleteSession("b");
    assertEquals([documents.get("response", "r"), documents.get("conversation", "r")], [
      undefined,
      undefined,
    ]);
  }));

Deno.test("documents refuses a document of a session that isn't there", () =>
  withStore(({ documents }) => {
    const document = { kind: "response", id: "r", sessionId: "none", value: 1 };
    assertThrows(() => documents.put(document), Error, 'Cannot find session "none"');
    assertEquals(documents.get("response", "r"), undefined);
  }));
