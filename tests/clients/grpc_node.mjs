// @grpc/grpc-js with the retry policy of a service config; see operations.mjs. BASE is HOST:PORT.
import grpc from "@grpc/grpc-js";
import { BASE, FIRST_WAIT, LONGEST_WAIT, RETRIES, TIMEOUT, operations } from "./operations.mjs";

const retryPolicy = {
  maxAttempts: 1 + RETRIES,
  initialBackoff: `${FIRST_WAIT / 1000}s`,
  maxBackoff: `${LONGEST_WAIT / 1000}s`,
  backoffMultiplier: 2,
  retryableStatusCodes: ["UNAVAILABLE"],
};
const client = new grpc.Client(BASE, grpc.credentials.createInsecure(), {
  "grpc.service_config": JSON.stringify({ methodConfig: [{ name: [{}], retryPolicy }] }),
  "grpc.enable_http_proxy": 0,
  // Its default is two minutes.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1000,
});
const bytes = (it) => it;
await operations(
  (target) =>
    new Promise((well, fails) => {
      const deadline = Date.now() + TIMEOUT;
      const done = (error) => (error ? fails(error) : well());
      client.makeUnaryRequest("/lab.Orders/Get", bytes, bytes, Buffer.from(target), { deadline }, done);
    }),
);
client.close();
