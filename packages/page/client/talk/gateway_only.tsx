import type { Told } from "@tare/server/client";
import type { JSX } from "preact";

/** What a server is that has no agent, and how one's own agent is put behind it. */
export function GatewayView({ passesOn = {} }: Pick<Told<"GET /v1/agent">, "passesOn">): JSX.Element {
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
