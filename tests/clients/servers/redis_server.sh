#!/bin/bash
# Redis itself, in memory alone; prints its port, and ends when it is killed. Debian's redis-tools brings
# the program under another name, and starts no service.
echo 6379
exec -a redis-server redis-check-rdb --bind 127.0.0.1 --port 6379 --save '' --appendonly no --logfile /dev/null
