"""What the Python clients share: their command line and their log.

Command line: URL OPERATIONS RETRIES TIMEOUT PAUSE distinct|hot (seconds).
Each operation is one line of JSON when it has ended: op, status or error, seconds, and tries
where the library tells them.
"""

import json
import sys
import time

BASE = sys.argv[1]
OPERATIONS, RETRIES = int(sys.argv[2]), int(sys.argv[3])
TIMEOUT, PAUSE = float(sys.argv[4]), float(sys.argv[5])
DISTINCT = sys.argv[6] == "distinct"

# What services retry, and a first wait short enough for a test.
CODES = [429, 500, 502, 503, 504]
FIRST_WAIT = 0.02


def target(op):
    return f"/op/{op}" if DISTINCT else "/hot"


class Log:
    """Times one operation and prints its line; an exception is its end, not the program's."""

    def __init__(self, op):
        self.line = {"op": op}

    def __enter__(self):
        self.began = time.monotonic()
        return self.line

    def __exit__(self, kind, error, trace):
        ended = isinstance(error, Exception)
        if ended:
            self.line["error"] = f"{kind.__name__}: {error}"[:200]
        self.line["seconds"] = time.monotonic() - self.began
        print(json.dumps(self.line), flush=True)
        return ended


def each():
    """The numbers of the operations, a pause between them."""
    for op in range(OPERATIONS):
        if op:
            time.sleep(PAUSE)
        yield op
