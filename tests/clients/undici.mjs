// undici's RetryAgent; see operations.mjs.
import { Agent, RetryAgent, request } from "undici";
import { CODES, FIRST_WAIT, LONGEST_WAIT, RETRIES, TIMEOUT, operations } from "./operations.mjs";

const agent = new Agent({ headersTimeout: TIMEOUT, bodyTimeout: TIMEOUT });
const dispatcher = new RetryAgent(agent, {
  maxRetries: RETRIES,
  minTimeout: FIRST_WAIT,
  maxTimeout: LONGEST_WAIT,
  statusCodes: CODES,
});
await operations(async (url) => {
  const answer = await request(url, { dispatcher });
  await answer.body.dump();
  return answer.statusCode;
});
await agent.close();
