// Puts one process of pi behind a server of Tare's, which TARE_PI_URL names: `tare run pi` starts pi with this file.
import process from "node:process";

export default function (pi) {
  const { TARE_PI_URL: url, TARE_PI_CHAT: chat } = process.env;
  if (chat) pi.registerProvider("openai", { baseUrl: `${url}/v1` });
  pi.registerProvider("anthropic", { baseUrl: url });
}
