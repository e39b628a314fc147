import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { endMarked, MARK, markOf, NOTHING_INHERITED } from "../shell/marked_processes.ts";
import { endGroup, GRACE_MS, groupIsAlive, settlesWithin } from "../shell/process_group.ts";
import { asRecord } from "./as_record.ts";
import { MAX_MESSAGE_BYTES, TOO_LARGE } from "./message_limit.ts";
import type { StdioEntry } from "./read_servers.ts";

/** How a server's program is started. */
export interface StdioTransportOptions {
  readonly entry: StdioEntry;
  /** Folder that it starts in if its entry names none. */
  readonly cwd: string;
  /** What every program's environment has, beneath what its entry names. */
  readonly env: Readonly<Record<string, string>>;
  /** Who is to be found in what its processes leave behind. */
  readonly owner: string;
}

/** How long a server may take to end once its input has, in milliseconds. */
const CLOSE_MS = 500;

/** So much of what it wrote last to standard error is kept, in bytes. */
const TAIL_BYTES = 500;

/** Where in a message its id is looked for if the whole is too large to be read, in bytes from either end. */
const EDGE_BYTES = 256;

/** JSON-RPC with a program of this machine, a message a line. A message that is too large is an error of its call alone. */
export class StdioTransport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: unknown) => void) | undefined;
  readonly #options: StdioTransportOptions;
  readonly #id: string = crypto.randomUUID();
  #started: Promise<void> = Promise.resolve();
  #child: ChildProcessByStdio<Writable, Readable, Readable> | undefined;
  #ended: Promise<void> = Promise.resolve();
  #ending: string | undefined;
  #closed: Promise<void> | undefined;
  #stderr: Uint8Array = new Uint8Array();
  /** Ids of the requests that have no answer yet. */
  readonly #open = new Set<number>();
  /** The line that isn't whole yet; of one that is too large, its edges. */
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  /** The program isn't started yet. */
  constructor(options: StdioTransportOptions) {
    this.#options = options;
  }

  /** How the program ended, with what it said last; nothing while it runs. */
  get ending(): string | undefined {
    return this.#ending;
  }

  /** Starts the program. @throws the system's error if it can't be. */
  start(): Promise<void> {
    return this.#started = this.#start();
  }

  async #start(): Promise<void> {
    const { entry, cwd, env, owner } = this.#options;
    const child = spawn(entry.command, [...entry.args], {
      cwd: entry.cwd ?? cwd,
      env: { ...NOTHING_INHERITED, ...env, ...entry.env, [MARK]: markOf({ owner, id: this.#id }) },
      // A group of its own: one signal reaches all its processes, and the terminal's Ctrl-C none of them.
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", reject);
    });
    this.#child = child;
    child.on("error", (error) => this.onerror?.(error));
    // Whoever doesn't read any more is about to end.
    child.stdin.on("error", (error) => this.onerror?.(error));
    child.stdout.on("data", (chunk: Uint8Array) => this.#read(chunk));
    child.stderr.on("data", (chunk: Uint8Array) => {
      this.#stderr = joined([this.#stderr, chunk.subarray(-TAIL_BYTES)]).slice(-TAIL_BYTES);
    });
    const read = new Promise<void>((resolve) => child.once("close", () => resolve()));
    this.#ended = new Promise((resolve) => {
      child.once("exit", async (code, signal) => {
        // What it has left running must not outlive it.
        if (child.pid !== undefined && groupIsAlive(child.pid)) {
          await endGroup(child.pid, { graceMs: GRACE_MS, enough: read });
        }
        await settlesWithin(read, GRACE_MS);
        child.stdout.destroy();
        child.stderr.destroy();
        const said = new TextDecoder().decode(this.#stderr).trim();
        const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
        this.#ending = `it ended with ${how}${said === "" ? "" : `; it last wrote: ${said}`}`;
        resolve();
        this.onclose?.();
      });
    });
  }

  /** Sends a message; resolves once the program can take more. */
  async send(message: unknown): Promise<void> {
    const { id, method } = asRecord(message) ?? {};
    if (typeof id === "number" && method !== undefined) this.#open.add(id);
    const { stdin } = this.#child!;
    if (!stdin.writable) throw new Error("its input is closed");
    await new Promise<void>((resolve) => stdin.write(`${JSON.stringify(message)}\n`, () => resolve()));
  }

  /** Ends the program and all that it started: its input ends first, then it is asked, then made. */
  close(): Promise<void> {
    // The protocol's client and the connection both close it, and only one of them waits.
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    // Whoever gives up while it starts must not leave it behind.
    await this.#started.catch(() => {});
    const child = this.#child;
    if (child?.pid === undefined) return;
    child.stdin.end();
    if (!await settlesWithin(this.#ended, CLOSE_MS)) {
      await endGroup(child.pid, { graceMs: CLOSE_MS, enough: this.#ended });
      await settlesWithin(this.#ended, GRACE_MS);
    }
    await endMarked({ owner: this.#options.owner, id: this.#id });
  }

  #read(chunk: Uint8Array): void {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      this.#take(chunk.subarray(from, at));
      this.#line();
      from = at + 1;
    }
    this.#take(chunk.subarray(from));
  }

  #take(piece: Uint8Array): void {
    this.#bytes += piece.length;
    if (piece.length > 0) this.#pieces.push(piece);
    if (this.#bytes <= MAX_MESSAGE_BYTES) return;
    const text = joined(this.#pieces);
    this.#pieces = [text.slice(0, EDGE_BYTES), text.slice(-EDGE_BYTES)];
  }

  #line(): void {
    const [isTooLarge, bytes] = [this.#bytes > MAX_MESSAGE_BYTES, joined(this.#pieces)];
    this.#pieces = [];
    this.#bytes = 0;
    // Programs that write other things to their output are common, and harmless.
    if (bytes[0] !== OPENING_BRACE) return;
    const text = new TextDecoder().decode(bytes);
    if (isTooLarge) return this.#refuse(text);
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    const { id, method } = asRecord(message) ?? {};
    if (typeof id === "number" && method === undefined) this.#open.delete(id);
    this.onmessage?.(message);
  }

  /** Answers the request that a message too large was for; all that are open if that isn't to be seen. */
  #refuse(edges: string): void {
    const named = Array.from(edges.matchAll(/"id"\s*:\s*(\d+)/g), ([, id]) => Number(id));
    const meant = named.filter((id) => this.#open.has(id));
    for (const id of meant.length > 0 ? meant : [...this.#open]) {
      this.#open.delete(id);
      this.onmessage?.({ jsonrpc: "2.0", id, error: { code: -32000, message: TOO_LARGE } });
    }
  }
}

const LINE_FEED = 10;
const OPENING_BRACE = 123;

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const [only] = pieces;
  if (pieces.length === 1 && only) return only;
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
