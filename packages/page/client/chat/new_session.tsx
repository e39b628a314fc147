import type { Content } from "@tare/messages";
import type { ResponseOf } from "../../../server/client.ts";
import { counted } from "@tare/server/internal/format";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/api.ts";
import type { TurnBudget } from "../api/sessions.ts";
import { Field } from "../parts/field.tsx";
import { MenuButton } from "../parts/icon.tsx";
import { Trouble, useAttempt } from "../parts/trouble.tsx";
import { addressOf } from "../place.ts";
import { Composer } from "./composer.tsx";
import type { Sending } from "./conversation.ts";

/** The server's agent; undefined until it is read, and if reading fails. Then an agent is assumed. */
export type ServersAgent = ResponseOf<"GET /agent"> | undefined;

const EXAMPLES = [
  "Explain what this project does and how it is structured.",
  "Run the tests, and fix those that fail.",
  "Review my uncommitted changes for mistakes.",
];

export function NewSessionView({ agent }: { readonly agent: ServersAgent }): JSX.Element {
  const [suggestion, setSuggestion] = useState<{ readonly text: string }>();
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
    <section class="home">
      <header class="view-head">
        <MenuButton />
        <h1>New session</h1>
      </header>
      <Trouble text={trouble} />
      <Composer
        send={begin}
        suggestion={suggestion}
        {...(model.trim() === "" && { supportsImages: agent?.supportsImages })}
      />
      <ul class="examples" aria-label="Examples">
        {EXAMPLES.map((text) => (
          <li key={text}>
            <button type="button" onClick={() => setSuggestion({ text })}>{text}</button>
          </li>
        ))}
      </ul>
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
      {/* Last, because what follows it would move when it arrives. */}
      {agent && <AgentFacts {...agent} />}
    </section>
  );
}

function AgentFacts(
  { workspace, model, windowTokens, sandbox, approvalRules }: NonNullable<ServersAgent>,
): JSX.Element {
  const facts: readonly (readonly [name: string, value: string | undefined])[] = [
    ["Folder", workspace],
    ["Model", model && `${model}, context window of ${counted(windowTokens, "token")}`],
    ["Commands", sandbox && commandsInWords(sandbox)],
    ["Approval", approvalInWords(approvalRules)],
  ];
  return (
    <dl class="agent-facts">
      {facts.filter(([, value]) => value).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <bdi>{value}</bdi>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function commandsInWords({ by, why, domains }: NonNullable<NonNullable<ServersAgent>["sandbox"]>): string {
  if (by === undefined) return `run with your permissions${why === undefined ? "" : `: ${why}`}`;
  return `run in a sandbox (${by}), ${
    domains.length === 0 ? "without network access" : `with network access to ${domains.join(", ")}`
  }`;
}

function approvalInWords(rules: NonNullable<ServersAgent>["approvalRules"]): string {
  const isAll = rules.some(({ tool, decision, paths, prefixes }) =>
    tool === "*" && decision === "allow" && !paths && !prefixes
  );
  if (isAll && rules.length === 1) return "not needed: every call runs at once";
  const most = "needed for all but reading and sandboxed commands";
  return rules.length === 0 ? most : `by ${counted(rules.length, "rule")}; otherwise ${most}`;
}

export function GatewayView({ forwardsTo = {} }: Pick<ResponseOf<"GET /agent">, "forwardsTo">): JSX.Element {
  const { chat, messages } = forwardsTo;
  const { origin } = location;
  return (
    <section class="home">
      <header class="view-head">
        <MenuButton />
        <h1>Gateway</h1>
      </header>
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
