import { assertEquals } from "@std/assert";
import { nearestName } from "@tare/messages/internal";

Deno.test("nearestName() returns the name that was probably meant, if any", () => {
  const names = ["read_file", "list_files", "shell"];
  assertEquals(
    ["readFile", "list", "shel", "ReadFiles", "bash", "x", "constructor"].map((given) =>
      nearestName(given, names)
    ),
    ["read_file", "list_files", "shell", "read_file", undefined, undefined, undefined],
  );
  assertEquals(nearestName("x", names, { isAny: true }), "shell");
  assertEquals(nearestName("x", []), undefined);
});
