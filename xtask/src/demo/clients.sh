#!/bin/sh
# The callers of the demo. They know nothing of the governor: it gets this same file.
#   clients.sh STORM-CLIENT ADDRESS RATE LENGTH CURLS
storm_client=$1 address=$2 rate=$3 length=$4 curls=$5

# What many scripts do: try again, and again.
curl_caller() {
    trap 'kill "$!" 2>/dev/null; exit' TERM
    while :; do
        curl --silent --output /dev/null --max-time 1 \
            --retry 3 --retry-all-errors --retry-delay 1 "http://$address/" &
        if wait "$!"; then echo 'curl ok'; else echo 'curl failed'; fi
        sleep 0.5 &
        wait "$!"
    done
}

callers=
while [ "$curls" -gt 0 ]; do
    curl_caller &
    callers="$callers $!"
    curls=$((curls - 1))
done

# A legacy client: a pool of threads, a new connection for each request, a second of
# patience, up to three retries, no jitter.
"$storm_client" loop "$address" --speak http --rate "$rate" --threads 800 --for "$length" \
    --answer-timeout 1s --tries 4 --delay 100ms --backoff 2
status=$?

# shellcheck disable=SC2086 # one word for each caller
kill $callers
wait
exit "$status"
