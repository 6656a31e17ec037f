// got with its own retries over a keepalive agent; see operations.mjs.
import http from "node:http";
import got from "got";
import { LONGEST_WAIT, RETRIES, TIMEOUT, operations } from "./operations.mjs";

const client = got.extend({
  agent: { http: new http.Agent({ keepAlive: true }) },
  retry: { limit: RETRIES, backoffLimit: LONGEST_WAIT },
  throwHttpErrors: false,
  timeout: { request: TIMEOUT },
});
await operations(async (url, line) => {
  const answer = await client.get(url);
  line.tries = answer.retryCount + 1;
  return answer.statusCode;
});
