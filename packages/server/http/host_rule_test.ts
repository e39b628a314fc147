import { assertEquals } from "@std/assert";
import { allowedHosts, hostRule, isLoopback } from "./guard.ts";

const allows = (hosts: readonly string[], host: string, header?: string) =>
  hostRule(hosts)(new Request(`http://${host}/`, header === undefined ? {} : { headers: { host: header } }));

Deno.test("isLoopback() recognizes the names of this machine", () => {
  assertEquals(["localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "LOCALHOST"].map(isLoopback), [
    true,
    true,
    true,
    true,
    true,
    true,
  ]);
  assertEquals(["0.0.0.0", "::", "192.168.0.1", "localhost.example", "127.0.0.1.example"].map(isLoopback), [
    false,
    false,
    false,
    false,
    false,
  ]);
});

Deno.test("hostRule() on loopback accepts only loopback's names, on any port", () => {
  const hosts = allowedHosts("127.0.0.1");
  for (const host of ["localhost", "127.0.0.1:8787", "[::1]:1", "LOCALHOST:80"]) {
    assertEquals(allows(hosts, host), true, host);
  }
  for (
    const host of ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0"]
  ) {
    assertEquals(allows(hosts, host), false, host);
  }
});

Deno.test("hostRule() checks the Host header and the request line", () => {
  const hosts = allowedHosts("::1");
  assertEquals(allows(hosts, "localhost", "evil.example"), false);
  assertEquals(allows(hosts, "evil.example", "localhost"), false);
  assertEquals(allows(hosts, "localhost:1", "localhost:1"), true);
  assertEquals(allows(hosts, "localhost", ""), false);
});

Deno.test("hostRule() on all addresses accepts each IP address, and names only if configured", () => {
  const hosts = allowedHosts("0.0.0.0", ["agent.example", "Other.example:443"]);
  for (const host of ["10.1.2.3:8787", "[fe80::1]", "localhost", "agent.example:1", "other.example"]) {
    assertEquals(allows(hosts, host), true, host);
  }
  assertEquals(allows(hosts, "evil.example"), false);
  assertEquals(allowedHosts("agent.internal"), ["agent.internal"]);
});
