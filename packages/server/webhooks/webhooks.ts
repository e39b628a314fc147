import { type Asker, Keys, type Store } from "@tare/session";
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
import { turnBehind } from "../sessions/event_log.ts";
import type { Teller } from "../sessions/session_types.ts";
import { type Reach, refusedUrl, SECRET_PREFIX } from "./send_webhook.ts";

/** What can be told. */
export const WEBHOOK_TYPES = ["turn.ended", "approval.asked"] as const;

export type WebhookType = typeof WEBHOOK_TYPES[number];

/** Why nothing is sent any more: the receiver said that it is gone, nothing got through for long, or somebody asked for it. */
export const DISABLED_REASONS = ["gone", "failing", "asked"] as const;

const STORED = Type.Object({
  id: Type.String(),
  url: Type.String(),
  types: Type.Array(Type.Enum([...WEBHOOK_TYPES])),
  /** Name of the key that it is of: it hears of what is made with that. Absent: the owner's, which hears of all. */
  by: Type.Optional(Type.String()),
  createdAtMs: Type.Number(),
  /** The newest first. */
  secrets: Type.Array(Type.Object({ secret: Type.String(), untilMs: Type.Optional(Type.Number()) })),
  /** Since when nothing has got through; absent if the newest attempt did. */
  failingSinceMs: Type.Optional(Type.Number()),
  disabled: Type.Optional(Type.Object({ reason: Type.Enum([...DISABLED_REASONS]), atMs: Type.Number() })),
});

export type Webhook = Readonly<Static<typeof STORED>>;

export type WebhookSettings = Pick<Webhook, "url" | "types">;

/** Results of a webhook's deliveries. */
export type WebhookHealth = Pick<Webhook, "failingSinceMs" | "disabled">;

const asWebhook = storedReader(STORED, "a webhook");

/** What came of a delivery so far. */
export interface DeliveryValue {
  readonly type: WebhookType;
  /** What is sent, byte for byte. */
  readonly body: string;
  readonly status: "waiting" | "delivered" | "failed";
  /** How often it was attempted since somebody last asked for it. */
  readonly tries: number;
  /** The newest attempts, the oldest first. */
  readonly attempts: readonly {
    readonly atMs: number;
    /** What the receiver answered; absent if it didn't. */
    readonly status?: number;
    readonly error?: string;
  }[];
}

/** Kinds of documents in the store. */
const WEBHOOK = "webhook";
const NEWEST = "newest_webhook";

/** After so many milliseconds webhooks are read again where other servers may have changed them. */
const FRESH_MS = 1_000;

const MAX_WEBHOOKS = 50;

/** How long the secret before signs too, in milliseconds. */
const OLD_SECRET_MS = 24 * 60 * 60_000;

/** Most characters of a text that is told. All of it is in the session. */
const MAX_TEXT = 10_000;

/** The webhooks of a server, or of several on one store: who is told of what. */
export class Webhooks {
  readonly reach: Reach;
  readonly #store: Store;
  readonly #documents: DocumentReader<Webhook>;
  #known: { readonly byId: ReadonlyMap<string, Webhook>; readonly atMs: number } | undefined;
  #loading: Promise<void> | undefined;

  /** The webhooks in a store. `onError` receives a message for each that is damaged. */
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

  /** Those that somebody may see, the oldest first. @throws {StoreError} */
  async list(asker: Asker): Promise<readonly Webhook[]> {
    await this.#load();
    return this.#all().filter(({ by }) => Keys.sees(asker, by)).sort((one, other) =>
      one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1)
    );
  }

  /** The webhook of this id. @throws {HttpError} 404 if there is none for whoever asks. */
  async get(id: string, asker: Asker): Promise<Webhook> {
    const found = (await this.list(asker)).find((one) => one.id === id);
    if (found) return found;
    throw notFound(`Cannot find webhook ${id}: there is none of this id.`);
  }

  /** Makes one. @throws {HttpError} 400 if its address can't be told, or there are too many. */
  async add(settings: WebhookSettings, asker: Asker): Promise<Webhook> {
    this.#assertReaches(settings.url);
    const by = Keys.nameOf(asker);
    const newest = newestOf(by);
    for (;;) {
      // Each addition replaces it, so that a webhook that is added after they are counted is a conflict.
      const replaces = await this.#store.getDocument(newest.kind, newest.id) ?? null;
      await this.#load();
      if (this.#all().filter((one) => one.by === by).length >= MAX_WEBHOOKS) {
        const message =
          `Cannot add a webhook: ${asker.name} has ${MAX_WEBHOOKS}, and no more are kept. Remove one first.`;
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

  /** Changes one, and says whether it is sent to. @throws {HttpError} 404, and 400 if its address can't be told. */
  async change(
    id: string,
    { isEnabled, ...settings }: { readonly isEnabled?: boolean } & Partial<WebhookSettings>,
    asker: Asker,
  ): Promise<Webhook> {
    if (settings.url !== undefined) this.#assertReaches(settings.url);
    const atMs = this.#store.now();
    const disabled = { reason: "asked", atMs } as const;
    const health: WebhookHealth | undefined = isEnabled === undefined
      ? undefined
      : isEnabled
      ? {}
      : { disabled };
    return await this.#update(id, asker, (webhook) => ({
      ...health ? { ...withoutHealth(webhook), ...health } : webhook,
      ...settings,
    }));
  }

  /** Gives one another secret. The one before signs too for a day. @throws {HttpError} 404 */
  async rotate(id: string, asker: Asker): Promise<string> {
    const secret = newWebhookSecret();
    await this.#update(id, asker, (webhook) => {
      const [before] = webhook.secrets;
      const old = before ? [{ secret: before.secret, untilMs: this.#store.now() + OLD_SECRET_MS }] : [];
      return { ...webhook, secrets: [{ secret }, ...old] };
    });
    return secret;
  }

  /** Removes one, with its deliveries. @throws {HttpError} 404 */
  async remove(id: string, asker: Asker): Promise<void> {
    await this.get(id, asker);
    await this.#write(removal(id));
  }

  /** Removes those of a key that is gone: whoever gets one of its name is somebody else. */
  async removeOf(by: string): Promise<void> {
    await this.#load();
    const removals = this.#all().filter((one) => one.by === by).flatMap(({ id }) => removal(id));
    await this.#write([...removals, { type: "no_document", ...newestOf(by) }]);
  }

  /** Deliveries of one, the newest first. @throws {HttpError} 404 */
  async deliveries(
    id: string,
    { asker, ...page }: { readonly asker: Asker; readonly limit: number; readonly before?: string },
  ): Promise<readonly StoredDelivery[]> {
    await this.get(id, asker);
    return await this.#store.listDeliveries(id, page);
  }

  /** Has a delivery sent once more, now. @throws {HttpError} 404, and 409 if nothing is sent to the webhook. */
  async redeliver(id: string, delivery: string, asker: Asker): Promise<StoredDelivery> {
    const found = await this.#store.getDelivery(delivery);
    if (found?.receiver !== id) {
      const message =
        `Cannot find delivery ${delivery}: webhook ${id} has none of this id, or it was too old.`;
      throw notFound(message);
    }
    const value: DeliveryValue = { ...valueOf(found), status: "waiting", tries: 0 };
    const { sessionId } = found;
    // The webhook must still be there, and enabled: a delivery to one that is gone would stay for ever.
    await this.#update(id, asker, (webhook) => {
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

  /** Reads who is notified, if other servers may have changed that. @throws {StoreError} */
  async ready(): Promise<void> {
    const isFresh = this.#known && (!this.#store.shared || this.#store.now() - this.#known.atMs < FRESH_MS);
    if (!isFresh) await this.#load();
  }

  /** Those that are sent to, as of {@linkcode Webhooks.ready}. */
  enabled(): readonly Webhook[] {
    return this.#all().filter(({ disabled }) => !disabled);
  }

  /** Commits records with a delivery's effect on a webhook's health. Returns the health if it was disabled by this. */
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

  /** Records of what is told of a session's events. Of helpers nothing is: they work for a turn that is. */
  recordsOf(...[session, committed]: Parameters<Teller["recordsOf"]>): readonly StoreRecord[] {
    if (session.parent) return [];
    const told = toldOf(session, committed);
    const timestamp = new Date(this.#store.now()).toISOString();
    return this.enabled().filter(({ by }) => by === undefined || by === session.by)
      .flatMap(({ id: receiver, types }) =>
        told.filter(({ type }) => types.includes(type)).map(({ type, data }): StoreRecord => {
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
    throw invalidRequest(`Cannot tell ${JSON.stringify(url)} of anything: ${refused}.`);
  }

  #all(): readonly Webhook[] {
    return [...this.#known?.byId.values() ?? []];
  }

  /** Changes one, with other records. @throws {HttpError} 404 if there is none for the caller. */
  async #update(
    id: string,
    asker: Asker,
    change: (webhook: Webhook) => Webhook,
    records: readonly StoreRecord[] = [],
  ): Promise<Webhook> {
    await this.get(id, asker);
    // Once it is removed it isn't found any more.
    return await this.#replace(id, change, records) ?? await this.get(id, asker);
  }

  /** Replaces a webhook, with other records; repeats `change` after a concurrent change. `undefined` if it is gone. */
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
    // What was changed after the last one had begun to read it may have missed.
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

/** The document that names the webhook that was added last for a key, or for the owner. */
function newestOf(by: string | undefined): Pick<StoredDocument, "kind" | "id"> {
  return { kind: NEWEST, id: by === undefined ? "owner" : `key ${by}` };
}

function withoutHealth({ failingSinceMs: _, disabled: __, ...webhook }: Webhook): Webhook {
  return webhook;
}

function removal(id: string): readonly StoreRecord[] {
  return [
    { type: "no_document", kind: WEBHOOK, id },
    { type: "no_deliveries", receiver: id },
  ];
}

function newWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(32).toString("base64");
}

/** What these events come to for others: the end of a turn, and what it asks. */
function toldOf(
  ...[{ id, by, settings: { metadata } }, { events, after, turn: before }]: Parameters<Teller["recordsOf"]>
): readonly { readonly type: WebhookType; readonly data: unknown }[] {
  const isShort = JSON.stringify(metadata).length <= MAX_TEXT;
  const session = { id, ...(by !== undefined && { key: by }), ...(isShort && { metadata }) };
  const approvals = events.flatMap((event) => {
    if (event.type !== "approval_asked") return [];
    const { approvalId, id: callId, name, arguments: text, why, askedAtMs, expiresAtMs } = event;
    return [{ id: approvalId, callId, name, arguments: cut(text), why, askedAtMs, expiresAtMs }];
  });
  const asked = approvals.length === 0 ? [] : [
    {
      type: "approval.asked" as const,
      data: {
        session,
        event: after + 1 + events.findLastIndex(({ type }) => type === "approval_asked"),
        turn: { id: (turnBehind(events) ?? before)?.id },
        approvals,
      },
    },
  ];
  const ended = [...events.entries()].flatMap(([place, event]) => {
    if (event.type !== "turn_end") return [];
    const { reason, text, message, code, ledger, whole } = event;
    const turnId = (turnBehind(events.slice(0, place)) ?? before)?.id;
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
  return [...asked, ...ended];
}

/** The beginning of a long text, and a sign that it is one. */
function cut(text: string): string {
  return text.length <= MAX_TEXT ? text : `${sliceText(text, 0, MAX_TEXT)}…`;
}
