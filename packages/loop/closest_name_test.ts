import { assertEquals } from "@std/assert";
import { closestName } from "./closest_name.ts";

const names = ["list_files", "read_file", "search_files", "write_file"];

Deno.test("closestName() finds what was probably meant", () => {
  for (
    const [given, expected] of [
      ["read_file", "read_file"],
      ["readFile", "read_file"],
      ["READ-FILE", "read_file"],
      ["raed_file", "read_file"],
      ["read_files", "read_file"],
      ["searchfile", "search_files"],
      ["browse", undefined],
      ["", undefined],
    ] as const
  ) assertEquals([given, closestName(given, names)], [given, expected]);
  assertEquals(closestName("f", []), undefined);
});
