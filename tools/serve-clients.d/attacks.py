"""Attacks on the server, each a function that raises `Broken` where the server did what it must not.

`Ground` is what they act on. A group tries many shapes and tells all that went wrong at once.
"""

import asyncio
import json
import socket
import time

from http1 import Broken, Exchange, ask, head, parts, read_head, stream

ATTACKS = {}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def attack(name, within=15.0):
    """Registers an attack that the server must be through with in so many seconds."""
    def add(function):
        ATTACKS[name] = (function, within)
        return function
    return add


class Ground:
    """A server with a key, and the secrets that must not be found in its log."""

    def __init__(self, port, key, marker):
        self.port, self.key, self.marker = port, key, marker
        self.wrong_key = f"wrong-{key[::-1]}"
        self.problems = []

    def chat(self, **fields):
        return {"model": "tiny-llada", "messages": [{"role": "user", "content": f"{self.marker} 2+2=?"}], "max_tokens": 16, **fields}

    async def raw(self, data, timeout=10.0):
        """Sends bytes as they are; the first answer, or None when the server hangs up without one."""
        async def go():
            async with Exchange(self.port, data) as exchange:
                try:
                    return await exchange.whole()
                except Broken as broken:
                    if "without an answer" in str(broken):
                        return None
                    raise
        return await asyncio.wait_for(go(), timeout)

    async def expect(self, what, statuses, going, codes=None, within=5.0):
        """An answer with one of these statuses and a well-formed error, in time. What is wrong is kept for the end of the attack."""
        began = time.monotonic()
        try:
            answer = await going
            took = time.monotonic() - began
            status = None if answer is None else answer.status
            if status not in statuses:
                said = "hung up" if answer is None else f"{status} {answer.body[:160]!r}"
                raise Broken(f"expected {sorted(map(str, statuses))}, got {said}")
            # hyper answers what is no HTTP by itself, without a body.
            if status and status >= 400 and answer.body:
                code = answer.error["code"]
                if codes and code not in codes:
                    raise Broken(f"{status}, but the code is {code}, not of {codes}: {answer.error['message'][:160]}")
                if len(answer.body) > 4096:
                    raise Broken(f"an error of {len(answer.body)} bytes")
            if took > within:
                raise Broken(f"{status}, but after {took:.1f} s, and {within} are enough")
            return answer
        except asyncio.TimeoutError:
            self.problems.append(f"{what}: no answer in time")
        except (Broken, OSError, ValueError, KeyError, TypeError) as wrong:
            self.problems.append(f"{what}: {wrong}")

    async def post(self, what, body, statuses=(400,), path=CHAT, codes=None, within=5.0, key=True, headers=()):
        given = self.key if key is True else key
        return await self.expect(what, set(statuses), ask(self.port, "POST", path, body, headers, given, timeout=30), codes, within)

    async def get(self, what, path, statuses, headers=(), key=None, method="GET"):
        return await self.expect(what, set(statuses), ask(self.port, method, path, None, headers, key, timeout=30))

    def wrong(self, what):
        self.problems.append(what)


@attack("no key, wrong keys")
async def _(on):
    for what, headers in [
        ("no key", []),
        ("wrong key", [("authorization", f"Bearer {on.wrong_key}")]),
        ("beginning of the key", [("authorization", f"Bearer {on.key[:-1]}")]),
        ("key and more", [("authorization", f"Bearer {on.key}x")]),
        ("empty key", [("authorization", "Bearer ")]),
        ("basic", [("authorization", f"Basic {on.wrong_key}")]),
        ("wrong x-api-key", [("x-api-key", on.wrong_key)]),
        ("100 kB key", [("authorization", "Bearer " + "k" * 7000)]),
    ]:
        for path in [CHAT, TEXT, "/v1/fim/completions", "/infill", "/completion", "/tokenize", "/v1/cofill/decode"]:
            answer = await on.post(f"{what} {path}", on.chat(), {401}, path, ["invalid_api_key"], key=None, headers=headers)
            if answer and answer.headers.get("www-authenticate") != "Bearer":
                on.wrong(f"{what}: no www-authenticate")
        for path in ["/v1/models", "/models", "/v1/models/tiny-llada", "/props", "/slots", "/tokenizer_info"]:
            await on.get(f"{what} {path}", path, {401}, headers)
    await on.get("key in the query", f"/v1/models?api_key={on.wrong_key}", {401})
    await on.post("a large body without a key", on.chat(user="u" * 1_500_000), {401}, key=None)
    await on.get("the right key as x-api-key", "/v1/models", {200}, [("x-api-key", on.key)])


@attack("foreign Host and Origin")
async def _(on):
    for host in ["evil.example", "evil.example:80", f"127.0.0.1.evil.example:{on.port}", "localhost.evil.example", "0x7f000001.evil", "[::1].evil"]:
        await on.get(f"Host {host}", "/v1/models", {400, 403}, [("host", host)], on.key)
        await on.post(f"Host {host}", on.chat(), {400, 403}, headers=[("host", host)])
        await on.get(f"the page for Host {host}", "/", {400, 403}, [("host", host)])
    for origin in ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://", f"http://localhost.evil.example:{on.port}"]:
        answer = await on.post(f"Origin {origin}", on.chat(), {403}, codes=["forbidden_origin"], headers=[("origin", origin)])
        if answer and answer.headers.get("access-control-allow-origin") in (origin, "*"):
            on.wrong(f"Origin {origin} is allowed by CORS")
        asked = [("origin", origin), ("access-control-request-method", "POST"), ("access-control-request-headers", "content-type")]
        preflight = await on.get(f"preflight {origin}", CHAT, {200, 204, 400, 401, 403, 405}, asked, method="OPTIONS")
        if preflight and preflight.headers.get("access-control-allow-origin"):
            on.wrong(f"a preflight from {origin} is allowed: {preflight.headers}")
    await on.get("Host localhost", "/v1/models", {200}, [("host", f"localhost:{on.port}")], on.key)
    bare = f"GET /v1/models HTTP/1.1\r\nauthorization: Bearer {on.key}\r\n"
    await on.expect("no Host", {400, 403}, on.raw(f"{bare}connection: close\r\n\r\n".encode()))
    twice = f"{bare}host: 127.0.0.1:{on.port}\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
    await on.expect("two Hosts", {400, 403}, on.raw(twice.encode()))


@attack("content types that a page can send")
async def _(on):
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/plain; application/json", "application/jsonx", None]:
        await on.post(f"content-type {kind}", on.chat(), {400, 415}, headers=[("content-type", kind)])
    await on.post("application/json; charset=utf-8", on.chat(), {200}, headers=[("content-type", "application/json; charset=utf-8")])
    await on.post("content-encoding gzip", b"\x1f\x8b\x08\x00" + b"\x00" * 100, {400, 415}, headers=[("content-encoding", "gzip")])


@attack("a body of 1 GB, declared")
async def _(on):
    size = [("content-length", str(1 << 30)), ("content-type", "application/json")]
    await on.expect("declared", {413}, on.raw(head("POST", CHAT, on.port, size, None, on.key) + b'{"model":"' + b"x" * 100_000), ["body_too_large"])
    wait = [*size, ("expect", "100-continue")]
    await on.expect("with expect", {413, 417}, on.raw(head("POST", CHAT, on.port, wait, None, on.key)))
    much = [("content-length", "9" * 30), ("content-type", "application/json")]
    await on.expect("a length of 30 digits", {400, 413}, on.raw(head("POST", CHAT, on.port, much, None, on.key)))


@attack("a body of 1 GB, chunked", within=30.0)
async def _(on):
    begin = head("POST", CHAT, on.port, [("transfer-encoding", "chunked"), ("content-type", "application/json")], None, on.key)
    sent = 0
    async with Exchange(on.port, begin) as exchange:
        await exchange.send()
        answered = asyncio.create_task(read_head(exchange.reader))
        block = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        try:
            while sent < 1 << 30 and not answered.done():
                exchange.writer.write(block)
                await asyncio.wait_for(exchange.writer.drain(), 10)
                sent += 1 << 20
                await asyncio.sleep(0)
        except OSError:
            pass
        except asyncio.TimeoutError:
            on.wrong(f"neither an answer nor an end after {sent >> 20} MB")
        try:
            status, _ = await asyncio.wait_for(answered, 10)
            if status != 413:
                on.wrong(f"expected 413, got {status}")
        except (Broken, asyncio.TimeoutError) as wrong:
            on.wrong(f"no 413, but {wrong!r}")
    if sent > 64 << 20:
        on.wrong(f"took {sent >> 20} MB before it said no")


@attack("floods of headers")
async def _(on):
    many = [(f"x-{index}", "v") for index in range(10_000)]
    await on.expect("10,000 headers", {400, 431, None}, on.raw(head("GET", "/health", on.port, many)))
    await on.expect("a header of 4 MB", {400, 431, None}, on.raw(head("GET", "/health", on.port, [("x-long", "v" * (4 << 20))])))
    await on.expect("a path of 1 MB", {400, 404, 414, 431, None}, on.raw(head("GET", "/" + "a" * (1 << 20), on.port)))
    await on.expect("a method of 1 MB", {400, 405, 431, None}, on.raw(head("A" * (1 << 20), "/", on.port)))
    await on.expect("a header name with a space", {400, None}, on.raw(b"GET /health HTTP/1.1\r\nhost : 127.0.0.1\r\n\r\n"))
    await on.expect("a folded header", {400, None}, on.raw(f"GET /health HTTP/1.1\r\nhost: 127.0.0.1:{on.port}\r\nx: a\r\n b\r\n\r\n".encode()))
    answer = await on.get("a long x-request-id", "/health", {200}, [("x-request-id", "i" * 6000)])
    if answer and len(answer.headers.get("x-request-id", "")) > 256:
        on.wrong(f"an x-request-id of {len(answer.headers['x-request-id'])} bytes came back")


@attack("deep JSON")
async def _(on):
    for depth in [200, 10_000, 400_000]:
        for what, text in [("lists", "[" * depth + "]" * depth), ("objects", '{"a":' * depth + "1" + "}" * depth), ("open lists", "[" * depth)]:
            await on.post(f"{what}, {depth} deep", text.encode(), {400, 404, 413})
            nested = f'{{"model":"tiny-llada","messages":{text}}}'
            await on.post(f"messages of {what}, {depth} deep", nested.encode(), {400, 413})
        deep = f'{{"model":"tiny-llada","messages":[{{"role":"user","content":"x"}}],"max_tokens":4,"metadata":{"[" * depth + "]" * depth}}}'
        await on.post(f"an ignored field, {depth} deep", deep.encode(), {200, 400, 413})
    await on.post("100,000 equal keys", b'{"model":"tiny-llada",' + b'"model":"tiny-llada",' * 60_000 + b'"messages":[]}', {400})


@attack("JSON that is none")
async def _(on):
    good = json.dumps(on.chat()).encode()
    for what, body in [
        ("nothing", b""), ("half", good[:-1]), ("rubbish behind", good + b"x"), ("two objects", good + good), ("a comment", b"/**/" + good), ("single quotes", good.replace(b'"', b"'")),
        ("invalid UTF-8", good.replace(b"2+2", b"\xff\xfe\xc0")), ("an overlong slash", good.replace(b"2+2", b"\xc0\xaf")), ("a lone surrogate", good.replace(b"2+2", b"\\" + b"ud800")),
        ("UTF-16", good.decode().encode("utf-16")), ("a raw NUL", good.replace(b"2+2", b"\0")), ("a raw newline", good.replace(b"2+2", b"\n")),
        ("NaN", good.replace(b'16', b"NaN")), ("Infinity", good.replace(b"16", b"Infinity")), ("hex", good.replace(b"16", b"0x10")),
    ]:
        await on.post(what, body, {400})
    await on.post("an escaped NUL", good.replace(b"2+2", rb"\u0000"), {200, 400})
    await on.post("bidi and zero-width characters", on.chat(messages=[{"role": "user", "content": "\u202e\u200b\ufeff\U0010ffff"}]), {200, 400})


@attack("numbers out of range", within=40.0)
async def _(on):
    for field, values in {
        "temperature": ["1e400", "-1", "-1e-300", '"hot"', "[]", "1e308", "true"],
        "top_p": ["0", "-1", "2", "1e400"],
        "min_p": ["1e400"],
        "max_tokens": ["1.5", "-5", "1e20", "18446744073709551616", "100000000", "65535"],
        "max_completion_tokens": ["1e400", "99999999"],
        "n": ["0", "-1", "17", "1000000000", "1.5", "1e400"],
        "best_of": ["5"],
        "top_logprobs": ["21", "-1", "1000000000"],
        "seed": ["1e30", "99999999999999999999999", "1.5", '"x"'],
        "stop": ['{"a":1}', "[1,2]", json.dumps(["s"] * 17), json.dumps(["s"] * 300_000)],
        "logit_bias": ['{"1": 1e400}', '{"-1": -100}', '{"x": -100}', '{"4294967296": -100}', '{"1": -101}', json.dumps({str(index): -100 for index in range(100_000)})],
        "timeout_ms": [],
    }.items():
        for value in values:
            body = json.dumps(on.chat()).rstrip("}") + f', "{field}": {value}}}'
            if field == "top_logprobs":
                body = body.rstrip("}") + ', "logprobs": true}'
            if field == "max_tokens":
                body = body.replace('"max_tokens": 16, ', "")
            await on.post(f"{field} = {value[:40]}", body.encode(), {400, 413})
    million = json.dumps(on.chat()).rstrip("}") + ', "stop": [' + ",".join(['"s"'] * 1_000_000) + "]}"
    await on.post("stop with 1,000,000 entries", million.encode(), {400, 413})
    bias = json.dumps(on.chat(logit_bias={str(index): -100 for index in range(1_000_000)}))
    await on.post("logit_bias with 1,000,000 entries", bias.encode(), {400, 413})
    for what, fields in [("top_k huge", {"top_k": 2**31, "temperature": 1}), ("smallest seed", {"seed": -(2**63)}), ("largest seed", {"seed": 2**63 - 1}), ("a stop of 100 kB", {"stop": "s" * 100_000})]:
        await on.post(what, on.chat(**fields), {200, 400})
    for field, value in [("timeout_ms", -1), ("timeout_ms", 1e30), ("max_nfe", -1), ("max_nfe", 0.5), ("top", 10**9), ("top", -1), ("block", 0), ("block", -1), ("length", -1), ("length", "auto-ish"), ("length", 10**12), ("stream", "sideways")]:
        await on.post(f"cofill.{field} = {value}", on.chat(cofill={field: value}), {400})


@attack("prompts that are too long", within=40.0)
async def _(on):
    text = f"{on.marker} " + "one two three four five six seven eight " * 40_000
    size = {400, 413}
    over = ["context_length_exceeded", "body_too_large"]
    await on.post("1.6 MB of text", on.chat(messages=[{"role": "user", "content": text}]), size, codes=over)
    await on.post("1.6 MB of text, as a prompt", {"model": "tiny-llada", "prompt": text}, size, TEXT, over)
    await on.post("100 kB of text", {"model": "tiny-llada", "prompt": text[:100_000]}, size, TEXT, over)
    await on.post("1.6 MB of spaces", {"model": "tiny-llada", "prompt": " " * 1_600_000}, size, TEXT, over)
    await on.post("1.6 MB of one letter", {"model": "tiny-llada", "prompt": "a" * 1_600_000}, size, TEXT, over)
    await on.post("a million tokens", {"model": "tiny-llada", "prompt": [7] * 1_000_000}, size, TEXT, [*over, "unsupported_value"])
    await on.post("650,000 tokens", json.dumps({"model": "tiny-llada", "prompt": [7] * 650_000}, separators=(",", ":")).encode(), size, TEXT, [*over, "unsupported_value"])
    await on.post("tokens that are none", {"model": "tiny-llada", "prompt": [2**32, -1]}, {400}, TEXT)
    await on.post("a token beyond the vocabulary", {"model": "tiny-llada", "prompt": [10**6]}, {400}, TEXT)
    await on.post("100,000 prompts", {"model": "tiny-llada", "prompt": ["x"] * 100_000, "max_tokens": 4}, {400, 429}, TEXT)
    await on.post("40,000 messages", on.chat(messages=[{"role": "user", "content": "x"}] * 40_000), {200, 400, 413})
    await on.post("a suffix that is too long", {"model": "tiny-llada", "prompt": "x", "suffix": text}, size, TEXT, over)
    await on.post("/tokenize of 1.6 MB", {"content": text}, {200, 400, 413}, "/tokenize")
    await on.post("/infill of 1.6 MB", {"input_prefix": text, "input_suffix": ""}, size, "/infill")
    await on.post("input_extra of 1.6 MB", {"input_prefix": "x", "input_suffix": "", "input_extra": [{"filename": "f", "text": text}]}, {200, 400, 413}, "/infill")
    await on.post("a gap of 10^9", {"input_prefix": "x", "input_suffix": "y", "n_predict": 10**9}, {400}, "/infill")


@attack("templates with gaps that are too large")
async def _(on):
    for template in ["[MASK:65535]", "[MASK:4294967296]", "[MASK:99999999999999999999999]", "[MASK:-1]", "[MASK:0]", "[MASK:6000]" * 2000, "[MASK:1]" * 100_000]:
        await on.post(f"{template[:30]} ({len(template)} bytes)", {"model": "tiny-llada", "template": template}, {400, 413}, "/v1/cofill/decode")
    await on.post("a mask in a chat", on.chat(messages=[{"role": "user", "content": "[MASK:65535] [MASK] <|mdm_mask|> <|mask|>"}]), {200, 400})


@attack("samplers that are none, or ask for too much", within=60.0)
async def _(on):
    for sampler in ["", " ", "nonsense", "topk", "topk:0", "topk:-1", "topk:1e9x", "topk:99999999999999999999", "eb:nan", "eb:-1", "eb:inf", "fast:1e999", "topk:1+ad:nan",
                    "topk:1+ad+ad", "topk:1@" * 50, "x" * 1_000_000, "topk:" + "9" * 100_000, "🦀:1", "topk:1\n", "../../etc/passwd", "apd", "demask@layer=999999999"]:
        await on.post(f"sampler {sampler[:30]!r} ({len(sampler)} bytes)", on.chat(cofill={"sampler": sampler}), {400})
    # These run, and for long; a request that says how long it may take ends by then, and one whose client leaves is forgotten.
    for sampler in ["punt", "oracle", "oracle:100000", "lookum:64@pool=64@tokens=8", "lookum:1000000@pool=1000000@tokens=1000000", "llada:1000000000", "p2:1000000000", "dus:999999999", "topk:1"]:
        body = on.chat(max_tokens=2000, ignore_eos=True, cofill={"sampler": sampler, "timeout_ms": 1500})
        await on.post(f"sampler {sampler}, 1.5 s", body, {200, 400, 429, 503}, within=8.0)
        await asyncio.sleep(0.2)


async def running(on):
    text = (await ask(on.port, "GET", "/metrics", key=on.key, timeout=10)).body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(("cofill_requests_running", "cofill_requests_waiting")))


@attack("much work, and then nobody there", within=40.0)
async def _(on):
    async def leave(sampler):
        try:
            body = on.chat(max_tokens=4000, ignore_eos=True, stream=True, cofill={"sampler": sampler, "stream": "delta"})
            await stream(on.port, CHAT, body, on.key, timeout=1.0)
        except asyncio.TimeoutError:
            pass
    await asyncio.gather(*(leave(sampler) for sampler in ["oracle", "punt", "lookum:16", "topk:1"] * 8), return_exceptions=True)
    began = time.monotonic()
    while await running(on) > 0:
        if time.monotonic() - began > 15:
            return on.wrong(f"{await running(on)} requests still run 15 s after their clients left")
        await asyncio.sleep(0.1)


def bombs():
    """Schemas that are small to write and large to compile, or wrong."""
    choice = {"type": "string", "maxLength": 3}
    for _ in range(24):
        choice = {"anyOf": [choice, choice]} if len(json.dumps(choice)) < 200_000 else choice
    yield "nested anyOf", choice
    deep = {"type": "integer"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"], "additionalProperties": False}
    yield "objects, 100 deep", deep
    wide = {"type": "object", "properties": {f"p{index}": {"type": "string"} for index in range(2000)}, "additionalProperties": False}
    yield "2,000 optional properties", wide
    yield "huge maxLength", {"type": "string", "maxLength": 10**9}
    yield "huge minLength", {"type": "string", "minLength": 10**9}
    yield "huge minItems", {"type": "array", "items": {"type": "integer"}, "minItems": 10**9}
    yield "huge maxItems of huge strings", {"type": "array", "items": {"type": "string", "maxLength": 10_000}, "maxItems": 10_000}
    yield "nested arrays", {"type": "array", "maxItems": 100, "items": {"type": "array", "maxItems": 100, "items": {"type": "array", "maxItems": 100, "items": {"type": "integer"}}}}
    yield "$ref to itself", {"$ref": "#"}
    yield "$ref in a circle", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    tree = {"$defs": {"t": {"type": "object", "properties": {key: {"$ref": "#/$defs/t"} for key in "abcdefgh"}}}, "$ref": "#/$defs/t"}
    yield "a tree of eight branches", tree
    chain = {f"d{index}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{index + 1}"}] * 10} for index in range(30)}
    yield "10^30 by $ref", {"$defs": {**chain, "d30": {"type": "integer"}}, "$ref": "#/$defs/d0"}
    yield "$ref to the network", {"$ref": "http://127.0.0.1:1/schema.json"}
    yield "$ref to a file", {"$ref": "file:///etc/passwd"}
    yield "$ref to nothing", {"$ref": "#/$defs/none"}
    yield "catastrophic pattern", {"type": "string", "pattern": "^(a+)+(b|a+)*$"}
    yield "counted pattern", {"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"}
    yield "counted classes", {"type": "string", "pattern": r"^\w{1000}{1000}$"}
    yield "exponential pattern", {"type": "string", "pattern": "^.*a.{24}$"}
    yield "a pattern that is none", {"type": "string", "pattern": "(((("}
    yield "a pattern, 20,000 deep", {"type": "string", "pattern": "(" * 20_000 + "a" + ")" * 20_000}
    yield "50,000 choices", {"enum": [f"choice {index}" for index in range(50_000)]}
    yield "false", False
    yield "impossible", {"type": "integer", "enum": ["x"]}
    yield "a list", []
    yield "a number", 7


@attack("schema bombs", within=120.0)
async def _(on):
    for what, schema in bombs():
        shape = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
        await on.post(what, on.chat(response_format=shape, max_tokens=32, cofill={"timeout_ms": 3000}), {200, 400}, within=10.0)
    for what, regex in [("counted", "(a{1,1000}){1,1000}"), ("exponential", "(.*a.{24}){3}"), ("nested stars", "((((a*)*)*)*)*b"), ("none", "[z-a]"), ("2 MB", "a|" * 400_000)]:
        fields = on.chat(structured_outputs={"regex": regex}, max_tokens=32, cofill={"timeout_ms": 3000})
        await on.post(f"regex: {what}", fields, {200, 400}, within=10.0)
    await on.post("50,000 choices", on.chat(structured_outputs={"choice": [f"c{index}" for index in range(50_000)]}), {200, 400}, within=10.0)
    await on.post("a grammar", on.chat(structured_outputs={"grammar": "root ::= root root"}), {400, 501})


@attack("path tricks")
async def _(on):
    paths = ["/../../etc/passwd", "/assets/../../etc/passwd", "/assets/../../../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/..%2f..%2fetc%2fpasswd", "/assets/%2e%2e%5c..%5cetc",
             "//etc/passwd", "/assets//etc/passwd", "/assets/%00", "/v1/models/%00", "/v1/models/..%2f..%2fhealth", "/v1/models/" + "a" * 6000, "/etc/passwd", "/assets/", "/.git/config", "/Cargo.toml",
             "/v1/models/%ff%fe", "/v1/models/tiny-llada/../../../etc/passwd", "/%", "/%zz", "/assets/\\..\\..\\etc"]
    for path in paths:
        answer = await on.get(f"{path[:60]}", path, {400, 404, 405}, key=on.key)
        if answer and b"root:" in answer.body:
            on.wrong(f"{path} gave a file")
    # No way around the key.
    for path in ["//v1/models", "/v1/models/", "/v1//models", "/./v1/models", "/health/../v1/models", "/assets/../v1/models", "/V1/models", "/v1/models%20", "/v1/%6dodels", "/v1/models?x=/health",
                 "/v1/models;/health", "/health/v1/models", "/v1/models#/health", f"http://127.0.0.1:{on.port}/v1/models", "http://evil.example/v1/models", "/v1/models%00/health"]:
        answer = await on.expect(f"no key, {path}", {400, 401, 403, 404, None}, on.raw(head("GET", path, on.port)))
        if answer and b'"tiny-llada"' in answer.body:
            on.wrong(f"no key, {path}: the models were listed")
    for line in ["GET http://evil.example/v1/models HTTP/1.1", "GET evil.example HTTP/1.1", "CONNECT evil.example:443 HTTP/1.1", "OPTIONS * HTTP/1.1", "TRACE /health HTTP/1.1", "DELETE /v1/models HTTP/1.1", "PUT / HTTP/1.1", "PATCH /v1/chat/completions HTTP/1.1"]:
        data = f"{line}\r\nhost: 127.0.0.1:{on.port}\r\nauthorization: Bearer {on.key}\r\nconnection: close\r\n\r\n"
        await on.expect(line, {400, 403, 404, 405, None}, on.raw(data.encode()))


async def answers(on, data, timeout=10.0):
    """All answers that one connection gives to these bytes, until it closes or falls silent."""
    found = []
    async with Exchange(on.port, data) as exchange:
        await exchange.send()
        try:
            while True:
                status, headers = await asyncio.wait_for(read_head(exchange.reader), 3.0 if found else timeout)
                body = b"".join([part async for part in parts(exchange.reader, headers)])
                found.append((status, body))
        except (Broken, asyncio.TimeoutError):
            pass
    return found


@attack("smuggled requests", within=60.0)
async def _(on):
    lines = f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1:{on.port}\r\nauthorization: Bearer {on.key}\r\ncontent-type: application/json\r\n"
    inner = f"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1:{on.port}\r\nauthorization: Bearer {on.key}\r\n\r\n"
    for what, headers, body in [
        ("length and chunked", f"content-length: {5 + len(inner)}\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n" + inner),
        ("chunked and length", f"transfer-encoding: chunked\r\ncontent-length: 4\r\n", "0\r\n\r\n" + inner),
        ("two lengths", f"content-length: 2\r\ncontent-length: {2 + len(inner)}\r\n", "{}" + inner),
        ("a list of lengths", f"content-length: 2, {2 + len(inner)}\r\n", "{}" + inner),
        ("+2", "content-length: +2\r\n", "{}" + inner),
        ("-1", "content-length: -1\r\n", inner),
        ("an encoding that nobody knows", "transfer-encoding: xchunked\r\n", "0\r\n\r\n" + inner),
        ("chunked, identity", "transfer-encoding: chunked, identity\r\n", "0\r\n\r\n" + inner),
        ("chunked with a tab", "transfer-encoding:\tchunked\r\ncontent-length: 4\r\n", "0\r\n\r\n" + inner),
        ("a chunk of 2^68", "transfer-encoding: chunked\r\n", "fffffffffffffffff\r\n" + inner),
        ("a chunk of -1", "transfer-encoding: chunked\r\n", "-1\r\n" + inner),
    ]:
        found = await answers(on, (lines + headers + "\r\n" + body).encode())
        if len(found) > 1 and any(b'"tiny-llada"' in body for _, body in found[1:]):
            on.wrong(f"{what}: the inner request was answered: {[status for status, _ in found]}")
        if found and found[0][0] < 400:
            on.wrong(f"{what}: the outer request got {found[0][0]}")


@attack("pipelining")
async def _(on):
    one = f"GET /health HTTP/1.1\r\nhost: 127.0.0.1:{on.port}\r\n\r\n".encode()
    found = await answers(on, one * 50)
    if not found or any(status != 200 for status, _ in found):
        on.wrong(f"50 requests in a row: {found[:3]}")
    body = json.dumps(on.chat()).encode()
    async with Exchange(on.port, head("POST", CHAT, on.port, [("connection", "keep-alive")], body, on.key) * 1 + body) as exchange:
        exchange.data *= 200
        await exchange.send()
        await asyncio.sleep(0.3)  # and gone


@attack("what is no HTTP")
async def _(on):
    for what, data in [
        ("TLS", bytes.fromhex("16030100c8010000c40303") + bytes(200)), ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(40)), ("rubbish", bytes(range(256)) * 40), ("NULs", bytes(4000)),
        ("HTTP/0.9", b"GET /\r\n\r\n"), ("HTTP/9.9", b"GET / HTTP/9.9\r\n\r\n"), ("newlines", b"\r\n" * 5000), ("half a line", b"GET /heal"),
    ]:
        try:
            async with Exchange(on.port, data) as exchange:
                await exchange.send()
                await asyncio.wait_for(exchange.reader.read(100), 0.5)
        except (asyncio.TimeoutError, OSError):
            pass


@attack("texts that could forge lines of the log")
async def _(on):
    forged = '\n{"level":"INFO","message":"forged-line"}\n\x1b[31m\r\n'
    await on.post("a model", on.chat(model=forged), {404})
    await on.post("a very long model", on.chat(model="m" * 1_000_000), {404})
    await on.post("a sampler", on.chat(cofill={"sampler": forged}), {400})
    await on.post("a field", on.chat(cofill={forged: 1}), {400})
    await on.post("a user", on.chat(user=forged), {200})
    await on.get("a path", "/%0a%7b%22level%22%3a%22forged-line%22%7d", {400, 404}, key=on.key)
    await on.get("a user agent", "/v1/models", {200, 400}, [("user-agent", "x\tforged \x7f")], on.key)


@attack("500 requests at once", within=120.0)
async def _(on):
    async def one(index):
        try:
            answer = await ask(on.port, "POST", CHAT, on.chat(seed=index, max_tokens=64), key=on.key, timeout=110)
        except (Broken, OSError, asyncio.TimeoutError) as wrong:
            return on.wrong(f"request {index}: {wrong!r}")
        if answer.status not in (200, 429, 503):
            on.wrong(f"request {index}: {answer.status} {answer.body[:100]!r}")
        elif answer.status != 200 and not 1 <= int(answer.headers.get("retry-after", 0)) <= 60:
            on.wrong(f"request {index}: {answer.status} without retry-after")
        return answer.status
    statuses = await asyncio.gather(*(one(index) for index in range(500)))
    if 200 not in statuses or 429 not in statuses:
        on.wrong(f"expected some 200 and some 429: { {status: statuses.count(status) for status in set(statuses)} }")


@attack("600 idle connections")
async def _(on):
    opened = [await asyncio.open_connection("127.0.0.1", on.port) for _ in range(600)]
    await on.get("a request beside them", "/v1/models", {200}, key=on.key)
    for _, writer in opened:
        writer.close()


async def deaf(on, until):
    """Asks for 10 MB and reads nothing: whether the server has given up by then."""
    asked = head("GET", "/metrics", on.port, [("connection", "keep-alive")])
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plug.setblocking(False)
    loop = asyncio.get_running_loop()
    with plug:
        await loop.sock_connect(plug, ("127.0.0.1", on.port))
        one = len(await loop_answer(loop, plug, asked))
        count = max(100, 10_000_000 // one)
        sending = asyncio.create_task(loop.sock_sendall(plug, asked * count))
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        got = 0
        try:
            while got < one * count * 0.9:
                part = await asyncio.wait_for(loop.sock_recv(plug, 1 << 20), 5)
                if not part:
                    return True
                got += len(part)
            return False
        except OSError:
            return True
        except asyncio.TimeoutError:
            return False
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def loop_answer(loop, plug, asked):
    """A first answer on the socket, all of it."""
    await loop.sock_sendall(plug, asked)
    got = b""
    while b"\r\n\r\n" not in got:
        got += await loop.sock_recv(plug, 4096)
    length = int(got.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    want = got.index(b"\r\n\r\n") + 4 + length
    while len(got) < want:
        got += await loop.sock_recv(plug, 4096)
    return got


async def slow(on, until):
    """Slowloris, all the while: 200 heads and 50 bodies, a byte at a time, and 10 who do not read. How many the server has ended at last."""
    body = json.dumps(on.chat()).encode()
    whole = head("POST", CHAT, on.port, [("x-pad", "p" * 3000)], body, on.key)
    ended = {"head": 0, "body": 0, "reader": 0}

    async def one(kind, data, rest):
        try:
            async with Exchange(on.port, data) as exchange:
                await exchange.send()
                for index in range(len(rest)):
                    if time.monotonic() > until:
                        return
                    exchange.writer.write(rest[index:index + 1])
                    await exchange.writer.drain()
                    try:
                        await asyncio.wait_for(exchange.reader.read(1000), 1.0)
                        ended[kind] += 1  # an answer, or the end
                        return
                    except asyncio.TimeoutError:
                        pass
        except OSError:
            ended[kind] += 1
    async def reader():
        given_up = await deaf(on, until)  # apart: `+=` would read the count before it waits
        ended["reader"] += given_up
    await asyncio.gather(*(one("head", whole[:20], whole[20:]) for _ in range(200)), *(one("body", whole, body) for _ in range(50)), *(reader() for _ in range(10)))
    return ended
