"""librdkafka's own mock cluster, one broker; prints its port, and ends when it is killed."""

import signal

from confluent_kafka import Producer

cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
brokers = cluster.list_topics(timeout=10).brokers
print(brokers[1].port, flush=True)
signal.pause()
