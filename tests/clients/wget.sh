#!/bin/sh
# wget with its retries and without a wait; see operations.sh.
. "$(dirname "$0")/operations.sh"

get() {
    wget --quiet --tries=$((retries + 1)) --waitretry=0 --retry-connrefused \
        --retry-on-http-error=429,500,502,503,504 --timeout="$timeout" -O /dev/null "$1"
}

each_operation
