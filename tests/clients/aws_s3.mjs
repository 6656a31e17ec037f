// The AWS SDK for JavaScript in its standard mode: reads objects; see operations.mjs.
import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { BASE, RETRIES, TIMEOUT, operations } from "./operations.mjs";

const client = new S3Client({
  endpoint: BASE,
  forcePathStyle: true,
  region: "us-east-1",
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
  maxAttempts: RETRIES + 1,
  requestHandler: { requestTimeout: TIMEOUT, throwOnRequestTimeout: true },
});
await operations(async (url, line) => {
  // The target /op/7 is the object 7 in the bucket op; /hot/hot is always the same.
  const [bucket, key = bucket] = new URL(url).pathname.slice(1).split("/");
  try {
    const answer = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
    await answer.Body.transformToString();
    line.tries = answer.$metadata.attempts;
    return answer.$metadata.httpStatusCode;
  } catch (error) {
    line.tries = error.$metadata?.attempts;
    if (error.$metadata?.httpStatusCode) return error.$metadata.httpStatusCode;
    throw error;
  }
});
