"""A Python program that shares locks: rival.py FORM ADDRESS KEY POLL_MS.

The form is redis-py: the Lock of Redis' client for Python. It carries out one command a line, and
answers each; rival.go says which. Times are in nanoseconds of the clock that Go's tests read, too:
on Linux, time.monotonic is CLOCK_MONOTONIC.
"""

import sys
import threading
import time

import redis

mutex = threading.Lock()


def say(*words):
    with mutex:
        print(*(str(word).replace("\n", " ") for word in words), flush=True)


def take(lock, ttl, blocking=True):
    lock.timeout = ttl / 1000
    return lock.acquire(blocking=blocking)


def give(lock):
    """Says whether the lock was its."""
    try:
        lock.release()
        return True
    except redis.exceptions.LockError:
        return False


def hammer(rdb, new_lock, number, end, ttl, counter):
    try:
        lock = new_lock()
        while time.monotonic() < end:
            asked = time.monotonic_ns()
            take(lock, ttl)
            granted = time.monotonic_ns()
            value = rdb.get(counter)
            time.sleep(0.001)
            rdb.set(counter, int(value or 0) + 1)
            released = time.monotonic_ns()
            say("turn" if give(lock) else "refused", number, asked, granted, released)
    except Exception as e:  # told to the test
        say("error", repr(e))


def main(form, address, key, poll):
    host, port = address.split(":")
    rdb = redis.Redis(host=host, port=int(port))

    def new_lock():
        return rdb.lock(key, timeout=1, sleep=int(poll) / 1000)

    lock = new_lock()
    say("ready")
    for line in sys.stdin:
        word = line.split()
        try:
            if word[0] == "acquire":
                take(lock, int(word[1]))
                say("granted", time.monotonic_ns())
            elif word[0] == "try":
                say("granted" if take(lock, int(word[1]), blocking=False) else "held", time.monotonic_ns())
            elif word[0] == "release":
                before = time.monotonic_ns()
                say("released" if give(lock) else "refused", before)
            elif word[0] == "hammer":
                end = time.monotonic() + int(word[2]) / 1000
                threads = [
                    threading.Thread(target=hammer, args=(rdb, new_lock, n, end, int(word[3]), word[4]))
                    for n in range(int(word[1]))
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                say("done", time.monotonic_ns())
            else:
                say("error", "no command", line)
        except Exception as e:  # told to the test
            say("error", repr(e))


main(*sys.argv[1:])
