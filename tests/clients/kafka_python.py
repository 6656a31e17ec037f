"""kafka-python's producer; see operations.py. BASE is HOST:PORT."""

import logging

from kafka import KafkaProducer

from operations import BASE, RETRIES, TIMEOUT, Log, each, target

logging.disable()
MILLIS = int(TIMEOUT * 1000)
producer = KafkaProducer(
    bootstrap_servers=BASE,
    retries=RETRIES,
    request_timeout_ms=MILLIS,
    delivery_timeout_ms=2 * MILLIS,
    max_block_ms=MILLIS,
    # librdkafka's mock cluster tells the versions it speaks in a way that this client does not read.
    api_version=(0, 11),
    enable_idempotence=False,
    # Its default is half a minute.
    reconnect_backoff_max_ms=1000,
)
for op in each():
    with Log(op):
        producer.send("orders", target(op).encode()).get(timeout=2 * TIMEOUT)
