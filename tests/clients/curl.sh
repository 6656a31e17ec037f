#!/bin/sh
# curl --retry; see operations.sh. (With several URLs in one process curl 7.88 loses its retries:
# after a 503 it goes on to the next URL.)
. "$(dirname "$0")/operations.sh"

get() {
    curl --silent --fail --max-time "$timeout" --retry "$retries" --retry-all-errors --output /dev/null "$1"
}

each_operation
