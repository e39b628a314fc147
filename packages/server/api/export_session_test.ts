import { assertEquals } from "@std/assert";
import { exportSession } from "./export_session.ts";

Deno.test("exportSession() writes a message a line", () => {
  assertEquals(exportSession({ history: [] }), "");
  const history = [{ role: "system", content: "i" }, { role: "user", content: "two\nlines" }] as const;
  assertEquals(
    exportSession({ history }),
    '{"role":"system","content":"i"}\n{"role":"user","content":"two\\nlines"}\n',
  );
});
