import { migrateSessionState } from "./migrate_session_state.ts";
import { NEW_SESSION } from "./rule/planner_state.ts";
import { assertEquals, assertStrictEquals } from "@std/assert";

const elide = { type: "elide", index: 2, toolCallId: "1", ref: "2cf24dba5fb0a30e", text: "[…]" };
const stretch = { from: 1, to: 3, ref: "2cf24dba5fb0a30e", text: "They counted." };

Deno.test("migrateSessionState() renames what a planner's state held under other names", () => {
  assertEquals(
    migrateSessionState({ edits: [elide, { type: "fold", ...stretch }], bounded: [2], stopSaid: false }),
    { edits: [elide, { type: "summarise", ...stretch }], truncated: [2], stopSaid: false },
  );
});

Deno.test("migrateSessionState() renames what a classic state held under other names", () => {
  const rest = { exposed: ["read"], scale: 1.2, lastUsedAtMs: 5 };
  const [bound, prune] = ["bound", "prune"].map((mechanism) => ({ ...elide, mechanism, savedTokens: 3 }));
  assertEquals(migrateSessionState({ edits: [bound, prune], ...rest }), {
    edits: [{ ...bound, mechanism: "truncate" }, prune],
    ...rest,
    exposed: [],
  });
});

Deno.test("migrateSessionState() forgets the names of tools, which say nothing of their definitions", () => {
  const rest = { edits: [elide], scale: 1.2 };
  assertEquals(migrateSessionState({ ...rest, exposed: ["read", "list"] }), { ...rest, exposed: [] });
  const today = { ...rest, exposed: [8_723_456_123, 12] };
  assertStrictEquals(migrateSessionState(today), today);
});

Deno.test("migrateSessionState() keeps only the sums of a planner that reckoned a rent for each edit", () => {
  const planner = { sent: [], rents: { 2: 7 }, paid: 5, resend: 9, stopped: true, recognised: "openai" };
  assertEquals(migrateSessionState({ edits: [elide], truncated: [], planner }), {
    edits: [elide],
    truncated: [],
    planner: { ...NEW_SESSION, paid: 5, resend: 9, stopped: true, recognised: "openai" },
  });
});

Deno.test("migrateSessionState() leaves a state of today, or none, as it is", () => {
  const states = [undefined, null, { edits: [elide], truncated: [2], stopSaid: true }, {
    edits: [],
    scale: 1,
  }];
  for (const state of states) assertStrictEquals(migrateSessionState(state), state);
});
