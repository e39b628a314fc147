/**
 * Large texts of a store's archive in an S3-compatible object store, for `openPostgresStore()` of
 * `@tare/session/postgres`.
 *
 * @example
 * ```ts
 * import { openPostgresStore } from "@tare/session/postgres";
 * import { openS3Objects } from "@tare/session/s3";
 *
 * async function open(url: string, accessKeyId: string, secretAccessKey: string) {
 *   const bucket = { bucket: "archive", prefix: "tare/", region: "eu-central-1" };
 *   const objects = await openS3Objects({ ...bucket, accessKeyId, secretAccessKey });
 *   return await openPostgresStore(url, { objects });
 * }
 * ```
 *
 * @module
 */
import type { AwsClient } from "aws4fetch";
import { s3Address } from "./s3_address.ts";
import { StoreError } from "./store_error.ts";

/** A store of bytes by name. Calls reject with a `StoreError` that names it if it fails. */
export interface ObjectStore {
  readonly name: string;
  /** Stores bytes durably under a new name. */
  put(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Returns the bytes of a name; `undefined` if there are none. */
  get(name: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  delete(name: string): Promise<void>;
}

/** A bucket and its credentials. */
export interface S3Options {
  readonly bucket: string;
  readonly region: string;
  /**
   * Endpoint other than Amazon's, such as `https://minio.example:9000`, with the bucket in the path. Default: Amazon's.
   */
  readonly endpoint?: string;
  /** Prefix of object names, such as `tare/`. Default: empty. */
  readonly prefix?: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Session token of temporary credentials. Default: none. */
  readonly sessionToken?: string;
  /** Timeout per object in milliseconds, including retries. Default: 5,000. */
  readonly timeoutMs?: number;
}

const TRIES = 3;

/** Milliseconds before the second attempt; doubled before the third. */
const PAUSE_MS = 100;

/**
 * Opens a bucket and checks that the credentials may write, read and delete in it.
 *
 * @example
 * ```ts
 * import { openS3Objects } from "@tare/session/s3";
 *
 * async function roundTrip(accessKeyId: string, secretAccessKey: string) {
 *   const bucket = { bucket: "archive", region: "eu-central-1", accessKeyId, secretAccessKey };
 *   const objects = await openS3Objects(bucket);
 *   await objects.put("greeting", new TextEncoder().encode("Hello."));
 *   return await objects.get("greeting");
 * }
 * ```
 *
 * @throws {StoreError} `io` if they may not, or it can't be reached.
 */
export async function openS3Objects(options: S3Options): Promise<ObjectStore> {
  const { region, accessKeyId, secretAccessKey, sessionToken } = options;
  const { AwsClient } = await import("aws4fetch");
  const objects = s3Objects(
    options,
    new AwsClient({
      ...{ accessKeyId, secretAccessKey, region, service: "s3" },
      ...(sessionToken !== undefined && { sessionToken }),
    }),
  );
  const probe = `probe-${crypto.randomUUID()}`;
  await objects.put(probe, new TextEncoder().encode("Write check by Tare."));
  await objects.get(probe);
  await objects.delete(probe);
  return objects;
}

function s3Objects(options: S3Options, client: AwsClient): ObjectStore {
  const { bucket, prefix = "", timeoutMs = 5000 } = options;
  const name = `s3://${bucket}/${prefix}`;
  const address = s3Address(options);
  const request = async (
    method: "PUT" | "GET" | "DELETE",
    object: string,
    body?: Uint8Array<ArrayBuffer>,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> => {
    const end = new AbortController();
    const timer = setTimeout(() => end.abort(), timeoutMs);
    const failed = (state: string, cause?: unknown) =>
      new StoreError(
        "io",
        `Cannot ${VERBS[method]} ${object} in ${name}: ${state}`,
        cause === undefined ? {} : { cause },
      );
    try {
      for (let tried = 1;; tried++) {
        const signed = await client.sign(new URL(prefix + object, address), {
          method,
          ...(body && { body, headers: { "x-amz-content-sha256": await sha256(body) } }),
        });
        const answer = await fetch(signed, { signal: end.signal }).catch((error: unknown) => error);
        if (answer instanceof Response) {
          const bytes = new Uint8Array(await answer.arrayBuffer());
          if (answer.ok) return bytes;
          const { code, message } = errorIn(bytes);
          if (answer.status === 404 && method !== "PUT" && code !== "NoSuchBucket") return undefined;
          if ((answer.status < 500 && answer.status !== 429) || tried >= TRIES) {
            throw failed(`it answered ${answer.status}${code && ` ${code}`}${message && `: ${message}`}.`);
          }
        } else if (end.signal.aborted || tried >= TRIES) throw answer;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** (tried - 1)));
      }
    } catch (error) {
      if (error instanceof StoreError) throw error;
      if (end.signal.aborted) throw failed(`it hasn't answered within ${timeoutMs} ms.`);
      throw failed(`it can't be reached, ${error instanceof Error ? error.message : error}`, error);
    } finally {
      clearTimeout(timer);
    }
  };
  return {
    name,
    put: async (object, bytes) => void await request("PUT", object, bytes),
    get: (object) => request("GET", object),
    delete: async (object) => void await request("DELETE", object),
  };
}

const VERBS = { PUT: "write", GET: "read", DELETE: "delete" } as const;

function errorIn(bytes: Uint8Array): { readonly code: string; readonly message: string } {
  const text = new TextDecoder().decode(bytes);
  const [code = "", message = ""] = ["Code", "Message"].map((name) =>
    new RegExp(`<${name}>([^<]{1,300})</${name}>`).exec(text)?.[1] ?? ""
  );
  return { code, message: message.replace(/\.$/, "") };
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
