"""gRPC with the retry policy of a service config; see operations.py. BASE is HOST:PORT."""

import json

import grpc

from operations import BASE, FIRST_WAIT, RETRIES, TIMEOUT, Log, each, target

config = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 1 + RETRIES,
                "initialBackoff": f"{FIRST_WAIT}s",
                "maxBackoff": "0.2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
options = [
    ("grpc.service_config", json.dumps(config)),
    ("grpc.enable_http_proxy", 0),
    # Its default is two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
with grpc.insecure_channel(BASE, options=options) as channel:
    get = channel.unary_unary("/lab.Orders/Get")
    for op in each():
        with Log(op):
            get(target(op).encode(), timeout=TIMEOUT)
