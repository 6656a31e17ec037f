"""httpx with a tenacity decorator, as services use it; see operations.py."""

import httpx
from tenacity import retry, stop_after_attempt, wait_random_exponential

from operations import BASE, CODES, FIRST_WAIT, RETRIES, TIMEOUT, Log, each, target

client = httpx.Client(base_url=BASE, timeout=TIMEOUT)


@retry(stop=stop_after_attempt(RETRIES + 1), wait=wait_random_exponential(FIRST_WAIT, 1), reraise=True)
def get(path, line):
    line["tries"] = line.get("tries", 0) + 1
    answer = client.get(path)
    if answer.status_code in CODES:
        answer.raise_for_status()
    return answer


for op in each():
    with Log(op) as line:
        line["status"] = get(target(op), line).status_code
