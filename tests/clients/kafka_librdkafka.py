"""librdkafka's producer; see operations.py. BASE is HOST:PORT."""

from confluent_kafka import KafkaException, Producer

from operations import BASE, RETRIES, TIMEOUT, Log, each, target

MILLIS = int(TIMEOUT * 1000)
producer = Producer(
    {
        "bootstrap.servers": BASE,
        "retries": RETRIES,
        "socket.timeout.ms": MILLIS,
        "message.timeout.ms": 2 * MILLIS,
        # Its default is ten seconds.
        "reconnect.backoff.max.ms": 1000,
        "log_level": 0,
    }
)


def delivered(error, _message):
    if error is not None:
        failures.append(error)


for op in each():
    failures = []
    with Log(op):
        producer.produce("orders", target(op).encode(), on_delivery=delivered)
        producer.flush()
        if failures:
            raise KafkaException(failures[0])
