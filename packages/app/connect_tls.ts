/** Connects with a host by TLS at one of its addresses. */
export async function connectTls(
  { host, address, port }: { readonly host: string; readonly address: string; readonly port: number },
): Promise<Deno.TlsConn> {
  const connection = await Deno.connect({ hostname: address, port });
  try {
    return await Deno.startTls(connection, { hostname: host });
  } catch (error) {
    connection.close();
    throw error;
  }
}
