"""A Python program with the client of examples/python: protocol.py ADDRESS SCRIPTS NAME.

It carries out one command a line, and answers each; protocol_test.go says which. A kind is mutex, reader or writer.
Times are in nanoseconds of the clock that Go's tests read, too: on Linux, time.monotonic is CLOCK_MONOTONIC.
"""

import pathlib
import sys
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"))

import holdfast

mutex = threading.Lock()


def say(*words):
    with mutex:
        print(*(str(word).replace("\n", " ") for word in words), flush=True)


def hammer(client, lock, kind, number, end, counter):
    try:
        while time.monotonic() < end:
            asked = time.monotonic_ns()
            lease = lock.acquire()
            granted = time.monotonic_ns()
            value = int(client.rdb.get(counter) or 0)
            time.sleep(0.001)
            if kind == "reader":
                if int(client.rdb.get(counter) or 0) != value:
                    say("error somebody wrote while others read")
            else:
                client.rdb.set(counter, value + 1)
            released = time.monotonic_ns()
            fence = lease.fence
            lease.release()
            say("turn", kind, number, asked, granted, released, fence)
    except Exception as e:  # told to the test
        traceback.print_exc()
        say("error", repr(e))


def main(address, scripts, name):
    host, port = address.split(":")
    client = holdfast.Client(host, int(port), scripts)
    kinds = {"mutex": client.mutex_lock, "reader": client.reader, "writer": client.writer}
    lease = None
    say("ready")
    for line in sys.stdin:
        word = line.split()
        try:
            if word[0] in ("acquire", "try"):
                lock = kinds[word[1]](name, int(word[2]) / 1000)
                lease = lock.acquire() if word[0] == "acquire" else lock.try_acquire()
                say("granted", time.monotonic_ns(), lease.fence)
            elif word[0] == "release":
                before = time.monotonic_ns()
                lease.release()
                say("released", before)
            elif word[0] == "detach":
                say("detached", time.monotonic_ns(), lease.detach(int(word[1]) / 1000))
            elif word[0] == "adopt":
                lease = client.adopt(word[1], int(word[2]) / 1000)
                say("granted", time.monotonic_ns(), lease.fence)
            elif word[0] == "weigh":
                say("weighed" if lease.weigh(1 if word[1] == "reader" else holdfast.EVERYTHING) else "held", time.monotonic_ns(), lease.fence)
            elif word[0] == "hammer":
                end = time.monotonic() + int(word[3]) / 1000
                threads = [
                    threading.Thread(target=hammer, args=(client, kinds[kind](name, int(word[4]) / 1000), kind, n, end, word[5]))
                    for kind in word[1].split(",")
                    for n in range(int(word[2]))
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                say("done", time.monotonic_ns())
            else:
                say("error", "no command", line)
        except holdfast.Held:
            say("held", time.monotonic_ns())
        except holdfast.Lost:
            say("lost", time.monotonic_ns())
        except Exception as e:  # told to the test
            traceback.print_exc()
            say("error", repr(e))


main(*sys.argv[1:])
