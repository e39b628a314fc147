import { assertEquals } from "@std/assert";
import { isWithin, pathWithin } from "./path_within.ts";
import { needs, NOT_WINDOWS } from "../../tests/needs.ts";

Deno.test(
  needs(NOT_WINDOWS, "pathWithin() returns the path from a folder, and nothing outside of it"),
  () => {
    for (
      const [folder, path, expected] of [
        ["/a", "/a", "."],
        ["/a", "/a/b/c", "b/c"],
        ["/", "/a", "a"],
        ["/a/", "/a/b", "b"],
        ["/a", "/a/..b", "..b"],
        ["/a", "/ab", undefined],
        ["/a", "/", undefined],
        ["/a", "/a/../b", undefined],
        ["/a/b", "/a", undefined],
      ] as const
    ) {
      assertEquals(pathWithin(folder, path), expected, `${folder} ${path}`);
      assertEquals(isWithin(path, folder), expected !== undefined);
    }
  },
);
