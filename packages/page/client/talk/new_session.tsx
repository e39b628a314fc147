import type { Content } from "@tare/messages";
import type { Told } from "../../../server/client.ts";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/api.ts";
import type { TurnBudget } from "../api/sessions.ts";
import { Field } from "../parts/field.tsx";
import { Trouble, useAttempt } from "../parts/trouble.tsx";
import { addressOf } from "../place.ts";
import { Composer } from "./composer.tsx";
import type { Sending } from "./conversation.ts";

/** Where a session begins: its first input, and if wished its model and instructions. */
export function NewSessionView(
  { seesPictures }: {
    /** Whether the server's own model looks at pictures, as far as that is known. */
    readonly seesPictures: boolean | undefined;
  },
): JSX.Element {
  const [model, setModel] = useState("");
  const [effort, setEffort] = useState("");
  const [instructions, setInstructions] = useState("");
  const [trouble, attempt] = useAttempt();
  const begin = (input: Content, budget?: TurnBudget) =>
    attempt(async () => {
      const session = await api.json("POST /sessions", {
        body: {
          ...(model.trim() !== "" && { model: model.trim() }),
          ...(effort.trim() !== "" && { effort: effort.trim() }),
          ...(instructions.trim() !== "" && { instructions }),
        },
      });
      handOver(session.id, { input, ...(budget && { budget }) });
    });
  return (
    <section class="new">
      <h1>What is to be done?</h1>
      <Trouble text={trouble} />
      <Composer send={begin} {...(model.trim() === "" && { seesPictures })} />
      <details class="settings">
        <summary>Model, effort and instructions</summary>
        <Field id="model" label="Model" value={model} change={setModel} placeholder="the server's own" />
        <Field
          id="effort"
          label="Effort"
          value={effort}
          change={setEffort}
          placeholder="as the model likes, or low, medium, high"
        />
        <label for="instructions">Instructions</label>
        <textarea
          id="instructions"
          rows={4}
          placeholder="the server's own"
          value={instructions}
          onInput={(event) => setInstructions(event.currentTarget.value)}
        />
      </details>
    </section>
  );
}

/** What a server is that has no agent, and how one's own agent is put behind it. */
export function GatewayView({ passesOn = {} }: Pick<Told<"GET /agent">, "passesOn">): JSX.Element {
  const { chat, messages } = passesOn;
  const { origin } = location;
  return (
    <section class="new">
      <h1>A gateway</h1>
      <p>
        This server has no agent to talk to. It stands between your own agent and its provider, keeps the
        prompts small and the cache warm, and counts what that saves: the <a href="#/overview">overview</a>
        {" "}
        shows it.
      </p>
      <ul>
        {messages !== undefined && (
          <li>
            Messages go to <bdi>{messages}</bdi>: <code>ANTHROPIC_BASE_URL={origin}</code>
          </li>
        )}
        <li>
          {chat === undefined
            ? "Chat completions and responses go nowhere: OPENAI_API_KEY or OPENAI_BASE_URL of the server names their provider."
            : (
              <>
                Chat completions and responses go to <bdi>{chat}</bdi>:{" "}
                <code>OPENAI_BASE_URL={origin}/v1</code>
              </>
            )}
        </li>
      </ul>
      <p>
        <code>tare run claude</code>{" "}
        in this server’s folder starts Claude Code behind it, and other agents by their names. With{" "}
        <code>TARE_MODEL</code> the server has an agent of its own.
      </p>
    </section>
  );
}

/** First inputs of sessions, for the view that opens them. */
const waiting = new Map<string, Sending>();

/** Opens a session with an input that it begins with, or goes on with. */
export function handOver(id: string, sending: Sending): void {
  waiting.set(id, sending);
  location.hash = addressOf({ view: "talk", id });
}

/** Takes the first input of a session, once. */
export function takeOver(id: string): Sending | undefined {
  const sending = waiting.get(id);
  waiting.delete(id);
  return sending;
}
