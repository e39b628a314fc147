import { join, resolve } from "@std/path";
import { createHash } from "node:crypto";
import {
  type InstructionPlaces,
  realPath,
  skillsOutside,
  skillTool,
  workplaceOf,
} from "@tare/tools/internal/instructions";
import { type McpSdk, mcpServers } from "@tare/tools/mcp";
import { programTool } from "@tare/tools/programs";
import { workspaceTools } from "@tare/tools";
import type { Sandbox } from "@tare/tools/sandbox";
import { BackgroundCommands } from "@tare/tools/shell";
import { openCheckpoints } from "@tare/tools/undo";
import { clearWorkspaces } from "@tare/tools/internal";
import type { Tool } from "@tare/messages";
import type { AgentOptions } from "@tare/server";
import type { Settings } from "./settings/settings.ts";

/** Options of {@linkcode openWorkspace}. */
interface WorkspaceOptions {
  /** Owner of the processes that commands start. */
  readonly owner: string;
  /** The sandbox of commands and of MCP servers' programs. Absent: they run without one. */
  readonly sandbox: Sandbox | undefined;
  /** Places of instructions and skills. Absent: sessions have none. */
  readonly places: InstructionPlaces | undefined;
  /** Loads the client of MCP servers. Absent: none may be configured. */
  readonly mcpSdk: (() => Promise<McpSdk>) | undefined;
  readonly log: (line: string) => void;
  readonly onError: (error: unknown) => void;
}

/** The agent's workspace: its tools, and what undoes their changes. */
export interface OpenWorkspace {
  /** Its options of the agent. */
  readonly options:
    & Pick<AgentOptions, "tools" | "advanced">
    & { readonly workspace: NonNullable<AgentOptions["workspace"]> };
  /** Starts the MCP servers. */
  readonly start: () => void;
  /** Ends commands, MCP servers and the record of changes. */
  readonly close: () => Promise<void>;
}

/** Opens the workspace that the settings name. */
export function openWorkspace(
  settings: Settings,
  { owner, sandbox, places, mcpSdk, log, onError }: WorkspaceOptions,
): OpenWorkspace {
  const workspace = resolve(settings.workspace);
  const hidden = resolve(settings.data);
  const env = environmentOf(settings);
  const mcp = mcpSdk && settings.mcp &&
    mcpServers(settings.mcp.servers, { sdk: mcpSdk, cwd: workspace, env, owner, sandbox, onWarning: log });
  // A data folder that somebody has chosen may serve another workspace tomorrow, and several servers may have it at once:
  // none sees the unfinished work of the others.
  const name = createHash("sha256").update(`${owner}\n${realPath(workspace)}`).digest("hex").slice(0, 16);
  const checkpoints = openCheckpoints({ workspace, hidden, folder: join(hidden, "undo", name), onError });
  const background = new BackgroundCommands();
  const web = sandbox?.proxy && { domains: sandbox.domains, socket: sandbox.proxy.socket };
  const { tools, shell } = agentTools(settings, { owner, sandbox, places, background, ...(web && { web }) });
  return {
    options: {
      workspace: {
        folder: realPath(workspace),
        ...(places && { place: workplaceOf({ places, hidden: realPath(hidden), shell }) }),
        checkpoints,
        background,
      },
      tools,
      ...(mcp && { advanced: { toolSource: mcp } }),
    },
    start: () => mcp?.start(),
    async close() {
      await background.close();
      await mcp?.close();
      await clearWorkspaces();
      await checkpoints.close();
    },
  };
}

/** Returns the environment of commands and of MCP servers' programs. */
function environmentOf({ path }: Pick<Settings, "path">): Readonly<Record<string, string>> {
  return path === undefined ? {} : { PATH: path };
}

/** Returns the agent's tools, and of them the shell if its commands run in a sandbox. */
export function agentTools(
  settings: Pick<Settings, "workspace" | "data" | "path" | "off">,
  { places, sandbox, archive, web, ...shell }:
    & Pick<WorkspaceOptions, "places" | "sandbox">
    & Pick<Parameters<typeof workspaceTools>[0], "archive" | "web">
    & { readonly owner?: string; readonly background: BackgroundCommands },
): { readonly tools: readonly Tool[]; readonly shell: Tool | undefined } {
  const skills = places && skillTool(skillsOutside(places));
  const tools: readonly Tool[] = [
    ...workspaceTools({
      workspace: resolve(settings.workspace),
      hidden: resolve(settings.data),
      ...(archive && { archive }),
      shell: { ...shell, env: environmentOf(settings), sandbox },
      ...(web && { web }),
    }),
    ...(skills ? [skills] : []),
    ...(settings.off.includes("programs") ? [] : [programTool()]),
  ];
  return { tools, shell: tools.find(({ definition }) => sandbox && definition.function.name === "shell") };
}
