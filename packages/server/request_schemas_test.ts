import { assertEquals } from "@std/assert";
import { schemaChecker } from "@tare/messages/arguments";
import { CREATE_SESSION, START_TURN } from "./request_schemas.ts";

Deno.test("START_TURN takes text or parts and names what is wrong with others", () => {
  const faults = schemaChecker(START_TURN, "the body");
  for (
    const input of ["hello", [{ type: "text", text: "" }], [{ type: "image_url", image_url: { url: "x" } }], [
      {
        type: "file",
        file: { file_id: "f" },
      },
    ]]
  ) assertEquals(faults({ input }), undefined);
  assertEquals(faults({}), "the body must have required property 'input'");
  assertEquals(faults({ input: "" }), "input must NOT have fewer than 1 characters");
  assertEquals(faults({ input: [] }), "input must NOT have fewer than 1 items");
  assertEquals(faults({ input: 3 }), "input must be string,array");
  assertEquals(faults({ input: [{ type: "text" }] }), "input.0 must have required property 'text'");
  assertEquals(faults({ input: "a", steer: 1 }), "the body must NOT have additional properties ('steer')");
});

Deno.test("CREATE_SESSION takes nothing but its four fields", () => {
  const faults = schemaChecker(CREATE_SESSION, "the body");
  assertEquals(faults({}), undefined);
  assertEquals(faults({ instructions: "", model: "m", tools: ["a"], metadata: { k: "v" } }), undefined);
  assertEquals(faults({ model: 1 }), "model must be string");
  assertEquals(faults({ tool: [] }), "the body must NOT have additional properties ('tool')");
});
