import { assertEquals } from "@std/assert";
import { ioReason } from "./io_reason.ts";

const systemError = (code: string) => Object.assign(new Error(`of '/secret/path'`), { code });

Deno.test("ioReason() explains system errors without their paths", async () => {
  assertEquals(ioReason(systemError("ENOSPC")), "the disk is full.");
  assertEquals(ioReason(systemError("EACCES")), "permission denied.");
  assertEquals(ioReason(systemError("EWEIRD")), "the system answered EWEIRD.");
  const real = await Deno.open("/does/not/exist").catch((error) => error);
  assertEquals(ioReason(real), "it does not exist.");
  assertEquals(
    ioReason(new Deno.errors.NotCapable("x")),
    "this server was started without permission for it.",
  );
});

Deno.test("ioReason() leaves everything else alone", () => {
  assertEquals(ioReason(new TypeError("bug")), undefined);
  assertEquals(ioReason(new DOMException("Aborted", "AbortError")), undefined);
  assertEquals(ioReason("text"), undefined);
});
