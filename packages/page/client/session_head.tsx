import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, errorMessage } from "./api/api.ts";
import type { Head } from "./api/sessions.ts";
import { Field } from "./parts/field.tsx";
import { Icon, IconButton, MenuButton } from "./parts/icon.tsx";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars, share } from "./parts/format.ts";
import { COST_UNIT, isPriced, money, saved, withoutPrice } from "./parts/spent.tsx";
import { addressOf, type Place } from "./place.ts";
import { CHANGED } from "./chat/conversation.ts";

export function SessionHead(
  { place, head }: {
    readonly place: Exclude<Place, { view: "new" | "overview" }>;
    readonly head: Head | undefined;
  },
): JSX.Element {
  const { id, view } = place;
  const kind = place.view === "talk" ? "session" : place.kind;
  const views = [
    ...(kind === "session" ? [{ name: "Chat", to: { view: "talk", id } as const }] : []),
    { name: "Cost", to: { view: "calls", id, kind } as const },
    { name: "Prompt", to: { view: "prompt", id, kind } as const },
  ];
  return (
    <header class="session-head">
      <div class="title-row">
        <MenuButton />
        <h1>
          <bdi>{head?.title ?? "Session"}</bdi>
        </h1>
        {head && <SessionActions key={id} id={id} kind={kind} title={head.title} />}
      </div>
      <div class="tab-row">
        <nav class="tabs" aria-label="Views of the session">
          {views.map(({ name, to }) => (
            <a key={name} href={addressOf(to)} aria-current={to.view === view ? "page" : undefined}>{name}</a>
          ))}
        </nav>
        {head && <Facts id={id} head={head} />}
      </div>
    </header>
  );
}

/** Facts in one line. A narrow screen displays only model, cost and share of the window. */
function Facts({ id, head }: { readonly id: string; readonly head: Head }): JSX.Element {
  const { model, effort, agent, totals, prompt, forkedFrom } = head;
  const tokens = usePromptTokens(id, prompt);
  const facts: readonly (readonly [text: ComponentChildren, isMinor?: boolean])[] = [
    [model],
    [effort !== undefined && `effort ${effort}`, true],
    [agent, true],
    [money(totals)],
    [withoutPrice(totals), true],
    [totals.calls > 0 && `${saved(totals)} estimated saving`, true],
    [
      prompt?.windowTokens && tokens !== undefined && tokens > 0 && (
        <span title={`${formatCount(tokens)} of ${counted(prompt.windowTokens, "token")}`}>
          {share(tokens, prompt.windowTokens)} of the context window
        </span>
      ),
    ],
    [
      forkedFrom !== undefined && (
        <>
          forked from <a href={addressOf({ view: "talk", id: forkedFrom })}>another session</a>
        </>
      ),
      true,
    ],
  ];
  return (
    <p class="facts" title={isPriced(totals) ? undefined : COST_UNIT}>
      {facts.filter(([text]) => text).map(([text, isMinor = false], at) => (
        <span key={at} class={isMinor ? "minor" : undefined}>
          {at > 0 && " · "}
          <bdi>{text}</bdi>
        </span>
      ))}
    </p>
  );
}

/** Returns the tokens of the newest prompt; before the first call, such as after an import, of the next one. */
function usePromptTokens(id: string, prompt: Head["prompt"]): number | undefined {
  const [next, setNext] = useState<number>();
  const isUnsent = prompt?.tokens === 0;
  useEffect(() => {
    if (!isUnsent) return;
    const query = { limit: 1 };
    // A failure is reported by the view.
    api.json("GET /sessions/{id}/prompt", { path: { id }, query }).then(
      ({ tokens }) => setNext(tokens),
      () => {},
    );
  }, [id, isUnsent]);
  return isUnsent ? next : prompt?.tokens;
}

type OpenDialog = "rename" | "model" | "share" | "delete";

function SessionActions({ id, kind, title }: {
  readonly id: string;
  readonly kind: "session" | "gateway";
  readonly title: string;
}): JSX.Element {
  const [dialog, setDialog] = useState<OpenDialog>();
  const [name, setName] = useState("");
  const [notice, setNotice] = useState<{ readonly text: string; readonly isTrouble: boolean }>();
  const path = { id };
  const say = (text: string, isTrouble = false) => setNotice({ text, isTrouble });
  const attempt = async (act: () => Promise<void>) => {
    setNotice(undefined);
    await act().catch((error) => say(errorMessage(error), true));
  };
  const ask = (what: OpenDialog) => {
    setNotice(undefined);
    setName(title);
    setDialog(what);
  };
  const close = () => setDialog(undefined);
  const rename = () =>
    attempt(async () => {
      await api.json("POST /sessions/{id}/title", { path, body: { title: name } });
      dispatchEvent(new Event(CHANGED));
    });
  const share = () =>
    attempt(async () => {
      const response = await api.send("GET /sessions/{id}/export", { path, query: { format: "html" } });
      const [, file = "session.html"] =
        /filename="([^"]*)"/.exec(response.headers.get("content-disposition") ?? "") ?? [];
      save(await response.blob(), file);
      say(`Saved as ${file}.`);
    });
  const remove = () =>
    attempt(async () => {
      await api.send("DELETE /sessions/{id}", { path });
      location.hash = "#/";
      dispatchEvent(new Event(CHANGED));
    });
  const fork = () =>
    attempt(async () => {
      const { session } = await api.json("POST /sessions/{id}/fork", { path, body: {} });
      location.hash = addressOf({ view: "talk", id: session.id });
      dispatchEvent(new Event(CHANGED));
    });
  const warm = () =>
    attempt(async () => {
      const { until, maxUsd } = await api.json("POST /sessions/{id}/keep_alive", {
        path,
        body: { minutes: 60 },
      });
      const time = new Date(until).toLocaleTimeString();
      say(`Keep-alive until ${time} at the latest, for at most ${dollars(maxUsd)}.`);
    });
  const isOurs = kind === "session";
  return (
    <div class="actions">
      <button type="button" class="quiet menu" popovertarget="actions" aria-label="Actions">
        <Icon name="more" />
      </button>
      <div
        class="row"
        id="actions"
        popover="auto"
        role="group"
        aria-label="This session"
        onClickCapture={({ currentTarget }) => currentTarget.hidePopover()}
      >
        <IconButton icon="edit" act={() => ask("rename")}>Rename</IconButton>
        {isOurs && <IconButton icon="model" act={() => ask("model")}>Model</IconButton>}
        {isOurs && <IconButton icon="fork" act={fork}>Fork</IconButton>}
        {isOurs && <IconButton icon="share" act={() => ask("share")}>Share</IconButton>}
        <IconButton icon="clock" label="Keep cache alive for an hour" act={warm}>Keep cache</IconButton>
        <IconButton icon="delete" act={() => ask("delete")}>Delete</IconButton>
      </div>
      <span role="status" class={notice?.isTrouble ? "notice error" : "notice"}>{notice?.text}</span>
      {dialog === "rename" && (
        <Dialog title="Rename this session" act="Rename" does={rename} close={close}>
          <Field
            id="new-title"
            label="Title"
            value={name}
            change={setName}
            maxLength={120}
            required
            pattern=".*\S.*"
          />
        </Dialog>
      )}
      {dialog === "model" && <ModelChoice id={id} notify={say} close={close} />}
      {dialog === "share" && (
        <Dialog title="Export as a file" act="Save file" does={share} close={close}>
          <p>
            One HTML file that opens in any browser. It contains all completed turns, including tool arguments
            and results: parts of files, output of commands, names and addresses. Only the instructions are
            omitted. Review it before you share it.
          </p>
        </Dialog>
      )}
      {dialog === "delete" && (
        <Dialog title="Delete this session?" act="Delete permanently" isFinal does={remove} close={close}>
          <p>
            <bdi>{title}</bdi>
          </p>
          <p>
            {isOurs
              ? "Running work is cancelled. The messages are deleted permanently, with the sessions of its " +
                "subagents, evicted content and undo data. Files, forks and recorded costs remain."
              : "The data stored here is deleted permanently; the agent's own data and recorded costs remain."}
          </p>
        </Dialog>
      )}
    </div>
  );
}

/** Time until the object URL is revoked. */
const KEPT_MS = 60_000;

function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  // Some browsers read the file only after the click.
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

function ModelChoice({ id, notify, close }: {
  readonly id: string;
  readonly notify: (text: string, isTrouble?: boolean) => void;
  readonly close: () => void;
}): JSX.Element {
  const path = { id };
  const [before, setBefore] = useState({ model: "", effort: "" });
  const [model, setModel] = useState("");
  const [effort, setEffort] = useState("");
  const [efforts, setEfforts] = useState<readonly string[]>();
  useEffect(() => {
    const read = async () => {
      const { session, efforts } = await api.json("POST /sessions/{id}/model", { path, body: {} });
      const now = { model: session.model, effort: session.effort ?? "" };
      setBefore(now);
      setModel(now.model);
      setEffort(now.effort);
      setEfforts(efforts);
    };
    read().catch((error) => {
      notify(errorMessage(error), true);
      close();
    });
  }, []);
  const choose = async () => {
    const body = {
      ...(model.trim() !== before.model && { model: model.trim() }),
      ...(effort.trim() !== before.effort && { effort: effort.trim() || null }),
    };
    try {
      const { session } = await api.json("POST /sessions/{id}/model", { path, body });
      notify(`The next turn uses ${session.model}${session.effort ? `, effort ${session.effort}` : ""}.`);
      dispatchEvent(new Event(CHANGED));
    } catch (error) {
      notify(errorMessage(error), true);
    }
  };
  // Efforts of another model are unknown until it is selected.
  const isKnown = efforts !== undefined && model.trim() === before.model;
  return (
    <Dialog title="Model and effort" act="Apply" does={choose} close={close}>
      <Field id="session-model" label="Model" value={model} change={setModel} required />
      {isKnown
        ? (
          <>
            <label for="session-effort">Effort</label>
            <select
              id="session-effort"
              value={effort}
              onChange={(event) => setEffort(event.currentTarget.value)}
            >
              <option value="">model default</option>
              {efforts.map((one) => <option key={one}>{one}</option>)}
            </select>
          </>
        )
        : (
          <Field
            id="session-effort"
            label="Effort"
            value={effort}
            change={setEffort}
            placeholder="model default"
          />
        )}
      <p class="note">
        The cache contains nothing for another model: its first call pays for the whole prompt.
      </p>
    </Dialog>
  );
}

/** A modal dialog. Escape and "Cancel" close it, and the focus returns. */
function Dialog({ title, act, isFinal = false, does, close, children }: {
  readonly title: string;
  readonly act: string;
  /** Whether the action can't be undone, so that Enter doesn't confirm it. Default: false. */
  readonly isFinal?: boolean;
  /** Runs the action and displays its own errors. */
  readonly does: () => Promise<void>;
  readonly close: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [isBusy, setBusy] = useState(false);
  // Runs before the first key press, so that Escape closes the dialog.
  useLayoutEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} aria-labelledby={id} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isBusy) return;
          setBusy(true);
          does().then(() => box.current?.close());
        }}
      >
        <h2 id={id}>{title}</h2>
        {children}
        <div class="answers">
          <button type="submit" class={isFinal ? "danger" : "primary"}>{act}</button>
          <button type="button" autofocus={isFinal} onClick={() => box.current?.close()}>Cancel</button>
        </div>
      </form>
    </dialog>
  );
}
