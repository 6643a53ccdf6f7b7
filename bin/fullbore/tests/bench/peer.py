"""A server for the bench to measure; its third argument selects how it behaves.

Usage: peer.py PORT LIBRARY MODE, on 127.0.0.1, plain HTTP/1.1 with keep-alive and single ranges. Modes:

  honest     serves files as they are
  wrong      flips the last byte of every body
  short      promises whole bodies and closes 100 bytes before their end
  slow       spends 5 ms of processor time on every 64 KiB, so no more than 105 Mb/s per second of processor time
  ends       serves honestly until the measured clients have come, and a little longer; then complains and exits with 3
  refuses    complains and exits with 3 at once
  choosy     answers requests for a range, and whole files with 404
  deaf       never listens
  elsewhere  listens on a port of its own choice
"""

import itertools
import os
import re
import socket
import subprocess
import sys
import threading
import time

CHUNK_BYTES = 64 << 10
SLOW_SECONDS_PER_CHUNK = 0.005
# The bench looks whether the server listens, and compares bytes over two connections, before it measures with eight.
MEASURED_FROM = 8


def complain_and_exit():
    print("peer.py: this server has had enough", file=sys.stderr, flush=True)
    os._exit(3)


def send_body(connection, mode, file, start, end):
    while start < end:
        chunk = os.pread(file, min(CHUNK_BYTES, end - start), start)
        start += len(chunk)
        if mode == "wrong" and start == end:
            chunk = chunk[:-1] + bytes([chunk[-1] ^ 1])
        if mode == "short" and start == end:
            connection.sendall(chunk[:-100])
            raise ConnectionError("enough")
        if mode == "slow":
            until = time.thread_time() + SLOW_SECONDS_PER_CHUNK
            while time.thread_time() < until:
                pass
        connection.sendall(chunk)


def answer(connection, mode, library, head):
    path = re.match(rb"GET /(\S+) HTTP/1.1\r\n", head).group(1).decode()
    file = os.open(os.path.join(library, path), os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        asked = re.search(rb"\r\nrange: *bytes=(\d+)-(\d+)\r\n", head, re.IGNORECASE)
        start, end, status, more = 0, size, "200 OK", ""
        if mode == "choosy" and not asked:
            start, end, status = 0, 0, "404 Not Found"
        if asked:
            start, end = int(asked.group(1)), min(int(asked.group(2)) + 1, size)
            status = "206 Partial Content"
            more = f"Content-Range: bytes {start}-{end - 1}/{size}\r\n"
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {end - start}\r\n{more}\r\n".encode())
        send_body(connection, mode, file, start, end)
    finally:
        os.close(file)


def serve(connection, mode, library):
    received = b""
    try:
        while True:
            while b"\r\n\r\n" not in received:
                more = connection.recv(4096)
                if not more:
                    return
                received += more
            head, received = received.split(b"\r\n\r\n", 1)
            answer(connection, mode, library, head + b"\r\n")
    except OSError:
        pass  # the client has gone, or this was to be short
    finally:
        connection.close()


def main():
    port, library, mode = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    if mode == "refuses":
        complain_and_exit()
    # A child that would outlive its parent, as a careless server's might.
    subprocess.Popen(["sleep", "600"])
    if mode == "deaf":
        time.sleep(600)
    listener = socket.create_server(("127.0.0.1", 0 if mode == "elsewhere" else port), backlog=128)
    for accepted in itertools.count(1):
        connection, _ = listener.accept()
        if mode == "ends" and accepted == MEASURED_FROM:
            threading.Timer(0.2, complain_and_exit).start()
        threading.Thread(target=serve, args=(connection, mode, library), daemon=True).start()


main()
