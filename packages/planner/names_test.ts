import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { namesToKeep, shownNames } from "./names.ts";

const countTokens = (text: string) => Math.ceil(text.length / 4);

function keep(text: string, { worth = 0.2, shown = [] as readonly Message[] } = {}): string[] {
  const hashes = new Set(shown.flatMap((message) => [...shownNames(message)]));
  return namesToKeep(text, { countTokens, worth, shown: hashes });
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
  const hashes = new Set<number>();
  const again = () => namesToKeep("readBuffer", { countTokens, worth: 0.2, shown: hashes });
  assertEquals([again(), again()], [["readBuffer"], []]);
});

Deno.test("namesToKeep() leaves out long names, unless they are said often", () => {
  const long = "a/very/long/path/to/some/module.ts";
  assertEquals([keep(long), keep(`${long} `.repeat(4))], [[], [long]]);
});
