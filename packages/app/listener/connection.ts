import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";

/** Room for what a client sends first; a connection that sends more gets more. */
const LEAST_ROOM = 1024;
const MOST_ROOM = 64 * 1024;

/** A time that a client keeps the server waiting. */
export interface Wait {
  /** When it began, in milliseconds of `performance.now()`. */
  readonly since: number;
  /** How long it may last, in milliseconds. */
  readonly limitMs: number;
  /** Called when it lasted longer. */
  readonly late: () => void;
}

/**
 * A TCP connection as the stream on which `node:http` speaks HTTP. It knows since when it waits for its client.
 *
 * `node:net` isn't used since its listener in Deno 2.9.6 never accepts again once descriptors ran out, and tells nobody.
 */
export class Connection extends Duplex {
  readonly #conn: Deno.TcpConn;
  readonly #idleMs: number;
  #room = LEAST_ROOM;
  /** Requests that have no whole answer yet. */
  #open = 0;
  #request: Wait | undefined;
  #answer: Wait | undefined;

  /** Takes the connection over; its client has `idleMs` for the head of each request, and to take some of an answer. */
  constructor(conn: Deno.TcpConn, { idleMs }: { readonly idleMs: number }) {
    super();
    this.#conn = conn;
    this.#idleMs = idleMs;
    this.#request = this.#begin();
    try {
      conn.setNoDelay(true);
    } catch {
      // The client has left already, as the first read will find.
    }
    // What goes wrong on a connection concerns who uses it, and HTTP looks after that itself.
    this.on("error", () => {});
  }

  /** The wait that began first of those for a request and for somebody to take an answer; none if the server works. */
  get wait(): Wait | undefined {
    if (!this.#request || !this.#answer) return this.#request ?? this.#answer;
    return this.#request.since < this.#answer.since ? this.#request : this.#answer;
  }

  /** The head of a request has come; `body` says how long the rest may take, if there is more. */
  requestBegins(body?: Pick<Wait, "limitMs" | "late">): void {
    this.#open++;
    this.#request = body && { since: performance.now(), ...body };
  }

  /** The whole request has come. */
  requestCame(): void {
    this.#request = undefined;
  }

  /** A request has its answer. */
  requestEnds(): void {
    this.#open--;
    if (this.#open === 0) this.#request = this.#begin();
  }

  /** Called by the stream: reads once. */
  override _read(): void {
    const bytes = new Uint8Array(this.#room);
    this.#conn.read(bytes).then((length) => {
      if (length === bytes.length) this.#room = Math.min(MOST_ROOM, length * 8);
      this.push(length === null ? null : bytes.subarray(0, length));
    }).catch((error) => this.destroy(error));
  }

  /** Called by the stream: writes all of it. */
  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    this.#writeAll([chunk]).then(() => done(), done);
  }

  /** Called by the stream: writes all of them, small ones at once. */
  override _writev(chunks: { readonly chunk: Uint8Array }[], done: (error?: Error | null) => void): void {
    const all = chunks.map(({ chunk }) => chunk);
    const length = all.reduce((sum, chunk) => sum + chunk.length, 0);
    this.#writeAll(length <= MOST_ROOM ? [Buffer.concat(all, length)] : all).then(() => done(), done);
  }

  /** Called by the stream: says that nothing more will come. */
  override _final(done: (error?: Error | null) => void): void {
    this.#conn.closeWrite().then(() => done(), done);
  }

  /** Called by the stream: closes the connection. */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#conn.close();
    done(error);
  }

  async #writeAll(all: readonly Uint8Array[]): Promise<void> {
    for (const bytes of all) {
      for (let written = 0; written < bytes.length;) {
        // Begins anew with each piece that is taken: a slow reader is alive.
        this.#answer = this.#begin();
        written += await this.#conn.write(bytes.subarray(written));
      }
    }
    this.#answer = undefined;
  }

  #begin(): Wait {
    return { since: performance.now(), limitMs: this.#idleMs, late: () => this.destroy() };
  }
}
