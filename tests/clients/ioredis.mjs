// ioredis: it connects again by its default, for ever; see operations.mjs. BASE is HOST:PORT.
import Redis from "ioredis";
import { BASE, RETRIES, TIMEOUT, operations } from "./operations.mjs";

const [host, port] = BASE.split(":");
const client = new Redis({
  host,
  port: Number(port),
  connectTimeout: TIMEOUT,
  commandTimeout: TIMEOUT,
  maxRetriesPerRequest: RETRIES,
});
// Each operation tells its own error.
client.on("error", () => {});
await operations(async (target) => {
  await client.incr(target);
});
client.disconnect();
