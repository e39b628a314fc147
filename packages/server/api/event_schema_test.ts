import { assertEquals } from "@std/assert";
import type { LoopEvent } from "@tare/loop";
import { checker } from "../http/schema.ts";
import { EVENT } from "./event_schema.ts";

const faults = checker(EVENT);

Deno.test("EVENT takes events, and refuses unknown types, missing and unknown fields", () => {
  const event: LoopEvent = { type: "text_delta", step: 1, text: "a" };
  assertEquals(faults(event), undefined);
  assertEquals(faults({ type: "turn_start", input: [{ type: "text", text: "a" }] }), undefined);
  for (
    const wrong of [{ ...event, type: "text" }, { type: "text_delta", step: 1 }, { ...event, x: 1 }, {
      ...event,
      step: 0,
    }]
  ) assertEquals(typeof faults(wrong), "string");
});
