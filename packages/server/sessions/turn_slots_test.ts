import { assertEquals, assertThrows } from "@std/assert";
import { HttpError } from "../http/http_error.ts";
import { TurnSlots } from "./sessions.ts";

Deno.test("TurnSlots.take() refuses with 429 while all slots are taken, and counts a freed slot once", () => {
  const slots = new TurnSlots(2, { freed: () => {}, after: () => () => {} });
  const [first] = [slots.take(), slots.take()];
  const error = assertThrows(() => slots.take(), HttpError);
  assertEquals([error.status, error.code, error.headers], [429, "too_many_turns", { "retry-after": "5" }]);
  first();
  first();
  slots.take();
  assertThrows(() => slots.take(), HttpError, "the limit of running turns (2) is reached");
});
