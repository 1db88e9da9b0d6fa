#!/usr/bin/env python3
"""Reads and writes the test vectors by the rules of PROTOCOL.md alone, with the standard library alone."""

import hashlib
import hmac
import json
import pathlib
import re
import struct
import sys

HERE = pathlib.Path(__file__).parent


class Bad(Exception):
    """Bytes that are not what the protocol says."""

    def __init__(self, why, code="INVALID_FRAME"):
        super().__init__(why)
        self.code = code


# --- 2. Names

SEGMENT, WORD = "[a-z0-9._-]{1,63}", "[a-z0-9_]+"
NAMES = {
    "node id": (63, "[a-z0-9-]{1,63}"),
    "agent": (400, f"agent://{SEGMENT}/{SEGMENT}/{SEGMENT}"),
    "capability": (128, rf"{WORD}(\.{WORD})+"),
    "slot": (63, SEGMENT),
    "topic": (128, rf"{WORD}(\.{WORD})+"),
    "topic pattern": (128, rf"(({WORD}|\*)\.)*({WORD}|\*\*?)"),
}


def is_name(kind, text):
    longest, form = NAMES[kind]
    return len(text.encode()) <= longest and re.fullmatch(form, text) is not None


def covers(pattern, topic):
    wanted, words = pattern.split("."), topic.split(".")
    if wanted[-1] == "**":
        head = wanted[:-1]
        return len(words) > len(head) and all(w in ("*", t) for w, t in zip(head, words))
    return len(wanted) == len(words) and all(w in ("*", t) for w, t in zip(wanted, words))


# --- 5. Values. Each kind writes a value to bytes and reads one from a Reader.


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Bad("it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def rest(self):
        return len(self.data) - self.at


class U8:
    def write(self, value):
        return bytes([value])

    def read(self, reader):
        return reader.take(1)[0]


class Bool:
    def write(self, value):
        return b"\x01" if value else b"\x00"

    def read(self, reader):
        byte = reader.take(1)[0]
        if byte > 1:
            raise Bad("a presence byte is neither 0 nor 1")
        return byte == 1


class Varint:
    def __init__(self, bits):
        self.bits, self.longest = bits, -(-bits // 7)

    def write(self, value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes(out) + bytes([value])

    def read(self, reader):
        value = 0
        for index in range(self.longest):
            byte = reader.take(1)[0]
            value |= (byte & 127) << (7 * index)
            if byte < 128:
                if value >> self.bits:
                    raise Bad("a number is too large")
                return value
        raise Bad("a number is too long")


U16, U32, U64 = Varint(16), Varint(32), Varint(64)


class Fixed:
    def __init__(self, count):
        self.count = count

    def write(self, value):
        data = bytes.fromhex(value)
        assert len(data) == self.count
        return data

    def read(self, reader):
        return reader.take(self.count).hex()


class Bytes:
    def write(self, value):
        data = bytes.fromhex(value or "")
        return U32.write(len(data)) + data

    def read(self, reader):
        return reader.take(U32.read(reader)).hex()


class Text:
    def __init__(self, name=None):
        self.name = name

    def write(self, value):
        data = value.encode()
        return U32.write(len(data)) + data

    def read(self, reader):
        try:
            text = reader.take(U32.read(reader)).decode()
        except UnicodeDecodeError as error:
            raise Bad("text is not UTF-8") from error
        if self.name and not is_name(self.name, text):
            raise Bad(f"no {self.name}")
        return text


class Option:
    def __init__(self, kind):
        self.kind = kind

    def write(self, value):
        return b"\x00" if value is None else b"\x01" + self.kind.write(value)

    def read(self, reader):
        return self.kind.read(reader) if Bool().read(reader) else None


class List:
    def __init__(self, kind):
        self.kind = kind

    def write(self, values):
        return U32.write(len(values)) + b"".join(map(self.kind.write, values))

    def read(self, reader):
        return [self.kind.read(reader) for _ in range(U32.read(reader))]


class Struct:
    def __init__(self, **fields):
        self.fields = fields

    def write(self, value):
        assert set(value) == set(self.fields), set(value) ^ set(self.fields)
        return b"".join(kind.write(value[name]) for name, kind in self.fields.items())

    def read(self, reader):
        return {name: kind.read(reader) for name, kind in self.fields.items()}


class Enum:
    """Variants in order: a name, or a name with the kind of what it carries."""

    def __init__(self, *variants):
        self.variants = [v if isinstance(v, tuple) else (v, None) for v in variants]

    def write(self, value):
        name = value if isinstance(value, str) else next(iter(value))
        for number, (variant, kind) in enumerate(self.variants):
            if variant == name:
                return U32.write(number) + (kind.write(value[name]) if kind else b"")
        raise AssertionError(name)

    def read(self, reader):
        number = U32.read(reader)
        if number >= len(self.variants):
            raise Bad("a variant is unknown")
        name, kind = self.variants[number]
        return {name: kind.read(reader)} if kind else name


CODES = (
    "- INVALID_FRAME VERSION_UNSUPPORTED UNAUTHENTICATED PERMISSION_DENIED NOT_FOUND INVALID_INPUT INVALID_OUTPUT "
    "DEADLINE_EXCEEDED CANCELLED OVERLOADED RATE_LIMITED UNAVAILABLE OUTCOME_UNKNOWN SESSION_EXPIRED SLOT_CONFLICT "
    "TOO_LARGE LOOP_DETECTED EXPIRED HANDLER_FAILED HANDLER_PANICKED INTERNAL"
).split()


class Code:
    def write(self, value):
        return bytes([CODES.index(value)])

    def read(self, reader):
        number = reader.take(1)[0]
        return CODES[number] if 1 <= number < len(CODES) else "INTERNAL"


def read_whole(kind, data):
    reader = Reader(data)
    value = kind.read(reader)
    if reader.rest():
        raise Bad("bytes too many")
    return value


# --- 6, 11 and 16. Payloads

NODE, AGENT, CAPABILITY, SLOT = (Text(name) for name in ("node id", "agent", "capability", "slot"))
FIELDS = List(Struct(tag=U16, mandatory=Bool(), value=Bytes()))
VERSION = Struct(major=U32, minor=U32, patch=U32)
LIMITS = "max_message max_chunk stream_window link_window event_window max_streams heartbeat_ms".split()
ANNOUNCED = Struct(**{name: U32 for name in LIMITS})
PAYLOADS = {
    "SYN": Struct(
        min_version=U8(), max_version=U8(), agent=AGENT, node=NODE, epoch=U64, nonce=Fixed(32),
        auth=Enum("Mtls", "Token"), token_ids=List(Fixed(8)), announced=ANNOUNCED,
        resume=Option(Struct(link=Fixed(16), received=U64, proof=Fixed(32))), fields=FIELDS,
    ),
    "SYN_ACK": Struct(
        version=U8(), agent=AGENT, node=NODE, epoch=U64, nonce=Fixed(32), token_id=Option(Fixed(8)),
        announced=ANNOUNCED, capability_digest=Fixed(32), link=Fixed(16),
        resumed=Enum("New", ("Yes", Struct(received=U64)), ("No", Struct(received=Option(U64)))), fields=FIELDS,
    ),
    "ESTABLISHED": Struct(fields=FIELDS),
    "HEARTBEAT": Struct(epoch=U64, received=U64, token=U64, load=U8()),
    "ACK": Struct(received=U64),
    "WINDOW": Struct(limit=U64, events=U64),
    "CANCEL": Struct(code=Code()),
    "ADVERTISE": Struct(
        revision=U64, part=U32, parts=U32,
        capabilities=List(Struct(
            name=CAPABILITY, version=VERSION, description=Text(), input_schema=Text(), output_schema=Text(),
            item_schema=Option(Text()), streams=Bool(),
            facts=Struct(idempotent=Bool(), read_only=Bool(), destructive=Bool(), reentrant=Bool()), cost=U8(),
            access=Enum("public", "restricted", "admin"), reads=List(SLOT), writes=List(SLOT), weight=U16, extra=FIELDS,
        )),
    ),
    "SUBSCRIBE": Struct(
        revision=U64, subscriptions=List(Struct(pattern=Text("topic pattern"), group=Option(Text()))),
    ),
    "GO_AWAY": Struct(
        reason=Enum("Draining", "Duplicate", "Unauthenticated", "RateLimited", "Misbehaved"),
        last_stream=U32, message=Text(),
    ),
    "ERROR": Struct(
        code=Code(), message=Text(), details=Text(), retry_after_ms=Option(U64), may_have_run=Bool(), node=Option(NODE),
    ),
}

# --- 4. Frames

TYPES = (
    "- SYN SYN_ACK ESTABLISHED REQUEST RESPONSE STREAM EVENT HEARTBEAT ERROR ACK WINDOW CANCEL ADVERTISE SUBSCRIBE GO_AWAY"
).split()
FLAGS = {"ACK": 1, "FIN": 2, "ERR": 4, "COMPRESSED": 8, "ENCRYPTED": 16, "CONTROL": 128}


def write_header(version, flags, message_type, stream, payload_length):
    bits = sum(FLAGS[flag] for flag in flags)
    return struct.pack("<4sBBBII", b"HRMS", version, bits, TYPES.index(message_type), stream, payload_length)


def read_header(data):
    magic, version, bits, number, stream, length = struct.unpack("<4sBBBII", data)
    if magic != b"HRMS":
        raise Bad("magic")
    if not 1 <= number <= 15:
        raise Bad("type")
    if bits & ~sum(FLAGS.values()):
        raise Bad("reserved flags")
    flags = [name for name, bit in FLAGS.items() if bits & bit]
    kind = TYPES[number]
    is_data = kind in ("REQUEST", "RESPONSE", "STREAM", "EVENT") or (kind == "ERROR" and stream != 0)
    if (
        is_data == ("CONTROL" in flags)
        or "COMPRESSED" in flags
        or "ENCRYPTED" in flags
        or ("ACK" in flags and kind != "HEARTBEAT")
        or ("ERR" in flags) != (kind == "ERROR")
        or ("FIN" in flags and not is_data)
    ):
        raise Bad("flags")
    return {"version": version, "flags": flags, "message_type": kind, "stream": stream, "payload_length": length}


def read_frame(text):
    data = bytes.fromhex(text)
    header, payload = read_header(data[:15]), data[15:]
    assert header["payload_length"] == len(payload)
    return header, payload


# --- 8. Messages and envelopes

ID = Fixed(16)
ENVELOPE = [
    ("target", Enum(("Agent", AGENT), ("Node", NODE))), ("capability", CAPABILITY), ("wanted", VERSION),
    ("topic", Text("topic")), ("message_id", ID), ("correlation_id", ID), ("causation_id", ID), ("session", ID),
    ("idempotency_key", Text()), ("time_left", U64), ("composed_at", U64), ("expires_after", U64),
    ("path", List(Struct(node=NODE, capability=CAPABILITY))), ("hops", U8()), ("budget", U64),
    ("trace", Struct(trace_id=ID, parent_id=Fixed(8), flags=U8(), state=Text())), ("on_behalf_of", AGENT),
    ("content_type", Enum("Json", "Postcard", "Bytes", ("Media", Text()))),
    ("slots", List(Struct(name=SLOT, version=U64, merge=Enum("replace", "append", "merge"), value=Text()))),
    ("outcome", Enum("Value", "NeedsInput")), ("lagged", U64), ("attempt", U8()), ("extra", FIELDS),
]


# 12. Extra fields of events, by tag
EVENT_FIELDS = {
    1: Struct(single=Bool(), groups=List(Text())),
    2: List(Struct(pattern=Text("topic pattern"), group=Option(Text()), lost=U64)),
}


def write_envelope(fields):
    if not fields:
        return b""
    mask = sum(1 << bit for bit, (name, _) in enumerate(ENVELOPE) if name in fields)
    return U32.write(mask) + b"".join(kind.write(fields[name]) for name, kind in ENVELOPE if name in fields)


def read_envelope(data):
    if not data:
        return {}
    reader = Reader(data)
    mask = U32.read(reader)
    if mask >> len(ENVELOPE):
        raise Bad("a bit without a field")
    fields = {name: kind.read(reader) for bit, (name, kind) in enumerate(ENVELOPE) if mask >> bit & 1}
    if reader.rest():
        raise Bad("bytes too many")
    if not 1 <= len(fields.get("idempotency_key", "k").encode()) <= 255:
        raise Bad("idempotency key")
    if len(fields.get("trace", {}).get("state", "").encode()) > 512:
        raise Bad("trace state")
    if any(field["mandatory"] for field in fields.get("extra", [])):
        raise Bad("mandatory field")
    return fields


def write_message(envelope, body):
    head = write_envelope(envelope)
    return U32.write(len(head)) + U32.write(len(body) // 2) + head + bytes.fromhex(body)


def read_message(reader):
    envelope, body = U32.read(reader), U32.read(reader)
    if envelope > 65536:
        raise Bad("envelope too long")
    return {"envelope": read_envelope(reader.take(envelope)), "body": reader.take(body).hex()}


# --- The vectors


def vectors(name):
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def refused(vector, read):
    try:
        read(bytes.fromhex(vector["hex"]))
    except Bad as bad:
        assert bad.code == vector["code"], (vector["name"], bad.code)
    else:
        raise AssertionError(f"{vector['name']} was accepted")


def both_ways(vector, write, read):
    data = bytes.fromhex(vector["hex"])
    assert write(vector["input"]) == data, vector["name"]
    assert read(data) == vector["input"], vector["name"]


def check_headers():
    for vector in vectors("headers.json"):
        if "error" in vector:
            refused(vector, read_header)
        else:
            both_ways(vector, lambda fields: write_header(**fields), read_header)


def check_control():
    for vector in vectors("control.json"):
        kind = PAYLOADS[vector["type"]]
        if "error" in vector:
            refused(vector, lambda data, kind=kind: read_whole(kind, data))
        elif "reads_as" in vector:
            assert read_whole(kind, bytes.fromhex(vector["payload"]))["code"] == vector["reads_as"]
        else:
            header, payload = read_frame(vector["hex"])
            expected = ["ERR", "CONTROL"] if vector["type"] == "ERROR" else ["CONTROL"]
            assert (header["message_type"], header["stream"]) == (vector["type"], vector["stream"])
            assert header["flags"] == expected
            assert kind.write(vector["input"]) == payload, vector["name"]
            assert kind.write(read_whole(kind, payload)) == payload, vector["name"]
            assert read_whole(kind, payload) == vector["input"], vector["name"]


def check_envelopes():
    for vector in vectors("envelopes.json"):
        if "error" in vector:
            refused(vector, read_envelope)
        else:
            both_ways(vector, write_envelope, read_envelope)


def check_messages():
    for vector in vectors("messages.json"):
        if "error" in vector:
            refused(vector, lambda data: read_message(Reader(data)))
        else:
            both_ways(vector, lambda fields: write_message(**fields), lambda data: read_message(Reader(data)))


def check_names():
    for vector in vectors("names.json"):
        for case in vector.get("cases", []):
            assert covers(case["pattern"], case["topic"]) == case["covers"], case
        for name in vector.get("valid", []):
            assert is_name(vector["name"], name), name
        for name in vector.get("invalid", []):
            assert not is_name(vector["name"], name), name


def part(data):
    return struct.pack("<I", len(data)) + data


def sha256(data):
    return hashlib.sha256(data).digest()


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def with_proof(kind, payload):
    """The structure, its bytes, and the proof that follows it."""
    reader = Reader(payload)
    value = kind.read(reader)
    structure = payload[: reader.at]
    proof = bytes.fromhex(Bytes().read(reader))
    assert not reader.rest()
    return value, structure, proof


def check_handshakes():
    for vector in vectors("handshakes.json"):
        token = vector["input"]["token"].encode()
        exporter = bytes.fromhex(vector["input"]["exporter"])
        former = bytes.fromhex(vector["input"]["former_secret"] or "")
        frames = [read_frame(frame["hex"]) for frame in vector["frames"]]
        assert [(h["version"], h["flags"], h["message_type"], h["stream"]) for h, _ in frames] == [
            (1, ["CONTROL"], name, 0) for name in ("SYN", "SYN_ACK", "ESTABLISHED")
        ]
        start = part(b"hermes-peer handshake 1") + part(exporter)
        syn_bytes = frames[0][1]
        syn = read_whole(PAYLOADS["SYN"], syn_bytes)
        assert PAYLOADS["SYN"].write(syn) == syn_bytes
        token_id = sha256(b"hermes-peer token id" + token)[:8].hex()
        assert token_id == vector["token_id"] and token_id in syn["token_ids"]
        if syn["resume"]:
            unproven = PAYLOADS["SYN"].write({**syn, "resume": {**syn["resume"], "proof": "00" * 32}})
            proof = mac(former, b"hermes-peer 1 resume proof" + sha256(start + part(unproven)))
            assert proof.hex() == syn["resume"]["proof"], "resume proof"

        answer, answer_bytes, acceptor_proof = with_proof(PAYLOADS["SYN_ACK"], frames[1][1])
        assert PAYLOADS["SYN_ACK"].write(answer) == answer_bytes
        assert answer["version"] == vector["version"] == min(syn["max_version"], 2)
        assert answer["token_id"] == token_id
        assert (answer["resumed"] == "New") == (syn["resume"] is None)
        assert syn["resume"] is None or answer["link"] == syn["resume"]["link"]
        transcript = start + part(syn_bytes) + part(answer_bytes)
        assert sha256(transcript).hex() == vector["acceptor_hash"]
        assert mac(token, b"hermes-peer 1 acceptor proof" + sha256(transcript)) == acceptor_proof

        _, structure, initiator_proof = with_proof(PAYLOADS["ESTABLISHED"], frames[2][1])
        transcript += part(acceptor_proof) + part(structure)
        final = sha256(transcript)
        assert final.hex() == vector["final_hash"]
        assert mac(token, b"hermes-peer 1 initiator proof" + final) == initiator_proof

        key = mac(final, part(exporter) + part(token) + part(former))
        secret = mac(key, b"hermes-peer 1 link secret" + b"\x01")
        assert secret.hex() == vector["link_secret"], "link secret"


def check_exchanges():
    for vector in vectors("exchanges.json"):
        halves, ended, said = {}, set(), []
        for frame in vector["frames"]:
            header, payload = read_frame(frame["hex"])
            kind = header["message_type"]
            assert kind == frame["type"] and header["version"] == 2
            if "CONTROL" in header["flags"]:
                value = read_whole(PAYLOADS[kind], payload)
                assert PAYLOADS[kind].write(value) == payload
                continue
            half = (frame["from"], header["stream"])
            assert half not in ended, "data after FIN"
            last, waiting = halves.get(half, (kind, b""))
            assert not waiting or last == kind, "a message goes on in its own type"
            waiting += payload
            while waiting:
                reader = Reader(waiting)
                try:
                    message = read_message(reader)
                except Bad as bad:
                    assert str(bad) == "it ends too early", bad
                    break
                said.append({"from": frame["from"], "type": kind, **message})
                waiting = waiting[reader.at :]
            halves[half] = (kind, waiting)
            if "FIN" in header["flags"]:
                assert not waiting, "a message is cut"
                assert kind in ("RESPONSE", "ERROR") or frame["from"] == "initiator"
                ended.add(half)
        assert said == vector["input"], vector["name"]
        for message in said:
            for field in message["envelope"].get("extra", []):
                kind, data = EVENT_FIELDS[field["tag"]], bytes.fromhex(field["value"])
                assert kind.write(read_whole(kind, data)) == data
            if message["type"] == "ERROR":
                read_whole(PAYLOADS["ERROR"], bytes.fromhex(message["body"]))


def main():
    checks = [check for name, check in globals().items() if name.startswith("check_")]
    for check in checks:
        check()
        print(check.__name__.removeprefix("check_"), "agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
