/**
 * A pseudo-terminal for tests: the controlling terminal of a program, so that Ctrl-C reaches all of its foreground
 * processes. It needs only the system's C library (Linux).
 *
 * @module
 */

/** A program with its own terminal. */
export interface Terminal extends AsyncDisposable {
  /** Process id of the program. */
  readonly pid: number;
  /** Returns all output so far. */
  readonly text: () => string;
  /** Types keys; `\x03` is Ctrl-C, `\r` Enter. */
  readonly type: (keys: string) => void;
  /**
   * Resolves to the output after position `from` once it matches `pattern`.
   *
   * @throws {Error} with all output, if the program ends without a match or {@linkcode PATIENCE_MS} pass.
   */
  readonly shows: (pattern: RegExp, from?: number) => Promise<string>;
  /** Closes the terminal at the next output: writing to it fails, and the system sends SIGHUP. */
  readonly close: () => void;
  /** Exit status; the terminal is closed then. */
  readonly ended: Promise<Deno.CommandStatus>;
}

/** Starts a program in a terminal. */
export function openTerminal(
  command: readonly string[],
  { cwd, env = {}, columns = 100, rows = 30 }: {
    readonly cwd?: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly columns?: number;
    readonly rows?: number;
  } = {},
): Terminal {
  const libc = Deno.dlopen("libc.so.6", SYMBOLS);
  const master = libc.symbols.posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || libc.symbols.grantpt(master) !== 0 || libc.symbols.unlockpt(master) !== 0) {
    throw new Error("Cannot open a pseudo-terminal: the system gives none");
  }
  libc.symbols.ioctl(master, TIOCSWINSZ, new Uint16Array([rows, columns, 0, 0]));
  const name = new Uint8Array(64);
  libc.symbols.ptsname_r(master, name, BigInt(name.length));
  const path = new TextDecoder().decode(name.subarray(0, name.indexOf(0)));
  // The first terminal that a session leader opens becomes its controlling terminal.
  const process = new Deno.Command("/bin/sh", {
    args: ["-c", 'tty=$1; shift; exec "$@" <>"$tty" >&0 2>&0', "sh", path, ...command],
    detached: true,
    ...(cwd !== undefined && { cwd }),
    env: { TERM: "xterm", ...env },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let text = "";
  let hasEnded = false;
  let isClosed = false;
  let isToClose = false;
  let notified = Promise.withResolvers<void>();
  const read = async () => {
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(65_536);
    while (true) {
      const length = Number(await libc.symbols.read(master, buffer, BigInt(buffer.length)));
      if (length <= 0 || isToClose) break;
      text += decoder.decode(buffer.subarray(0, length), { stream: true });
      notified.resolve();
      notified = Promise.withResolvers();
    }
    isClosed = true;
    libc.symbols.close(master);
    notified.resolve();
  };
  const ended = (async () => {
    const [status] = await Promise.all([process.status, read()]);
    hasEnded = true;
    libc.close();
    return status;
  })();
  return {
    pid: process.pid,
    text: () => text,
    type(keys) {
      if (isClosed) throw new Error("Cannot type: the terminal is closed");
      const bytes = new TextEncoder().encode(keys);
      libc.symbols.write(master, bytes, BigInt(bytes.length));
    },
    async shows(pattern, from = 0) {
      let isOver = false;
      const timer = setTimeout(() => {
        isOver = true;
        notified.resolve();
      }, PATIENCE_MS);
      try {
        while (!pattern.test(text.slice(from))) {
          if (isClosed || isOver) throw new Error(`The program never showed ${pattern}, but this:\n${text}`);
          await notified.promise;
        }
        return text.slice(from);
      } finally {
        clearTimeout(timer);
      }
    },
    close: () => isToClose = true,
    ended,
    async [Symbol.asyncDispose]() {
      // A failed test must not affect the next ones.
      if (!hasEnded) process.kill("SIGKILL");
      await ended;
    },
  };
}

/** Longest wait for output, on a busy machine, in milliseconds. */
export const PATIENCE_MS = 120_000;

const O_RDWR = 2;
const O_NOCTTY = 0o400;
/** Flag: the program must not inherit this end, because it would keep the terminal open. */
const O_CLOEXEC = 0o2000000;
const TIOCSWINSZ = 0x5414n;

const SYMBOLS = {
  posix_openpt: { parameters: ["i32"], result: "i32" },
  grantpt: { parameters: ["i32"], result: "i32" },
  unlockpt: { parameters: ["i32"], result: "i32" },
  ptsname_r: { parameters: ["i32", "buffer", "usize"], result: "i32" },
  ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
  read: { parameters: ["i32", "buffer", "usize"], result: "isize", nonblocking: true },
  write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  close: { parameters: ["i32"], result: "i32" },
} as const;
