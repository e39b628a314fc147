export async function createSession(server: string): Promise<string> {
  const { id } = await (await post(`${server}/tare/v1/sessions`, {})).json();
  return id;
}

/** Plays a turn to its end. @throws {Error} if it doesn't complete. */
export async function playTurn(server: string, session: string, input: string): Promise<void> {
  const events = await (await post(`${server}/tare/v1/sessions/${session}/turns`, { input })).text();
  if (events.includes('"reason":"completed"')) return;
  throw new Error(`Cannot measure: a turn ended with ${events.slice(-4000)}`);
}

async function post(url: string, body: object): Promise<Response> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) {
    throw new Error(`Cannot measure: ${url} answered ${response.status} ${await response.text()}`);
  }
  return response;
}
