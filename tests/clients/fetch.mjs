// fetch of Node itself in a retry loop, as services write it; see operations.mjs.
import { setTimeout as sleep } from "node:timers/promises";
import { CODES, FIRST_WAIT, RETRIES, TIMEOUT, operations } from "./operations.mjs";

async function get(url) {
  const answer = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT) });
  await answer.text();
  if (CODES.includes(answer.status)) throw new Error(`status ${answer.status}`);
  return answer.status;
}

await operations(async (url, line) => {
  for (let attempt = 0, delay = FIRST_WAIT; ; attempt++, delay *= 2) {
    line.tries = attempt + 1;
    try {
      return await get(url);
    } catch (error) {
      if (attempt === RETRIES) throw error;
    }
    await sleep(delay);
  }
});
