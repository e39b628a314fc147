// Redirects one process of pi to the server at TARE_PI_URL. `tare run pi` loads this file.
import process from "node:process";

export default function (pi) {
  const { TARE_PI_URL: url, TARE_PI_CHAT: chat } = process.env;
  if (chat) pi.registerProvider("openai", { baseUrl: `${url}/v1` });
  pi.registerProvider("anthropic", { baseUrl: url });
}
