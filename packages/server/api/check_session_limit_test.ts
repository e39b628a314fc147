import { assertEquals, assertThrows } from "@std/assert";
import { HttpError } from "@tare/server";
import { memoryStore } from "@tare/store";
import { checkSessionLimit } from "./check_session_limit.ts";
import { scriptedSessions } from "../script_fixture_test.ts";

Deno.test("checkSessionLimit() refuses sessions that would be too many", async () => {
  const sessions = scriptedSessions({ store: memoryStore() });
  await sessions.create({});
  checkSessionLimit({ sessions, maxSessions: 3 }, 2);
  const error = assertThrows(() => checkSessionLimit({ sessions, maxSessions: 3 }, 3), HttpError);
  assertEquals([error.status, error.message], [
    507,
    "Cannot make 3 sessions: there are 1, and at most 3 may be kept. Delete some first.",
  ]);
});
