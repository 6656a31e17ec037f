"""Protocols that alarm simpler laws although nothing is wrong. `peers.py serve`, or `peers.py NAME SECONDS`, which
prints what became of it in one line of JSON."""
import asyncio, json, random, sys, time

HOST = "127.0.0.1"
STREAM, SINK, WORDS, HEDGE = 8090, 8091, 8092, 8093
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
CLOSE_NOTIFY = bytes([0x15, 3, 3, 0, 2, 1, 0])


def guarded(serve):
    async def one(reader, writer):
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The caller has left.
        finally:
            writer.close()
    return one


@guarded
async def stream(reader, writer):
    """Events for as long as somebody listens."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"6\r\nevent\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.2)


@guarded
async def sink(reader, writer):
    """Reads, and never says a word: syslog, fluentd, acks=0."""
    while await reader.read(65536):
        pass


@guarded
async def words(reader, writer):
    """Answers lines; a last word it does not answer."""
    while line := await reader.readline():
        if line.startswith((b"QUIT", CLOSE_NOTIFY)):
            return
        writer.write(line)


@guarded
async def hedge(reader, writer):
    """Quick, but one request in five takes its time."""
    while True:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.25 if random.random() < 0.2 else 0.002)
        writer.write(ANSWER)


async def serve():
    for port, peer in (STREAM, stream), (SINK, sink), (WORDS, words), (HEDGE, hedge):
        await asyncio.start_server(peer, HOST, port, backlog=1024)
    await asyncio.Event().wait()


async def listen(until):
    """Listens to a stream for some seconds, leaves in the middle of it, and comes again."""
    reader, writer = await asyncio.open_connection(HOST, STREAM)
    writer.write(b"GET /events HTTP/1.1\r\nHost: peers\r\n\r\n")
    leave = min(until, time.monotonic() + random.uniform(5, 60))
    while time.monotonic() < leave:
        await asyncio.wait_for(reader.readline(), 5)
    writer.close()


async def send(until):
    """Sends records that nobody acknowledges, for some seconds."""
    _, writer = await asyncio.open_connection(HOST, SINK)
    leave = min(until, time.monotonic() + random.uniform(5, 60))
    while time.monotonic() < leave:
        writer.write(b"<13>1 - host app - - - nothing is wrong\n" * random.randint(1, 5))
        await writer.drain()
        await asyncio.sleep(0.1)
    writer.close()


async def part(until):
    """A few exchanges, then a last word without waiting for an answer."""
    reader, writer = await asyncio.open_connection(HOST, WORDS)
    for _ in range(5):
        writer.write(b"SELECT 1\n")
        assert await asyncio.wait_for(reader.readline(), 5) == b"SELECT 1\n"
        await asyncio.sleep(0.02)
    writer.write(random.choice([b"QUIT\n", CLOSE_NOTIFY]))
    writer.close()
    await asyncio.sleep(0.1)


async def ask(number):
    reader, writer = await asyncio.open_connection(HOST, HEDGE)
    try:
        writer.write(b"GET /item/%d HTTP/1.1\r\nHost: peers\r\n\r\n" % number)
        answer = await reader.readexactly(len(ANSWER))
        assert answer == ANSWER
    finally:
        writer.close()


async def hedged(until):
    """Asks a second time where the answer takes longer than most, and leaves the slower one alone."""
    number = random.getrandbits(48)
    first = asyncio.create_task(ask(number))
    done, late = await asyncio.wait({first}, timeout=0.03)
    if not done:
        done, late = await asyncio.wait({first, asyncio.create_task(ask(number))}, return_when=asyncio.FIRST_COMPLETED)
    for slower in late:
        slower.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    done.pop().result()
    await asyncio.sleep(0.1)


async def call(one, together, until):
    failed, ended = [], 0

    async def again():
        nonlocal ended
        while time.monotonic() < until:
            ended += 1
            try:
                await one(until)
            except Exception as why:
                failed.append(repr(why))
                await asyncio.sleep(0.5)

    await asyncio.gather(*(again() for _ in range(together)))
    print(json.dumps({"ended": ended, "failed": len(failed), "why": failed[:3]}))


LOADS = {"listeners": (listen, 20), "senders": (send, 10), "talkers": (part, 5), "hedgers": (hedged, 4)}
if sys.argv[1] == "serve":
    asyncio.run(serve())
else:
    asyncio.run(call(*LOADS[sys.argv[1]], time.monotonic() + float(sys.argv[2])))
