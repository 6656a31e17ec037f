"""aiohttp with aiohttp-retry, as services use it; see operations.py."""

import asyncio

import aiohttp
from aiohttp_retry import ExponentialRetry, RetryClient

from operations import BASE, CODES, FIRST_WAIT, RETRIES, TIMEOUT, Log, each, target

# Without its list of exceptions aiohttp-retry lets a timeout pass.
POLICY = ExponentialRetry(
    attempts=RETRIES + 1,
    start_timeout=FIRST_WAIT,
    statuses=CODES,
    exceptions={aiohttp.ClientError, asyncio.TimeoutError},
)


async def main():
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with RetryClient(retry_options=POLICY, timeout=timeout) as client:
        for op in each():
            with Log(op) as line:
                async with client.get(BASE + target(op)) as answer:
                    await answer.read()
                    line["status"] = answer.status


asyncio.run(main())
