import { assertEquals } from "@std/assert";
import {
  deferTools,
  type JsonReader,
  MESSAGES_PROTOCOL,
  type Protocol,
  PROTOCOLS,
  readJsonAt,
  readRequest,
  readWireBody,
  toolsInFront,
  writeRequest,
} from "@tare/wire/internal";

const reader: JsonReader<never> = {
  read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) as never }),
};
const MARK = { cache_control: { type: "ephemeral", ttl: "1h" } };
const tool = (name: string, more: object = {}) => ({ name, input_schema: { type: "object" }, ...more });

function read(body: object, protocol: Protocol = MESSAGES_PROTOCOL) {
  const bytes = new TextEncoder().encode(JSON.stringify({ model: "m", messages: [], ...body }));
  return readRequest(readWireBody(bytes), protocol, { items: reader, tools: reader });
}

function deferred(body: object, inFront: readonly string[]): unknown {
  const { request } = deferTools(read(body), (name) => inFront.includes(name))!;
  const written = writeRequest(request, {
    items: [],
    messages: [],
    places: [],
    tools: toolsInFront(request),
  });
  return JSON.parse(new TextDecoder().decode(written)).tools;
}

const SEARCH = { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" };

Deno.test("deferTools() defers functions in place, adds the search last and moves a lost breakpoint to it", () => {
  const later = { defer_loading: true };
  const bash = { type: "bash_20250124", name: "bash" };
  assertEquals(deferred({ tools: [tool("a"), bash, tool("b"), tool("c")] }, ["b"]), [
    tool("a", later),
    bash,
    tool("b"),
    tool("c", later),
    SEARCH,
  ]);
  assertEquals(deferred({ tools: [tool("a"), tool("b", MARK)] }, ["a"]), [
    tool("a"),
    tool("b", later),
    { ...SEARCH, ...MARK },
  ]);
  // A tool in front keeps it.
  assertEquals(deferred({ tools: [tool("b", MARK), tool("a", MARK)] }, ["a"]), [
    tool("b", later),
    tool("a", MARK),
    SEARCH,
  ]);
  const odd = {
    name: "b",
    input_schema: { type: "object", properties: { cache_control: { type: "string" } } },
  };
  assertEquals(deferred({ tools: [tool("a"), { ...odd, ...MARK }] }, ["a"]), [
    tool("a"),
    { ...odd, ...later },
    { ...SEARCH, ...MARK },
  ]);
});

Deno.test("deferTools() keeps the only callable tool in front, and does nothing without a search", () => {
  const tools = [tool("a"), tool("b")];
  const choice = (name: string) => ({ tool_choice: { type: "tool", name } });
  assertEquals(deferred({ tools, ...choice("b") }, []), [
    tool("a", { defer_loading: true }),
    tool("b"),
    SEARCH,
  ]);
  assertEquals(deferTools(read({ tools }), () => true), undefined);
  assertEquals(deferTools(read({}), () => false), undefined);
  const chat = tools.map(({ name, input_schema: parameters }) => ({
    type: "function",
    function: { name, parameters },
  }));
  const CHAT = PROTOCOLS.find(({ name }) => name === "chat")!;
  assertEquals(deferTools(read({ tools: chat }, CHAT), () => false), undefined);
});
