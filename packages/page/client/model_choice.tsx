import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "./api/api.ts";
import { Dialog } from "./parts/dialog.tsx";
import { CHANGED, sentenceOf } from "./talk/conversation.ts";

/** What the next turns of a session ask, and how much that shall reason: chosen from what its model knows. */
export function ModelChoice({ id, told, close }: {
  readonly id: string;
  /** Tells what came of it. */
  readonly told: (text: string, isTrouble?: boolean) => void;
  readonly close: () => void;
}): JSX.Element {
  const path = { id };
  const [before, setBefore] = useState({ model: "", effort: "" });
  const [model, setModel] = useState("");
  const [effort, setEffort] = useState("");
  const [efforts, setEfforts] = useState<readonly string[]>();
  useEffect(() => {
    const read = async () => {
      const { session, efforts } = await api.json("POST /v1/sessions/{id}/model", { path, body: {} });
      const now = { model: session.model, effort: session.effort ?? "" };
      setBefore(now);
      setModel(now.model);
      setEffort(now.effort);
      setEfforts(efforts);
    };
    read().catch((error) => {
      told(sentenceOf(error), true);
      close();
    });
  }, []);
  const choose = async () => {
    const body = {
      ...(model.trim() !== before.model && { model: model.trim() }),
      ...(effort.trim() !== before.effort && { effort: effort.trim() || null }),
    };
    try {
      const { session } = await api.json("POST /v1/sessions/{id}/model", { path, body });
      told(`The next turn asks ${session.model}${session.effort ? `, effort ${session.effort}` : ""}.`);
      dispatchEvent(new Event(CHANGED));
    } catch (error) {
      told(sentenceOf(error), true);
    }
  };
  // What another model knows is told once it is chosen.
  const isKnown = efforts !== undefined && model.trim() === before.model;
  return (
    <Dialog title="Model and effort" act="Choose" does={choose} close={close}>
      <label for="session-model">Model</label>
      <input
        id="session-model"
        value={model}
        required
        onInput={(event) => setModel(event.currentTarget.value)}
      />
      <label for="session-effort">Effort</label>
      {isKnown
        ? (
          <select
            id="session-effort"
            value={effort}
            onChange={(event) => setEffort(event.currentTarget.value)}
          >
            <option value="">as the model likes</option>
            {efforts.map((one) => <option key={one}>{one}</option>)}
          </select>
        )
        : (
          <input
            id="session-effort"
            value={effort}
            placeholder="as the model likes"
            onInput={(event) => setEffort(event.currentTarget.value)}
          />
        )}
      <p class="note">
        Another model finds nothing of this session in the cache: its first call pays for the whole prompt.
      </p>
    </Dialog>
  );
}
