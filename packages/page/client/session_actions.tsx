import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "./api/api.ts";
import { keepSessionWarm } from "./api/reports.ts";
import { ModelChoice } from "./model_choice.tsx";
import { Dialog } from "./parts/dialog.tsx";
import { dollars } from "./parts/format.ts";
import { addressOf } from "./place.ts";
import { CHANGED, sentenceOf } from "./talk/conversation.ts";

/** What is asked before it is done. */
type Asked = "rename" | "model" | "share" | "delete";

/** What can be done with a session as a whole. Those of other agents have no model of ours, no fork and no file. */
export function SessionActions({ id, kind, title }: {
  readonly id: string;
  readonly kind: "session" | "gateway";
  readonly title: string;
}): JSX.Element {
  const [asked, setAsked] = useState<Asked>();
  const [name, setName] = useState("");
  const [told, setTold] = useState<{ readonly text: string; readonly isTrouble: boolean }>();
  const path = { id };
  const say = (text: string, isTrouble = false) => setTold({ text, isTrouble });
  /** Does something, and tells what went wrong with it. */
  const attempt = async (act: () => Promise<void>) => {
    setTold(undefined);
    await act().catch((error) => say(sentenceOf(error), true));
  };
  const ask = (what: Asked) => {
    setTold(undefined);
    setName(title);
    setAsked(what);
  };
  const close = () => setAsked(undefined);
  const rename = () =>
    attempt(async () => {
      await api.json("POST /v1/sessions/{id}/title", { path, body: { title: name } });
      dispatchEvent(new Event(CHANGED));
    });
  const share = () =>
    attempt(async () => {
      const response = await api.send("GET /v1/sessions/{id}/export", { path, query: { format: "html" } });
      const [, file = "session.html"] =
        /filename="([^"]*)"/.exec(response.headers.get("content-disposition") ?? "") ?? [];
      save(await response.blob(), file);
      say(`Saved as ${file}.`);
    });
  const remove = () =>
    attempt(async () => {
      await api.send("DELETE /v1/sessions/{id}", { path });
      location.hash = "#/";
      dispatchEvent(new Event(CHANGED));
    });
  const fork = () =>
    attempt(async () => {
      const { session } = await api.json("POST /v1/sessions/{id}/fork", { path, body: {} });
      location.hash = addressOf({ view: "talk", id: session.id });
      dispatchEvent(new Event(CHANGED));
    });
  const warm = () =>
    attempt(async () => {
      const { until, maxUsd } = await keepSessionWarm(id);
      const time = new Date(until).toLocaleTimeString();
      say(`Kept warm until ${time} at most, for at most ${dollars(maxUsd)}.`);
    });
  const isOurs = kind === "session";
  return (
    <div class="deeds" role="group" aria-label="This session">
      <div class="row">
        <button type="button" class="quiet" onClick={() => ask("rename")}>Rename</button>
        {isOurs && <button type="button" class="quiet" onClick={() => ask("model")}>Model</button>}
        {isOurs && <button type="button" class="quiet" onClick={fork}>Fork</button>}
        {isOurs && <button type="button" class="quiet" onClick={() => ask("share")}>Share</button>}
        <button type="button" class="quiet" onClick={() => ask("delete")}>Delete</button>
        <button type="button" class="quiet" onClick={warm}>Keep warm for an hour</button>
      </div>
      <span role="status" class={told?.isTrouble ? "trouble" : ""}>{told?.text}</span>
      {asked === "rename" && (
        <Dialog title="Rename this session" act="Rename" does={rename} close={close}>
          <label for="new-title">Its title</label>
          <input
            id="new-title"
            value={name}
            maxLength={120}
            required
            pattern=".*\S.*"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Dialog>
      )}
      {asked === "model" && <ModelChoice id={id} told={say} close={close} />}
      {asked === "share" && (
        <Dialog title="Share as a file" act="Save the file" does={share} close={close}>
          <p>
            One HTML file that every browser shows. All that was said in turns that have ended is in it, and
            what tools were given and gave back: parts of files, output of commands, names and addresses. Only
            what the agent was told first isn’t. Read it before you pass it on.
          </p>
        </Dialog>
      )}
      {asked === "delete" && (
        <Dialog title="Delete this session?" act="Delete for good" isFinal does={remove} close={close}>
          <p>
            <bdi>{title}</bdi>
          </p>
          <p>
            {isOurs
              ? "What runs in it is cancelled. What was said goes for good, with the sessions of its helpers, what left " +
                "its prompt, and the way back from what it changed in files. Files stay as they are, forks of it stay, " +
                "and what it has cost stays in the sums."
              : "What is known here of it goes for good; in the agent itself it stays. What it has cost stays in the sums."}
          </p>
        </Dialog>
      )}
    </div>
  );
}

/** How long a file is kept for the browser to save it, in milliseconds. */
const KEPT_MS = 60_000;

/** Lets the browser save a file. */
function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  // Some browsers read it only then.
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
