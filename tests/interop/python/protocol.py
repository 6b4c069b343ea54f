"""A Python program with the client of examples/python: protocol.py ADDRESS SCRIPTS NAME.

It carries out one command a line, and answers each; protocol_test.go says which. A kind is mutex, reader or writer.
Times are in nanoseconds of the clock that Go's tests read, too: on Linux, time.monotonic is CLOCK_MONOTONIC.
"""

import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"))

import holdfast

def say(*words):
    print(*(str(word).replace("\n", " ") for word in words), flush=True)


def main(address, scripts, name):
    host, port = address.split(":")
    client = holdfast.Client(host, int(port), scripts)
    kinds = {"mutex": client.mutex_lock, "reader": client.reader, "writer": client.writer}
    lease = None
    say("ready")
    for line in sys.stdin:
        word = line.split()
        try:
            if word[0] == "acquire":
                lease = kinds[word[1]](name, int(word[2]) / 1000).acquire()
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
