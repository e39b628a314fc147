/** Open connections that are never read. Disposing of them closes them. */
export interface Flood extends Disposable {
  readonly count: number;
}

const AT_ONCE = 50;

export async function flood(url: string, count: number, body = ""): Promise<Flood> {
  const { hostname, port } = new URL(url);
  const bytes = new TextEncoder().encode(body);
  const held: Deno.Conn[] = [];
  const open = async () => {
    while (held.length < count) {
      const conn = await Deno.connect({ hostname, port: Number(port) });
      held.push(conn);
      // The server may have closed it by now.
      await conn.write(bytes).catch(() => {});
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count) }, open));
  return {
    count: held.length,
    [Symbol.dispose]() {
      for (const conn of held) conn.close();
    },
  };
}

export const HALF_HEAD = "GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n";

export const HALF_BODY = "POST /tare/v1/sessions HTTP/1.1\r\nhost: 127.0.0.1\r\n" +
  'content-type: application/json\r\ncontent-length: 100\r\n\r\n{"metadata":';

export function requestFor(path: string): string {
  return `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`;
}
