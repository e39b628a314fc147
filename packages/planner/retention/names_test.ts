import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { namesToKeep, unseenNames } from "./names.ts";

const countTokens = (text: string) => Math.ceil(text.length / 4);

function keep(text: string, { worth = 0.2, shown = [] as readonly Message[] } = {}): string[] {
  const unseen = unseenNames([{ role: "tool", tool_call_id: "1", content: text }], shown);
  return namesToKeep(text, { countTokens, worth, unseen });
}

Deno.test("namesToKeep() keeps what is said nowhere else, the most said and shortest first", () => {
  const text = "parseHeader calls readBuffer; parseHeader is in src/http/parser.ts. short words go.";
  assertEquals(keep(text), ["parseHeader", "readBuffer", "src/http/parser.ts."]);
});

Deno.test("namesToKeep() leaves out what the model sees elsewhere, in texts or arguments, and what it kept before", () => {
  const call: Message = {
    role: "assistant",
    tool_calls: [{
      id: "1",
      type: "function",
      function: { name: "f", arguments: '{"path":"src/http/parser.ts."}' },
    }],
  };
  const shown: Message[] = [{ role: "user", content: "Fix parseHeader!" }, call];
  assertEquals(keep("parseHeader readBuffer src/http/parser.ts.", { shown }), ["readBuffer"]);
  const unseen = unseenNames([{ role: "user", content: "readBuffer" }], []);
  const again = () => namesToKeep("readBuffer", { countTokens, worth: 0.2, unseen });
  assertEquals([again(), again()], [["readBuffer"], []]);
});

Deno.test("namesToKeep() leaves out long names, unless they are said often", () => {
  const long = "a/very/long/path/to/some/module.ts";
  assertEquals([keep(long), keep(`${long} `.repeat(4))], [[], [long]]);
});
