"""requests with urllib3's Retry, as services use it; see operations.py."""

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from operations import BASE, CODES, FIRST_WAIT, RETRIES, TIMEOUT, Log, each, target

policy = Retry(total=RETRIES, backoff_factor=FIRST_WAIT, status_forcelist=CODES, raise_on_status=False)
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=policy))
for op in each():
    with Log(op) as line:
        answer = session.get(BASE + target(op), timeout=TIMEOUT)
        line["status"] = answer.status_code
        line["tries"] = 1 + len(answer.raw.retries.history)
