import type { ContentBlock, EmbeddedResource, ResourceLink } from "@agentclientprotocol/sdk";
import { fromFileUrl, isAbsolute, relative } from "@std/path";
import type { Content, ContentPart } from "@tare/messages";
import { fenced } from "@tare/server/internal/format";

/** Converts an editor's prompt: workspace files by relative path, embedded text at the end. */
export function promptContent(blocks: readonly ContentBlock[], workspace?: string): Content {
  const parts: ContentPart[] = [];
  let text = "";
  let appendix = "";
  const push = (part: ContentPart) => {
    if (text !== "") parts.push({ type: "text", text: text });
    text = "";
    parts.push(part);
  };
  for (const block of blocks) {
    switch (block.type) {
      case "text":
        text += block.text;
        break;
      case "image":
        push({ type: "image_url", image_url: { url: dataUrl(block.mimeType, block.data) } });
        break;
      case "audio":
        throw new RangeError("Cannot send the prompt: audio is not supported. Use text, images and files.");
      case "resource_link":
        text += link(block, workspace);
        break;
      case "resource": {
        const { resource } = block;
        const name = nameOf(resource.uri, workspace);
        if ("text" in resource) {
          text += link({ uri: resource.uri, name }, workspace);
          appendix += `\n\n${name}:\n${fenced(resource.text)}`;
        } else push(blobPart(resource, name));
      }
    }
  }
  text += appendix;
  if (parts.length === 0) return text;
  if (text !== "") parts.push({ type: "text", text: text });
  return parts;
}

export function contentBlocks(content: Content): ContentBlock[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return content.map((part): ContentBlock => {
    if (part.type === "text") return part;
    if (part.type !== "image_url") return { type: "text", text: `(${part.type})` };
    const { url } = part.image_url;
    const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
    return mimeType !== undefined && data !== undefined
      ? { type: "image", mimeType, data }
      : { type: "text", text: `![](${url})` };
  });
}

type Blob = Extract<EmbeddedResource["resource"], { readonly blob: string }>;

function blobPart({ blob, mimeType }: Blob, filename: string): ContentPart {
  const url = dataUrl(mimeType ?? "application/octet-stream", blob);
  return mimeType?.startsWith("image/")
    ? { type: "image_url", image_url: { url } }
    : { type: "file", file: { filename, file_data: url } };
}

function dataUrl(mimeType: string, base64: string): string {
  return `data:${mimeType};base64,${base64}`;
}

function link({ uri, name }: Pick<ResourceLink, "uri" | "name">, workspace: string | undefined): string {
  const path = nameOf(uri, workspace);
  return path === name || path.endsWith(`/${name}`) ? path : `[${name}](${path})`;
}

/** Returns a file's path with its lines, relative inside the workspace; other addresses are unchanged. */
function nameOf(uri: string, workspace: string | undefined): string {
  const url = URL.parse(uri);
  if (url?.protocol !== "file:") return uri;
  const lines = decodeURIComponent(url.hash);
  url.hash = "";
  url.search = "";
  const path = fromFileUrl(url);
  const inside = workspace === undefined ? ".." : relative(workspace, path);
  return `${/^\.\.(?:[\\/]|$)/.test(inside) || isAbsolute(inside) ? path : inside || "."}${lines}`;
}
