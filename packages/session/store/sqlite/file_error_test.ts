import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { StoreError } from "@tare/session";
import { toOpenError, toStoreError } from "./file_error.ts";

Deno.test("toStoreError() maps errors of the file, with its name and advice", () => {
  const cases = [
    ["database or disk is full", "full", "Free some space"],
    ["No space left on device (os error 28)", "full", "Free some space"],
    ["database disk image is malformed", "corrupt", "Restore it from a backup"],
    ["file is not a database", "corrupt", "Restore it from a backup"],
    ["malformed database schema (events)", "corrupt", "Restore it from a backup"],
    ["database is locked", "locked", "Stop it, or use another file"],
    ["disk I/O error", "io", "Check the disk"],
    ["attempt to write a readonly database", "io", "its folder is read-only. Make it writable"],
    ["Read-only file system (os error 30): mkdir '/x'", "io", "its folder is read-only. Make it writable"],
    ["unable to open database file: /x/tare.db", "io", "Check the disk"],
  ] as const;
  for (const [message, code, remedy] of cases) {
    const error = toStoreError(new Error(message), "/x/tare.db");
    assert(error instanceof StoreError && error.cause instanceof Error);
    assertEquals([error.name, error.code], ["StoreError", code]);
    assertStringIncludes(error.message, "/x/tare.db: ");
    assertStringIncludes(error.message, remedy);
  }
});

Deno.test("toStoreError() maps system error codes and missing permissions", () => {
  const denied = Object.assign(new Error("EACCES: permission denied, mkdir '/x'"), { code: "EACCES" });
  const quota = Object.assign(new Error("Unknown system error -122"), { code: "EDQUOT" });
  const codeOf = (error: unknown) => error instanceof StoreError && error.code;
  assertEquals([denied, quota].map((error) => codeOf(toStoreError(error, "f"))), ["io", "full"]);
  const refused = toStoreError(new Deno.errors.NotCapable("Requires all access"), "f");
  assertEquals(
    refused instanceof StoreError && refused.message,
    "Cannot use the store f: this process has no permission to read and write it. Use another folder.",
  );
});

Deno.test("toStoreError() returns other errors unchanged", () => {
  const errors = [new Error("no such table: x"), new TypeError("t"), "text", new StoreError("io", "m")];
  assertEquals(errors.map((error) => toStoreError(error, "f") === error), [true, true, true, true]);
});

Deno.test("toOpenError() maps unknown tables and columns to a damaged file", () => {
  const error = toOpenError(new Error("no such column: json"), "f");
  assert(error instanceof StoreError);
  assertEquals([error.code, error.message], [
    "corrupt",
    "Cannot read the store f: its tables are damaged, no such column: json. " +
    "Restore it from a backup, or move it away to start with an empty store.",
  ]);
  const full = toOpenError(new Error("database or disk is full"), "f");
  assertEquals(full instanceof StoreError && full.code, "full");
});
