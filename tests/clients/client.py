"""requests with urllib3's Retry, as services use it: client.py URL RETRIES"""

import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

url, retries = sys.argv[1], int(sys.argv[2])
session = requests.Session()
policy = Retry(total=retries, backoff_factor=0.2, status_forcelist=[429, 500, 502, 503, 504])
session.mount("http://", HTTPAdapter(max_retries=policy))
try:
    session.get(url, timeout=10).raise_for_status()
except requests.RequestException as error:
    sys.exit(f"python: {error}")
