import { assertEquals } from "@std/assert";
import { walkSize } from "./walks.ts";

const walk = {
  kind: "chat",
  functions: [
    { path: "planner/session.ts", name: "view", offset: 10 },
    { path: "planner/session.ts", name: "", offset: 30 },
    { path: "planner/rule.ts", name: "<instance_members_initializer>", offset: 10 },
    { path: "gateway/turn.ts", name: "view", offset: 10 },
  ],
};

Deno.test("walkSize() counts files, planner files and named functions", () => {
  assertEquals(walkSize(walk), { files: 3, functions: 2, planner: 2 });
});
