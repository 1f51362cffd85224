"""HTTP/1.1 and server-sent events over raw sockets: sees every byte that clients' libraries hide, and costs little.

Everything is checked strictly, because half an event or half a body is just what the tools look for.
"""

import asyncio
import json
import socket
import time
from dataclasses import dataclass, field


class Broken(Exception):
    """The peer did not speak HTTP, or stopped in the middle."""


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes = b""
    seconds: float = 0.0
    # Seconds until the first byte of the body.
    first: float | None = None

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object, where it is well-formed; else why not."""
        return error_of(self.body)


def error_of(body):
    """`{"error": {"message", "type", "param", "code"}}` and nothing less; raises `Broken` otherwise."""
    try:
        error = json.loads(body)["error"]
        assert isinstance(error["message"], str) and error["message"], "no message"
        assert isinstance(error["type"], str), "no type"
        assert error.get("param") is None or isinstance(error["param"], str), "param"
        assert "code" in error, "no code"
        return error
    except (ValueError, KeyError, TypeError, AssertionError) as wrong:
        raise Broken(f"not an error object ({wrong!r}): {body[:200]!r}") from wrong


def head(method, path, port, headers=(), body=None, key=None):
    """The text of a request. `headers` may set anything twice; a header of ours is left out where it is named there."""
    named = {name.lower() for name, _ in headers}
    lines = [f"{method} {path} HTTP/1.1"]
    ours = [("host", f"127.0.0.1:{port}"), ("connection", "close")]
    if body is not None:
        ours += [("content-type", "application/json"), ("content-length", str(len(body)))]
    if key is not None:
        ours.append(("authorization", f"Bearer {key}"))
    lines += [f"{name}: {value}" for name, value in ours if name not in named]
    lines += [f"{name}: {value}" for name, value in headers if value is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def read_head(reader):
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        raise Broken("closed without an answer" if not cut.partial else f"half a head: {cut.partial[:80]!r}") from cut
    except OSError as reset:
        raise Broken(f"reset without an answer: {reset}") from reset
    lines = raw.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1."):
        raise Broken(f"not a status line: {lines[0][:80]!r}")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    return int(parts[1]), headers


async def parts(reader, headers, pause=None):
    """The body as it comes. Raises `Broken` where it ends before it should."""
    try:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while True:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                chunk = await reader.readexactly(size + 2)
                if size == 0:
                    return
                yield chunk[:-2]
                if pause:
                    await asyncio.sleep(pause)
        elif "content-length" in headers:
            length = int(headers["content-length"])
            if length:
                yield await reader.readexactly(length)
        else:
            while chunk := await reader.read(65536):
                yield chunk
    except (asyncio.IncompleteReadError, ValueError, OSError) as cut:
        raise Broken(f"the body was cut: {cut!r}") from cut


class Exchange:
    """One request on a connection of its own."""

    def __init__(self, port, data, timeout=120.0):
        self.port, self.data, self.timeout = port, data, timeout
        self.reader = self.writer = None

    async def __aenter__(self):
        self.began = time.monotonic()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        try:
            await asyncio.wait_for(self.writer.wait_closed(), 5)
        except (OSError, asyncio.TimeoutError):
            pass

    async def send(self):
        try:
            self.writer.write(self.data)
            await self.writer.drain()
        except OSError:
            pass  # it may have answered before it read everything

    async def begin(self):
        """Sends, and reads the head of the answer."""
        await self.send()
        self.status, self.headers = await read_head(self.reader)
        return self

    async def whole(self, pause=None):
        await self.begin()
        answer = Answer(self.status, self.headers)
        async for part in parts(self.reader, self.headers, pause):
            if answer.first is None:
                answer.first = time.monotonic() - self.began
            answer.body += part
        answer.seconds = time.monotonic() - self.began
        return answer


def blocking(port, data, timeout):
    """All bytes of an answer, by a socket that keeps reading when it cannot write any more."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout) as plug:
        try:
            plug.sendall(data)
        except OSError:
            pass  # it has answered before it read everything
        try:
            while part := plug.recv(1 << 16):
                got += part
        except OSError:
            pass
    return got


async def ask_large(port, data, timeout):
    """As `ask`, for bodies that may be refused before they are sent: asyncio would lose the answer with the connection."""
    began = time.monotonic()
    reader = asyncio.StreamReader()
    reader.feed_data(await asyncio.to_thread(blocking, port, data, timeout))
    reader.feed_eof()
    status, headers = await read_head(reader)
    answer = Answer(status, headers, b"".join([part async for part in parts(reader, headers)]))
    answer.seconds = time.monotonic() - began
    return answer


async def ask(port, method, path, body=None, headers=(), key=None, timeout=120.0, pause=None):
    """One request, one answer. `body` is bytes or something for JSON."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    data = head(method, path, port, headers, body, key) + (body or b"")
    if len(data) > 1 << 17:
        return await asyncio.wait_for(ask_large(port, data, timeout), timeout)

    async def go():
        async with Exchange(port, data) as exchange:
            return await exchange.whole(pause)
    return await asyncio.wait_for(go(), timeout)


@dataclass
class Events:
    """What a stream of server-sent events held."""

    data: list = field(default_factory=list)
    done: bool = False
    comments: int = 0
    error: dict | None = None
    _rest: bytes = b""

    def feed(self, part):
        self._rest += part
        while b"\n\n" in self._rest:
            event, self._rest = self._rest.split(b"\n\n", 1)
            self._event(event)

    def _event(self, event):
        lines = event.decode().split("\n")  # a broken character is an error, too
        if all(line.startswith(":") for line in lines):
            self.comments += 1
            return
        if len(lines) != 1 or not lines[0].startswith("data: "):
            raise Broken(f"not one line of data: {event[:200]!r}")
        if self.done:
            raise Broken(f"something behind [DONE]: {event[:200]!r}")
        text = lines[0][len("data: "):]
        if text == "[DONE]":
            self.done = True
            return
        try:
            value = json.loads(text)
        except ValueError as wrong:
            raise Broken(f"data that is not JSON: {text[:200]!r}") from wrong
        if "error" in value:
            self.error = error_of(text)
        elif not isinstance(value.get("choices"), list):
            raise Broken(f"a chunk without choices: {text[:200]!r}")
        self.data.append(value)

    def close(self):
        """The stream has ended: it must have said so."""
        if self._rest.strip():
            raise Broken(f"half an event at the end: {self._rest[:200]!r}")
        if not self.done:
            raise Broken("the stream ended without [DONE]")
        return self


async def stream(port, path, body, key=None, timeout=120.0, pause=None, leave_after=None):
    """A streamed request: (answer, events). A refusal has no events. `leave_after` chunks, the connection is cut, and events are None."""
    data = json.dumps(body).encode()
    async def go():
        async with Exchange(port, head("POST", path, port, (), data, key) + data) as exchange:
            await exchange.begin()
            answer = Answer(exchange.status, exchange.headers)
            events = Events()
            streamed = answer.headers.get("content-type", "").startswith("text/event-stream")
            count = 0
            async for part in parts(exchange.reader, exchange.headers, pause):
                if answer.first is None:
                    answer.first = time.monotonic() - exchange.began
                if not streamed:
                    answer.body += part
                    continue
                events.feed(part)
                count += 1
                if leave_after is not None and count >= leave_after:
                    return answer, None
            answer.seconds = time.monotonic() - exchange.began
            return answer, events.close() if streamed else None
    return await asyncio.wait_for(go(), timeout)
