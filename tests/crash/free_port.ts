/** Where the system begins with the ports that it hands out, unless it says otherwise. */
const FIRST_HANDED_OUT = 32_768;

/** Below these other programs listen. */
const FIRST_OWN = 10_000;

/**
 * A port of loopback that nobody listens on. The system doesn't hand it out to whoever asks for any port, so that nobody
 * comes upon it between now and when it is taken, or taken again.
 */
export function freePort(): number {
  const end = firstHandedOut();
  // Where the system hands out nearly all of them it chooses.
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
