// axios with axios-retry over a keepalive agent; see operations.mjs.
import http from "node:http";
import axios from "axios";
import axiosRetry, { exponentialDelay, isNetworkOrIdempotentRequestError } from "axios-retry";
import { CODES, FIRST_WAIT, RETRIES, TIMEOUT, operations } from "./operations.mjs";

const client = axios.create({ httpAgent: new http.Agent({ keepAlive: true }), proxy: false, timeout: TIMEOUT });
axiosRetry(client, {
  retries: RETRIES,
  shouldResetTimeout: true,
  retryDelay: (count, error) => exponentialDelay(count, error, FIRST_WAIT),
  // By default it gives up on a timeout and on 429.
  retryCondition: (error) =>
    isNetworkOrIdempotentRequestError(error) || error.code === "ECONNABORTED" || CODES.includes(error.response?.status),
});
await operations(async (url, line) => {
  const answer = await client.get(url).catch((error) => {
    line.tries = (error.config?.["axios-retry"]?.retryCount ?? 0) + 1;
    if (error.response) return error.response;
    throw error;
  });
  line.tries = (answer.config["axios-retry"]?.retryCount ?? 0) + 1;
  return answer.status;
});
