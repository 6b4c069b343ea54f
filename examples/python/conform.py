"""Lets conformance judge the client of holdfast.py: see "Judging a client" in docs/PROTOCOL.md.

    go run github.com/holdfast-go/holdfast/cmd/holdfast/conformance@latest python3 conform.py
"""

import pathlib
import sys

import holdfast

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "scripts"


def answer(client, name, lease, word):
    """Carries out a command. Returns the answer, and the lease from then on."""
    verb, _, side = word[0].partition("-")
    if verb in ("try", "acquire"):
        ttl = int(word[1]) / 1000
        if side == "permit":
            lock = client.permit(name, 2, ttl)
        else:
            lock = {"": client.mutex_lock, "read": client.reader, "write": client.writer}[side](name, ttl)
        try:
            lease = lock.acquire(*(int(ms) / 1000 for ms in word[2:])) if verb == "acquire" else lock.try_acquire()
        except holdfast.Held:
            return "held", None
        return f"granted {lease.fence}", lease
    if word[0] == "release":
        try:
            lease.release()
        except holdfast.Lost:
            return "lost", None
        return "released", None
    if word[0] == "holds":
        return "yes" if lease is not None and lease.is_held() else "no", lease
    return f"error there is no command {word[0]}", lease


def main(address, name):
    host, port = address.rsplit(":", 1)
    client = holdfast.Client(host, int(port), SCRIPTS)
    lease = None
    print("ready rwmutex semaphore", flush=True)
    for line in sys.stdin:
        try:
            said, lease = answer(client, name, lease, line.split())
        except Exception as e:  # such as no answer from the server
            said = "error " + repr(e).replace("\n", " ")
        print(said, flush=True)


main(*sys.argv[1:])
