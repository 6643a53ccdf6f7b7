"""A client that sends what no library sends: TLS by hand, with tlslite-ng.

Run as: tls_by_hand.py PORT. Prints a line for each case: its name, a colon, and how the server reacted, up to the end
of the connection. An alert is "fatal 10" or "warning 0", by its number (RFC 8446 appendix B.2). The expected results are in
tls_by_hand.rs.
"""

import socket
import sys

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.constants import ContentType
from tlslite.errors import TLSAbruptCloseError
from tlslite.messages import ClientHello, Message

SECONDS_MAX = 60
REQUEST = b"GET /a.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
LEVELS = {1: "warning", 2: "fatal"}
PORT = int(sys.argv[1])


def record(content_type, content):
    """A record that carries `content`, which may be empty and of any type."""
    return Message(content_type, bytearray(content))


class Heard(Exception):
    """A handshake that is broken on purpose, and its result."""


class Client(TLSConnection):
    """A client that can send something else than its Finished."""

    instead_of_finished = None

    def _sendMsgs(self, messages):
        if self.instead_of_finished is None:
            yield from super()._sendMsgs(messages)
            return
        yield from super()._sendMsgs(messages[:-1])
        self.say(*self.instead_of_finished)
        raise Heard(self.outcome())

    def say(self, *records):
        try:
            for each in records:
                for _ in self._recordLayer.sendRecord(each):
                    pass
        except (BrokenPipeError, ConnectionResetError):
            pass  # what the server sent before it closed can still be read

    def use_next_keys(self):
        session = self.session
        session.cl_app_secret, session.sr_app_secret = self._recordLayer.calcTLS1_3KeyUpdate_reciever(
            session.cipherSuite, session.cl_app_secret, session.sr_app_secret
        )

    def expect_next_keys(self):
        session = self.session
        session.cl_app_secret, session.sr_app_secret = self._recordLayer.calcTLS1_3KeyUpdate_sender(
            session.cipherSuite, session.cl_app_secret, session.sr_app_secret
        )

    def outcome(self):
        """What the server sends until it ends the connection, and how it ends it."""
        heard = []
        while True:
            try:
                header, parser = next(r for r in self._recordLayer.recvRecord() if r not in (0, 1))
            except TLSAbruptCloseError:
                return "; ".join(heard + ["end"])
            except ConnectionResetError:
                return "; ".join(heard + ["reset"])
            except socket.timeout:
                return "; ".join(heard + ["silence"])
            heard += self.hear(header.type, parser.bytes, heard)

    def hear(self, content_type, content, heard):
        if content_type == ContentType.alert:
            return ["%s %d" % (LEVELS[content[0]], content[1])]
        if content_type == ContentType.application_data:
            return ["data"] if "data" not in heard else []
        if content_type == ContentType.handshake and content[0] == 24:
            self.expect_next_keys()
            return ["new keys"]
        return []  # tickets


def dial():
    stream = socket.create_connection(("127.0.0.1", PORT), timeout=SECONDS_MAX)
    stream.settimeout(SECONDS_MAX)
    return stream


def shake_hands(version, instead_of_finished=None):
    client = Client(dial())
    client.instead_of_finished = instead_of_finished
    settings = HandshakeSettings()
    settings.minVersion = settings.maxVersion = version
    client.handshakeClientCert(settings=settings)
    return client


def after_handshake(version, *records):
    client = shake_hands(version)
    client.say(*records)
    return client.outcome()


def for_finished(*records):
    try:
        shake_hands((3, 4), records)
    except Heard as heard:
        return str(heard)
    raise AssertionError("the handshake went on")


def first_words(words):
    """Without keys, alerts can be read unencrypted."""
    stream = dial()
    stream.sendall(words)
    heard = b""
    while True:
        try:
            some = stream.recv(4096)
        except ConnectionResetError:
            return heard.hex() + "; reset"
        if not some:
            break
        heard += some
    if len(heard) == 7 and heard[0] == ContentType.alert:
        return "%s %d; end" % (LEVELS[heard[5]], heard[6])
    return heard.hex() + "; end"


def key_update(pieces, request):
    """A KeyUpdate in records of these sizes, and a request under the new keys."""
    client = shake_hands((3, 4))
    message, start = [24, 0, 0, 1, request], 0
    for size in pieces:
        client.say(record(22, message[start : start + size]))
        start += size
    client.use_next_keys()
    client.say(record(23, REQUEST))
    return client.outcome()


def damaged(version):
    """A record that does not open, and half a megabyte that nobody will read."""
    client = shake_hands(version)
    try:
        client.sock.sendall(b"\x17\x03\x03\x00\x40" + bytes(0x40) + bytes(500_000))
    except (BrokenPipeError, ConnectionResetError):
        return "reset"
    return client.outcome()


def renegotiation():
    hello = ClientHello().create((3, 3), bytearray(32), bytearray(0), [0xC02B])
    return after_handshake((3, 3), hello)


def hello_of(size):
    """A ClientHello of `size` bytes in records of maximal size."""
    body = b"\x03\x03" + bytes(32) + b"\x00\x00\x02\xc0\x2b\x01\x00"
    filling = size - 4 - len(body) - 2 - 4
    extensions = b"\x00\xfa" + filling.to_bytes(2, "big") + bytes(filling)
    message = b"\x01" + (size - 4).to_bytes(3, "big") + body + len(extensions).to_bytes(2, "big") + extensions
    pieces = [message[start : start + 16384] for start in range(0, size, 16384)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


CASES = {
    "KeyUpdate whole": lambda: key_update([5], 0),
    "KeyUpdate in two pieces": lambda: key_update([1, 4], 0),
    "KeyUpdate in five pieces that asks for ours": lambda: key_update([1, 1, 1, 1, 1], 1),
    "KeyUpdate of two bytes": lambda: after_handshake((3, 4), record(22, [24, 0, 0, 2, 0, 0])),
    "KeyUpdate of an unknown request": lambda: after_handshake((3, 4), record(22, [24, 0, 0, 1, 2])),
    "KeyUpdate cut by data": lambda: after_handshake((3, 4), record(22, [24, 0]), record(23, b"x")),
    "ClientHello after the handshake of TLS 1.3": lambda: after_handshake((3, 4), record(22, [1, 0, 0, 0])),
    "empty alert, TLS 1.3": lambda: after_handshake((3, 4), record(21, [])),
    "empty alert, TLS 1.2": lambda: after_handshake((3, 3), record(21, [])),
    "alert of one byte": lambda: after_handshake((3, 4), record(21, [2])),
    "heartbeat, TLS 1.3": lambda: after_handshake((3, 4), record(24, [1, 0, 0])),
    "heartbeat, TLS 1.2": lambda: after_handshake((3, 3), record(24, [1, 0, 0])),
    "nothing but padding": lambda: after_handshake((3, 4), record(0, [0, 0, 0])),
    "nothing but padding for Finished": lambda: for_finished(record(0, [0, 0, 0])),
    "data for Finished": lambda: for_finished(record(23, b"x")),
    "renegotiation": renegotiation,
    "damaged record with more behind it, TLS 1.3": lambda: damaged((3, 4)),
    "damaged record with more behind it, TLS 1.2": lambda: damaged((3, 3)),
    "heartbeat first": lambda: first_words(b"\x18\x03\x03\x00\x03\x01\x00\x00"),
    "ClientHello of 65,516 bytes": lambda: first_words(hello_of(65_516)),
}

for name, case in CASES.items():
    print(name + ": " + case(), flush=True)
