import type { Content } from "@tare/messages";
import type { ResponseOf } from "../../../server/client.ts";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/api.ts";
import type { TurnBudget } from "../api/sessions.ts";
import { Field } from "../parts/field.tsx";
import { Trouble, useAttempt } from "../parts/trouble.tsx";
import { addressOf } from "../place.ts";
import { Composer } from "./composer.tsx";
import type { Sending } from "./conversation.ts";

export function NewSessionView(
  { supportsImages }: {
    readonly supportsImages: boolean | undefined;
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
      <h1>New session</h1>
      <Trouble text={trouble} />
      <Composer send={begin} {...(model.trim() === "" && { supportsImages })} />
      <details class="settings">
        <summary>Model, effort and instructions</summary>
        <Field id="model" label="Model" value={model} change={setModel} placeholder="server default" />
        <Field
          id="effort"
          label="Effort"
          value={effort}
          change={setEffort}
          placeholder="model default, or low, medium, high"
        />
        <label for="instructions">Instructions</label>
        <textarea
          id="instructions"
          rows={4}
          placeholder="server default"
          value={instructions}
          onInput={(event) => setInstructions(event.currentTarget.value)}
        />
      </details>
    </section>
  );
}

export function GatewayView({ forwardsTo = {} }: Pick<ResponseOf<"GET /agent">, "forwardsTo">): JSX.Element {
  const { chat, messages } = forwardsTo;
  const { origin } = location;
  return (
    <section class="new">
      <h1>Gateway</h1>
      <p>
        This server is a gateway between your agent and its provider, without an agent of its own. It reduces
        prompts and records the estimated saving in the <a href="#/overview">overview</a>.
      </p>
      <ul>
        {messages !== undefined && (
          <li>
            Anthropic Messages requests are forwarded to <bdi>{messages}</bdi>:{" "}
            <code>ANTHROPIC_BASE_URL={origin}</code>
          </li>
        )}
        <li>
          {chat === undefined
            ? "Chat Completions and Responses requests are not forwarded: set OPENAI_API_KEY or OPENAI_BASE_URL of the server."
            : (
              <>
                Chat Completions and Responses requests are forwarded to <bdi>{chat}</bdi>:{" "}
                <code>OPENAI_BASE_URL={origin}/v1</code>
              </>
            )}
        </li>
      </ul>
      <p>
        <code>tare run claude</code>{" "}
        in this server’s folder starts Claude Code through the gateway; other agents have names too. With{" "}
        <code>TARE_MODEL</code> the server has its own agent.
      </p>
    </section>
  );
}

const waiting = new Map<string, Sending>();

export function handOver(id: string, sending: Sending): void {
  waiting.set(id, sending);
  location.hash = addressOf({ view: "talk", id });
}

export function takeOver(id: string): Sending | undefined {
  const sending = waiting.get(id);
  waiting.delete(id);
  return sending;
}
