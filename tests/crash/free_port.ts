/** Default start of the system's range of ephemeral ports. */
const FIRST_HANDED_OUT = 32_768;

/** Lower limit: other programs listen below. */
const FIRST_OWN = 10_000;

/** Returns a free loopback port outside the ephemeral range, so that no other process gets it. */
export function freePort(): number {
  const end = firstHandedOut();
  // If the range contains nearly all ports, the system chooses.
  const own = () => end > 2 * FIRST_OWN ? FIRST_OWN + Math.floor(Math.random() * (end - FIRST_OWN)) : 0;
  for (;;) {
    try {
      using listener = Deno.listen({ hostname: "127.0.0.1", port: own() });
      return listener.addr.port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}

function firstHandedOut(): number {
  if (Deno.build.os !== "linux") return FIRST_HANDED_OUT;
  return Number.parseInt(Deno.readTextFileSync("/proc/sys/net/ipv4/ip_local_port_range"));
}
