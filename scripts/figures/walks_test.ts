import { assertEquals } from "@std/assert";
import { walkFaults, walkSize } from "./walks.ts";

const walk = {
  kind: "chat",
  functions: [
    { path: "planner/session.ts", name: "view", offset: 10 },
    { path: "planner/session.ts", name: "", offset: 30 },
    { path: "planner/rule.ts", name: "<instance_members_initializer>", offset: 10 },
    { path: "gateway/turn.ts", name: "view", offset: 10 },
  ],
};

Deno.test("walkSize() counts files, those of the planner, and functions with a name", () => {
  assertEquals(walkSize(walk), { files: 3, functions: 2, planner: 2 });
});

Deno.test("walkFaults() names kinds of requests that enter more files than are written down", () => {
  assertEquals(walkFaults([walk], { chat: { files: 3, planner: 2 } }), []);
  assertEquals(walkFaults([walk], { chat: { files: 2, planner: 1 } }), [
    "chat enters 3 files, more than 2.",
    "chat enters 2 files of the planner, more than 1.",
  ]);
  assertEquals(walkFaults([walk], {}), ["chat enters 3 files, and nothing is written down of it."]);
});
