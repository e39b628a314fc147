import {
  type Asker,
  nameOf,
  sees,
  type Store,
  type StoredDelivery,
  type StoredDocument,
  type StoreRecord,
} from "@tare/conversation";
import { randomBytes } from "node:crypto";
import { HttpError } from "../http/http_error.ts";
import { turnBehind } from "../sessions/event_log.ts";
import type { Teller } from "../sessions/session_types.ts";
import { type Reach, refusedUrl, SECRET_PREFIX } from "./send_webhook.ts";

/** What can be told. */
export const WEBHOOK_TYPES = ["turn.ended", "approval.asked"] as const;

/** What a webhook tells of. */
export type WebhookType = typeof WEBHOOK_TYPES[number];

/** What a webhook is set to. */
export interface WebhookSettings {
  readonly url: string;
  readonly types: readonly WebhookType[];
}

/** Why nothing is sent any more: the receiver said that it is gone, nothing got through for long, or somebody asked for it. */
export const DISABLED_REASONS = ["gone", "failing", "asked"] as const;

/** How it goes with a webhook. Stored beside its settings, so that who writes the one never writes over the other. */
export interface WebhookHealth {
  /** Since when nothing has got through; absent if the newest attempt did. */
  readonly failingSinceMs?: number;
  readonly disabled?: { readonly reason: typeof DISABLED_REASONS[number]; readonly atMs: number };
}

/** A webhook as it is stored. */
interface StoredWebhook extends WebhookSettings {
  readonly id: string;
  /** Name of the key that it is of: it hears of what is made with that. Absent: the owner's, which hears of all. */
  readonly by?: string | undefined;
  readonly createdAtMs: number;
  /** The newest first. */
  readonly secrets: readonly { readonly secret: string; readonly untilMs?: number }[];
}

/** A webhook, and how it goes with it. */
export type Webhook = StoredWebhook & WebhookHealth;

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
const HEALTH = "webhook_health";

/** After so many milliseconds webhooks are read again where other servers may have changed them. */
const FRESH_MS = 1_000;

/** Most webhooks of one key, and of the owner. */
const MAX_WEBHOOKS = 50;

/** How long the secret before signs too, in milliseconds. */
const OLD_SECRET_MS = 24 * 60 * 60_000;

/** Most characters of a text that is told. All of it is in the session. */
const MAX_TEXT = 10_000;

/** The webhooks of a server, or of several on one store: who is told of what. */
export class Webhooks {
  /** Where they may go. */
  readonly reach: Reach;
  readonly #store: Store;
  #known: { readonly byId: ReadonlyMap<string, Webhook>; readonly atMs: number } | undefined;
  #loading: Promise<void> | undefined;

  /** The webhooks in a store. */
  constructor({ store, reach }: { readonly store: Store; readonly reach: Reach }) {
    this.#store = store;
    this.reach = reach;
  }

  /** Those that somebody may see, the oldest first. @throws {StoreError} */
  async list(asker: Asker): Promise<readonly Webhook[]> {
    await this.#load();
    return this.#all().filter(({ by }) => sees(asker, by)).sort((one, other) =>
      one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1)
    );
  }

  /** The webhook of this id. @throws {HttpError} 404 if there is none for whoever asks. */
  async get(id: string, asker: Asker): Promise<Webhook> {
    const found = (await this.list(asker)).find((one) => one.id === id);
    if (found) return found;
    throw new HttpError(404, "not_found", `Cannot find webhook ${id}: there is none of this id.`);
  }

  /** Makes one. @throws {HttpError} 400 if its address can't be told, or there are too many. */
  async add(settings: WebhookSettings, asker: Asker): Promise<Webhook> {
    this.#assertReaches(settings.url);
    const by = nameOf(asker);
    await this.#load();
    if (this.#all().filter((one) => one.by === by).length >= MAX_WEBHOOKS) {
      const message =
        `Cannot add a webhook: ${asker.name} has ${MAX_WEBHOOKS}, and no more are kept. Remove one first.`;
      throw new HttpError(400, "invalid_request", message);
    }
    const made: StoredWebhook = {
      ...settings,
      id: `wh_${crypto.randomUUID()}`,
      ...(by !== undefined && { by }),
      createdAtMs: this.#store.now(),
      secrets: [{ secret: newWebhookSecret() }],
    };
    await this.#write([this.#document(made)]);
    return made;
  }

  /** Changes one, and says whether it is sent to. @throws {HttpError} 404, and 400 if its address can't be told. */
  async change(
    id: string,
    { isEnabled, ...settings }: { readonly isEnabled?: boolean } & Partial<WebhookSettings>,
    asker: Asker,
  ): Promise<Webhook> {
    await this.get(id, asker);
    if (settings.url !== undefined) this.#assertReaches(settings.url);
    const stored = await this.#stored(id);
    await this.#write([
      this.#document({ ...stored, ...settings }),
      ...(isEnabled === undefined ? [] : [
        healthRecord(id, isEnabled ? {} : { disabled: { reason: "asked", atMs: this.#store.now() } }),
      ]),
    ]);
    return await this.get(id, asker);
  }

  /** Gives one another secret. The one before signs too for a day. @throws {HttpError} 404 */
  async rotate(id: string, asker: Asker): Promise<string> {
    await this.get(id, asker);
    const stored = await this.#stored(id);
    const secret = newWebhookSecret();
    const [before] = stored.secrets;
    const old = before ? [{ secret: before.secret, untilMs: this.#store.now() + OLD_SECRET_MS }] : [];
    await this.#write([this.#document({ ...stored, secrets: [{ secret }, ...old] })]);
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
    await this.#write(this.#all().filter((one) => one.by === by).flatMap(({ id }) => removal(id)));
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
    const { disabled } = await this.get(id, asker);
    const found = await this.#store.getDelivery(delivery);
    if (found?.receiver !== id) {
      const message =
        `Cannot find delivery ${delivery}: webhook ${id} has none of this id, or it was too old.`;
      throw new HttpError(404, "not_found", message);
    }
    if (disabled) {
      const message =
        `Cannot send delivery ${delivery}: webhook ${id} is disabled (${disabled.reason}). Enable it first.`;
      throw new HttpError(409, "webhook_disabled", message);
    }
    const value: DeliveryValue = { ...valueOf(found), status: "waiting", tries: 0 };
    const { sessionId } = found;
    await this.#store.commit([{
      ...{ type: "delivery", id: delivery, receiver: id, value, dueInMs: 0 },
      ...(sessionId !== undefined && { sessionId }),
    }]);
    return { ...found, value, dueAtMs: this.#store.now() };
  }

  /** Settles when it is known who is told. @throws {StoreError} */
  async ready(): Promise<void> {
    const isFresh = this.#known && (!this.#store.shared || this.#store.now() - this.#known.atMs < FRESH_MS);
    if (!isFresh) await this.#load();
  }

  /** Those that are sent to, as of {@linkcode Webhooks.ready}. */
  enabled(): readonly Webhook[] {
    return this.#all().filter(({ disabled }) => !disabled);
  }

  /** Notes how it goes with one, with other records. What is disabled meanwhile stays so, and what is gone is gone. */
  async note(id: string, health: WebhookHealth, records: readonly StoreRecord[]): Promise<void> {
    await this.#load();
    const now = this.#known?.byId.get(id);
    await this.#write([...records, ...(now && !now.disabled ? [healthRecord(id, health)] : [])]);
  }

  /** The secrets that sign now. */
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
    throw new HttpError(
      400,
      "invalid_request",
      `Cannot tell ${JSON.stringify(url)} of anything: ${refused}.`,
    );
  }

  #all(): readonly Webhook[] {
    return [...this.#known?.byId.values() ?? []];
  }

  async #stored(id: string): Promise<StoredWebhook> {
    return storedIn(await this.#store.getDocument(WEBHOOK, id));
  }

  #document(value: StoredWebhook): StoreRecord {
    return { type: "document", kind: WEBHOOK, id: value.id, value };
  }

  async #write(records: readonly StoreRecord[]): Promise<void> {
    await this.#store.commit(records);
    await this.#load();
  }

  #load(): Promise<void> {
    const read = async () => {
      const atMs = this.#store.now();
      const [webhooks, healths] = await Promise.all(
        [WEBHOOK, HEALTH].map((kind) => this.#store.listDocuments(kind)),
      );
      const healthOf = new Map(healths!.map(({ id, value }) => [id, value as WebhookHealth]));
      const all = webhooks!.map(storedIn);
      this.#known = { byId: new Map(all.map((one) => [one.id, { ...one, ...healthOf.get(one.id) }])), atMs };
    };
    // What was changed after the last one had begun to read it may have missed.
    const loading = (this.#loading ?? Promise.resolve()).catch(() => {}).then(read)
      .finally(() => {
        if (this.#loading === loading) this.#loading = undefined;
      });
    return this.#loading = loading;
  }
}

/** What a delivery holds. */
export function valueOf({ value }: Pick<StoredDelivery, "value">): DeliveryValue {
  return value as DeliveryValue;
}

function storedIn(document: StoredDocument | undefined): StoredWebhook {
  return document?.value as StoredWebhook;
}

function healthRecord(id: string, value: WebhookHealth): StoreRecord {
  if (Object.keys(value).length === 0) return { type: "no_document", kind: HEALTH, id };
  return { type: "document", kind: HEALTH, id, value };
}

function removal(id: string): readonly StoreRecord[] {
  return [
    { type: "no_document", kind: WEBHOOK, id },
    { type: "no_document", kind: HEALTH, id },
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
    const { id: callId, name, arguments: text, why, askedAtMs, expiresAtMs } = event;
    return [{ callId, name, arguments: cut(text), why, askedAtMs, expiresAtMs }];
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
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
}
