import { type Caller, Keys, type Store } from "@tare/session";
import {
  DocumentReader,
  isConflict,
  type StoredDelivery,
  type StoredDocument,
  type StoreRecord,
} from "@tare/session/internal";
import { sliceText } from "@tare/messages/internal";
import { randomBytes } from "node:crypto";
import { type Static, Type } from "typebox";
import { HttpError, invalidRequest, notFound } from "../http/http_error.ts";
import { storedReader } from "../http/schema.ts";
import { newestTurnIn } from "../sessions/event_log.ts";
import type { Notifier } from "../sessions/session_types.ts";
import { type Reach, refusedUrl, SECRET_PREFIX } from "./send_webhook.ts";

/** Reported events. */
export const WEBHOOK_TYPES = ["turn.ended", "approval.requested"] as const;

export type WebhookType = typeof WEBHOOK_TYPES[number];

/** `gone`: 410 from the receiver. */
export const DISABLED_REASONS = ["gone", "failing", "requested"] as const;

const STORED = Type.Object({
  id: Type.String(),
  url: Type.String(),
  types: Type.Array(Type.Enum([...WEBHOOK_TYPES])),
  /** The key whose sessions it reports. Absent: the owner's, for all sessions. */
  by: Type.Optional(Type.String()),
  createdAtMs: Type.Number(),
  /** Newest first. */
  secrets: Type.Array(Type.Object({ secret: Type.String(), untilMs: Type.Optional(Type.Number()) })),
  /** Start of the current failures. Absent: the newest attempt succeeded. */
  failingSinceMs: Type.Optional(Type.Number()),
  disabled: Type.Optional(Type.Object({ reason: Type.Enum([...DISABLED_REASONS]), atMs: Type.Number() })),
});

export type Webhook = Readonly<Static<typeof STORED>>;

export type WebhookSettings = Pick<Webhook, "url" | "types">;

export type WebhookHealth = Pick<Webhook, "failingSinceMs" | "disabled">;

const asWebhook = storedReader(STORED, "a webhook");

export interface DeliveryValue {
  readonly type: WebhookType;
  /** The exact body. */
  readonly body: string;
  readonly status: "waiting" | "delivered" | "failed";
  /** Attempts since the last request. */
  readonly tries: number;
  /** Oldest first. */
  readonly attempts: readonly {
    readonly atMs: number;
    /** Absent: no response. */
    readonly status?: number;
    readonly error?: string;
  }[];
}

const WEBHOOK = "webhook";
const NEWEST = "newest_webhook";

/** Age at which webhooks of a shared store are read again. */
const FRESH_MS = 1_000;

const MAX_WEBHOOKS = 50;

/** Time for which a replaced secret signs too. */
const OLD_SECRET_MS = 24 * 60 * 60_000;

/** Maximum characters of a reported text. */
const MAX_TEXT = 10_000;

/** Webhooks of one or more servers on a store. */
export class Webhooks {
  readonly reach: Reach;
  readonly #store: Store;
  readonly #documents: DocumentReader<Webhook>;
  #known: { readonly byId: ReadonlyMap<string, Webhook>; readonly atMs: number } | undefined;
  #loading: Promise<void> | undefined;

  /** `onError` receives a message per damaged record. */
  constructor({ store, reach, onError }: {
    readonly store: Store;
    readonly reach: Reach;
    readonly onError: (error: unknown) => void;
  }) {
    this.#store = store;
    this.reach = reach;
    const read = ({ value }: StoredDocument) => asWebhook(value);
    this.#documents = new DocumentReader({ store, kind: WEBHOOK, read, onError });
  }

  /** Oldest first. @throws {StoreError} */
  async list(caller: Caller): Promise<readonly Webhook[]> {
    await this.#load();
    return this.#all().filter(({ by }) => Keys.sees(caller, by)).sort((one, other) =>
      one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1)
    );
  }

  /** @throws {HttpError} 404 if it is not visible to the caller. */
  async get(id: string, caller: Caller): Promise<Webhook> {
    const found = (await this.list(caller)).find((one) => one.id === id);
    if (found) return found;
    throw notFound(`Not found: there is no webhook ${id}.`);
  }

  /** @throws {HttpError} 400 if its address is refused, or there are too many. */
  async add(settings: WebhookSettings, caller: Caller): Promise<Webhook> {
    this.#assertReaches(settings.url);
    const by = Keys.nameOf(caller);
    const newest = newestOf(by);
    for (;;) {
      // Each addition replaces this, so that concurrent ones conflict.
      const replaces = await this.#store.getDocument(newest.kind, newest.id) ?? null;
      await this.#load();
      if (this.#all().filter((one) => one.by === by).length >= MAX_WEBHOOKS) {
        const message =
          `Cannot add a webhook: ${caller.name} has ${MAX_WEBHOOKS}, the maximum. Remove one first.`;
        throw invalidRequest(message);
      }
      const made: Webhook = {
        ...settings,
        id: `wh_${crypto.randomUUID()}`,
        ...(by !== undefined && { by }),
        createdAtMs: this.#store.now(),
        secrets: [{ secret: newWebhookSecret() }],
      };
      try {
        await this.#write([
          { ...documentOf(made), replaces: null },
          { type: "document", ...newest, value: { webhook: made.id }, replaces },
        ]);
        return made;
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    }
  }

  /** @throws {HttpError} 404, and 400 if its address is refused. */
  async change(
    id: string,
    { isEnabled, ...settings }: { readonly isEnabled?: boolean } & Partial<WebhookSettings>,
    caller: Caller,
  ): Promise<Webhook> {
    if (settings.url !== undefined) this.#assertReaches(settings.url);
    const atMs = this.#store.now();
    const disabled = { reason: "requested", atMs } as const;
    const health: WebhookHealth | undefined = isEnabled === undefined
      ? undefined
      : isEnabled
      ? {}
      : { disabled };
    return await this.#update(id, caller, (webhook) => ({
      ...health ? { ...withoutHealth(webhook), ...health } : webhook,
      ...settings,
    }));
  }

  /** Replaces the secret; the previous one signs too for a day. @throws {HttpError} 404 */
  async rotate(id: string, caller: Caller): Promise<string> {
    const secret = newWebhookSecret();
    await this.#update(id, caller, (webhook) => {
      const [before] = webhook.secrets;
      const old = before ? [{ secret: before.secret, untilMs: this.#store.now() + OLD_SECRET_MS }] : [];
      return { ...webhook, secrets: [{ secret }, ...old] };
    });
    return secret;
  }

  /** Removes it with its deliveries. @throws {HttpError} 404 */
  async remove(id: string, caller: Caller): Promise<void> {
    await this.get(id, caller);
    await this.#write(removal(id));
  }

  /** Removes a removed key's webhooks: a new key of that name may have another user. */
  async removeOf(by: string): Promise<void> {
    await this.#load();
    const removals = this.#all().filter((one) => one.by === by).flatMap(({ id }) => removal(id));
    await this.#write([...removals, { type: "delete_document", ...newestOf(by) }]);
  }

  /** Returns the newest first. @throws {HttpError} 404 */
  async deliveries(
    id: string,
    { caller, ...page }: { readonly caller: Caller; readonly limit: number; readonly before?: string },
  ): Promise<readonly StoredDelivery[]> {
    await this.get(id, caller);
    return await this.#store.listDeliveries(id, page);
  }

  /** Sends a delivery again now. @throws {HttpError} 404, and 409 if the webhook is disabled. */
  async redeliver(id: string, delivery: string, caller: Caller): Promise<StoredDelivery> {
    const found = await this.#store.getDelivery(delivery);
    if (found?.receiver !== id) {
      const message = `Not found: webhook ${id} has no delivery ${delivery}; it may have expired.`;
      throw notFound(message);
    }
    const value: DeliveryValue = { ...valueOf(found), status: "waiting", tries: 0 };
    const { sessionId } = found;
    // It must exist and be enabled, else the delivery would remain forever.
    await this.#update(id, caller, (webhook) => {
      const { disabled } = webhook;
      if (!disabled) return webhook;
      const message =
        `Cannot send delivery ${delivery}: webhook ${id} is disabled (${disabled.reason}). Enable it first.`;
      throw new HttpError(409, "webhook_disabled", message);
    }, [{
      ...{ type: "delivery", id: delivery, receiver: id, value, dueInMs: 0 },
      ...(sessionId !== undefined && { sessionId }),
    }]);
    return { ...found, value, dueAtMs: this.#store.now() };
  }

  /** Reads them again if other servers may have changed them. @throws {StoreError} */
  async ready(): Promise<void> {
    const isFresh = this.#known && (!this.#store.shared || this.#store.now() - this.#known.atMs < FRESH_MS);
    if (!isFresh) await this.#load();
  }

  /** As of {@linkcode Webhooks.ready}. */
  enabled(): readonly Webhook[] {
    return this.#all().filter(({ disabled }) => !disabled);
  }

  /** Commits records with a delivery's effect on a webhook's health. Returns the health if this disabled it. */
  async note(
    id: string,
    healthAfter: (before: WebhookHealth) => WebhookHealth,
    records: readonly StoreRecord[],
  ): Promise<WebhookHealth | undefined> {
    const after = (webhook: Webhook): Webhook =>
      webhook.disabled ? webhook : { ...withoutHealth(webhook), ...healthAfter(webhook) };
    const known = this.#known?.byId.get(id);
    const isSame = known && !known.disabled && JSON.stringify(after(known)) === JSON.stringify(known);
    let before: Webhook | undefined;
    const noted = isSame ? known : await this.#replace(id, (webhook) => after(before = webhook), records);
    if (isSame || !noted) await this.#store.commit(records);
    return noted?.disabled && !before?.disabled ? noted : undefined;
  }

  secretsOf({ secrets }: Webhook): readonly string[] {
    const nowMs = this.#store.now();
    return secrets.flatMap(({ secret, untilMs = Infinity }) => untilMs > nowMs ? secret : []);
  }

  /** Returns the records of a session's events; none for subagents, which work for a reported turn. */
  recordsOf(...[session, committed]: Parameters<Notifier["recordsOf"]>): readonly StoreRecord[] {
    if (session.parent) return [];
    const payload = payloadOf(session, committed);
    const timestamp = new Date(this.#store.now()).toISOString();
    return this.enabled().filter(({ by }) => by === undefined || by === session.by)
      .flatMap(({ id: receiver, types }) =>
        payload.filter(({ type }) => types.includes(type)).map(({ type, data }): StoreRecord => {
          const body = JSON.stringify({ type, timestamp, data });
          const value: DeliveryValue = { type, body, status: "waiting", tries: 0, attempts: [] };
          const id = `msg_${crypto.randomUUID()}`;
          return { type: "delivery", id, receiver, sessionId: session.id, value, dueInMs: 0 };
        })
      );
  }

  #assertReaches(url: string): void {
    const refused = refusedUrl(url, this.reach);
    if (refused === undefined) return;
    throw invalidRequest(`Cannot send webhooks to ${JSON.stringify(url)}: ${refused}.`);
  }

  #all(): readonly Webhook[] {
    return [...this.#known?.byId.values() ?? []];
  }

  /** @throws {HttpError} 404 if it is not visible to the caller. */
  async #update(
    id: string,
    caller: Caller,
    change: (webhook: Webhook) => Webhook,
    records: readonly StoreRecord[] = [],
  ): Promise<Webhook> {
    await this.get(id, caller);
    return await this.#replace(id, change, records) ?? await this.get(id, caller);
  }

  /** Repeats `change` after a concurrent one. Returns `undefined` if the webhook is deleted. */
  async #replace(
    id: string,
    change: (webhook: Webhook) => Webhook,
    records: readonly StoreRecord[],
  ): Promise<Webhook | undefined> {
    for (;;) {
      const replaces = await this.#store.getDocument(WEBHOOK, id);
      if (!replaces) {
        await this.#load();
        return undefined;
      }
      const changed = change(asWebhook(replaces.value));
      try {
        await this.#write([{ ...documentOf(changed), replaces }, ...records]);
        return changed;
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    }
  }

  async #write(records: readonly StoreRecord[]): Promise<void> {
    await this.#store.commit(records);
    await this.#load();
  }

  #load(): Promise<void> {
    const read = async () => {
      const atMs = this.#store.now();
      this.#known = { byId: new Map((await this.#documents.list()).map((one) => [one.id, one])), atMs };
    };
    // A read in progress may miss the newest change.
    const loading = (this.#loading ?? Promise.resolve()).catch(() => {}).then(read)
      .finally(() => {
        if (this.#loading === loading) this.#loading = undefined;
      });
    return this.#loading = loading;
  }
}

export function valueOf({ value }: Pick<StoredDelivery, "value">): DeliveryValue {
  return value as DeliveryValue;
}

function documentOf(value: Webhook): Extract<StoreRecord, { type: "document" }> {
  return { type: "document", kind: WEBHOOK, id: value.id, value };
}

/** Returns the document that names the newest webhook of a key or the owner. */
function newestOf(by: string | undefined): Pick<StoredDocument, "kind" | "id"> {
  return { kind: NEWEST, id: by === undefined ? "owner" : `key ${by}` };
}

function withoutHealth({ failingSinceMs: _, disabled: __, ...webhook }: Webhook): Webhook {
  return webhook;
}

function removal(id: string): readonly StoreRecord[] {
  return [
    { type: "delete_document", kind: WEBHOOK, id },
    { type: "delete_deliveries", receiver: id },
  ];
}

function newWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(32).toString("base64");
}

/** Returns the events to report. */
function payloadOf(
  ...[{ id, by, settings: { metadata } }, { events, after, turn: before }]: Parameters<Notifier["recordsOf"]>
): readonly { readonly type: WebhookType; readonly data: unknown }[] {
  const isShort = JSON.stringify(metadata).length <= MAX_TEXT;
  const session = { id, ...(by !== undefined && { key: by }), ...(isShort && { metadata }) };
  const approvals = events.flatMap((event) => {
    if (event.type !== "approval_requested") return [];
    const { approvalId, id: callId, name, arguments: text, why, requestedAtMs, expiresAtMs } = event;
    return [{ id: approvalId, callId, name, arguments: cut(text), why, requestedAtMs, expiresAtMs }];
  });
  const pendingPayload = approvals.length === 0 ? [] : [
    {
      type: "approval.requested" as const,
      data: {
        session,
        event: after + 1 + events.findLastIndex(({ type }) => type === "approval_requested"),
        turn: { id: (newestTurnIn(events) ?? before)?.id },
        approvals,
      },
    },
  ];
  const ended = [...events.entries()].flatMap(([place, event]) => {
    if (event.type !== "turn_end") return [];
    const { reason, text, message, code, ledger, whole } = event;
    const turnId = (newestTurnIn(events.slice(0, place)) ?? before)?.id;
    const turn = {
      id: turnId,
      reason,
      text: cut(text),
      message: message && cut(message),
      code,
      ledger: whole ?? ledger,
    };
    const data = { session, event: after + 1 + place, turn };
    return [{ type: "turn.ended" as const, data }];
  });
  return [...pendingPayload, ...ended];
}

function cut(text: string): string {
  return text.length <= MAX_TEXT ? text : `${sliceText(text, 0, MAX_TEXT)}…`;
}
