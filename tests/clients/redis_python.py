"""redis-py with the retries of its default, ten; see operations.py. BASE is HOST:PORT."""

import redis

from operations import BASE, TIMEOUT, Log, each, target

host, port = BASE.rsplit(":", 1)
client = redis.Redis(host=host, port=int(port), socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
for op in each():
    with Log(op):
        client.incr(target(op))
