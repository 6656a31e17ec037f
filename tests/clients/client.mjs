// fetch in a retry loop, as services write it: client.mjs URL RETRIES
const [url, retries] = [process.argv[2], Number(process.argv[3])];

async function get() {
  const answer = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  await answer.text();
  if (answer.status === 429 || answer.status >= 500) throw new Error(`status ${answer.status}`);
}

for (let attempt = 0, delay = 200; ; attempt++, delay *= 2) {
  try {
    await get();
    process.exit(0);
  } catch (error) {
    if (attempt === retries) {
      console.error("node:", error.cause ?? error);
      process.exit(1);
    }
  }
  await new Promise((resume) => setTimeout(resume, delay));
}
