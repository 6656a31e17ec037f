// What the Node clients share: their command line and their log.
//
// Command line: URL OPERATIONS RETRIES TIMEOUT PAUSE distinct|hot (seconds).
// Each operation is one line of JSON when it has ended: op, status or error, seconds, and tries
// where the library tells them.
import { setTimeout as sleep } from "node:timers/promises";

const [base, count, tries, patience, rest, targets] = process.argv.slice(2);
export const BASE = base;
export const RETRIES = Number(tries);
export const TIMEOUT = Number(patience) * 1000;

// What services retry, and waits short enough for a test.
export const CODES = [429, 500, 502, 503, 504];
export const FIRST_WAIT = 20;
export const LONGEST_WAIT = 200;

/// Calls `perform(url, line)` for each operation; what it throws is the operation's end.
export async function operations(perform) {
  for (let op = 0; op < Number(count); op++) {
    if (op > 0) await sleep(Number(rest) * 1000);
    const line = { op };
    const began = performance.now();
    try {
      line.status = await perform(base + (targets === "distinct" ? `/op/${op}` : "/hot"), line);
    } catch (error) {
      line.error = `${error.name}: ${error.cause?.code ?? error.code ?? error.message}`.slice(0, 200);
    }
    line.seconds = (performance.now() - began) / 1000;
    console.log(JSON.stringify(line));
  }
}
