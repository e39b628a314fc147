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
  assertEquals(
    faults({}),
    "the body must have required property 'input'; the body must have required property 'continue'; " +
      "the body must match a schema in anyOf",
  );
  assertEquals(faults({ continue: true, budget: { max_steps: 3 } }), undefined);
  assertEquals(faults({ continue: true, input: "a" }), "the body must NOT be valid");
  assertEquals(faults({ input: "a", budget: { max_steps: 0 } }), "budget.max_steps must be >= 1");
  assertEquals(faults({ input: "" }), "input must NOT have fewer than 1 characters");
  assertEquals(faults({ input: [] }), "input must NOT have fewer than 1 items");
  assertEquals(faults({ input: 3 }), "input must be string,array");
  assertEquals(faults({ input: [{ type: "text" }] }), "input.0 must have required property 'text'");
  assertEquals(faults({ input: "a", more: 1 }), "the body must NOT have additional properties ('more')");
});

Deno.test("CREATE_SESSION takes nothing but its own fields", () => {
  const faults = schemaChecker(CREATE_SESSION, "the body");
  assertEquals(faults({}), undefined);
  assertEquals(
    faults({ instructions: "", model: "m", tools: ["a"], metadata: { k: "v" }, budget: { max_cost: 1 } }),
    undefined,
  );
  assertEquals(faults({ model: 1 }), "model must be string");
  assertEquals(faults({ tool: [] }), "the body must NOT have additional properties ('tool')");
});
