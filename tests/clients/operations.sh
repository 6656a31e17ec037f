# What the shell clients share: their command line and their log, as of operations.py.
# A process for each operation, as scripts do it; `get URL` is the client.
base=$1 operations=$2 retries=$3 timeout=$4 pause=$5 targets=$6

each_operation() {
    op=0
    while [ "$op" -lt "$operations" ]; do
        [ "$op" -gt 0 ] && sleep "$pause"
        case $targets in
        distinct) target="/op/$op" ;;
        *) target=/hot ;;
        esac
        began=$(date +%s%N)
        get "$base$target"
        code=$?
        nanos=$(($(date +%s%N) - began))
        printf '{"op":%d,"exit":%d,"seconds":%d.%09d}\n' "$op" "$code" $((nanos / 1000000000)) $((nanos % 1000000000))
        op=$((op + 1))
    done
}
