import { assertThrows } from "@std/assert";
import { checkWrites, type Write } from "./audit.ts";

function write(given: Partial<Write>): Write {
  const { writer = "one" } = given;
  return {
    ...{ session: "a", first: 1, count: 2, starts: false, resumes: false, ends: false, fence: 1, atMs: 0 },
    ...{ writer, holder: writer },
    ...given,
  };
}

Deno.test("checkWrites() accepts only consecutive writes of the servers that hold a session", () => {
  const first = write({});
  checkWrites([
    first,
    write({ session: "b", fence: 7, writer: "two" }),
    write({ first: 3 }),
    write({ first: 5, fence: 2, writer: "two" }),
    write({ first: 7, fence: 4, writer: "two" }),
    write({ session: "c", fence: 0, holder: null }),
    write({ session: "c", first: 3, starts: true }),
  ]);
  for (
    const [wrong, why] of [
      [{ first: 3, holder: "two" }, "doesn't hold"],
      [{ first: 3, holder: null }, "doesn't hold"],
      [{ session: "c", holder: null, fence: 0, starts: true }, "doesn't hold"],
      [{ first: 2 }, "missing or duplicated"],
      [{ first: 4 }, "missing or duplicated"],
      [{ first: 3, fence: 0 }, "a stale fencing number"],
      [{ first: 3, writer: "two", fence: 1 }, "a stale fencing number"],
    ] as const
  ) assertThrows(() => checkWrites([first, write(wrong)]), Error, why);
});
