import { assertEquals } from "@std/assert";
import { contentText } from "@tare/messages";

Deno.test("contentText() joins the texts of parts and skips what has none", () => {
  assertEquals(contentText("plain"), "plain");
  assertEquals(contentText(null), "");
  assertEquals(
    contentText([
      { type: "text", text: "a" },
      { type: "image_url", image_url: { url: "x" } },
      { type: "refusal", refusal: "b" },
    ]),
    "a\nb",
  );
});
