import { assertEquals } from "@std/assert";
import { serverAddress } from "./server_address.ts";

Deno.test("serverAddress() goes by the address that is given, or by host and port", () => {
  const at = (variables: Readonly<Record<string, string>>, url?: string) =>
    serverAddress((name) => variables[name], url);
  assertEquals(at({}), { url: "http://127.0.0.1:8787" });
  assertEquals(at({ TARE_HOST: "::1", TARE_PORT: "1", TARE_TOKEN: "t" }), {
    url: "http://[::1]:1",
    token: "t",
  });
  assertEquals(at({ TARE_HOST: "", TARE_PORT: "", TARE_TOKEN: "" }), { url: "http://127.0.0.1:8787" });
  assertEquals(at({ TARE_HOST: "h", TARE_TOKEN: "t" }, "http://x"), { url: "http://x", token: "t" });
});
