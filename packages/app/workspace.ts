import { join, resolve } from "@std/path";
import { createHash } from "node:crypto";
import {
  environmentDescription,
  type InstructionPlaces,
  realPath,
  skillsOutside,
  skillTool,
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

interface WorkspaceOptions {
  readonly owner: string;
  /** Sandbox of commands and MCP servers. Absent: none. */
  readonly sandbox: Sandbox | undefined;
  /** Locations of instructions and skills. Absent: none. */
  readonly places: InstructionPlaces | undefined;
  /** Loads the client of MCP servers. Absent: MCP isn't available. */
  readonly mcpSdk: (() => Promise<McpSdk>) | undefined;
  readonly log: (line: string) => void;
  readonly onError: (error: unknown) => void;
}

export interface OpenWorkspace {
  readonly options:
    & Pick<AgentOptions, "tools" | "advanced">
    & { readonly workspace: NonNullable<AgentOptions["workspace"]> };
  readonly start: () => void;
  readonly close: () => Promise<void>;
}

export function openWorkspace(
  settings: Settings,
  { owner, sandbox, places, mcpSdk, log, onError }: WorkspaceOptions,
): OpenWorkspace {
  const workspace = resolve(settings.workspace);
  const hidden = resolve(settings.data);
  const env = environmentOf(settings);
  const mcp = mcpSdk && settings.mcp &&
    mcpServers(settings.mcp.servers, { sdk: mcpSdk, cwd: workspace, env, owner, sandbox, onWarning: log });
  // Checkpoints are separate for each workspace and server: a data folder may have several of both.
  const name = createHash("sha256").update(`${owner}\n${realPath(workspace)}`).digest("hex").slice(0, 16);
  const checkpoints = openCheckpoints({ workspace, hidden, folder: join(hidden, "undo", name), onError });
  const background = new BackgroundCommands();
  const web = sandbox?.proxy && { domains: sandbox.domains, socket: sandbox.proxy.socket };
  const { tools, shell } = agentTools(settings, { owner, sandbox, places, background, ...(web && { web }) });
  return {
    options: {
      workspace: {
        folder: realPath(workspace),
        ...(places && { place: environmentDescription({ places, hidden: realPath(hidden), shell }) }),
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

function environmentOf({ path }: Pick<Settings, "path">): Readonly<Record<string, string>> {
  return path === undefined ? {} : { PATH: path };
}

/** Returns the agent's tools, and the shell tool if it is sandboxed. */
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
