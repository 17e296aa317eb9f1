"""Digests of many short texts and some long ones, with base64 and a checksum."""
import base64
import hashlib
import zlib


def work():
    last, check = b"", 0
    for i in range(9000):
        last = hashlib.sha256(last + str(i).encode()).digest()
        check = zlib.crc32(base64.b64encode(last), check)
    long = last * 4096
    return hashlib.md5(long).hexdigest(), hashlib.blake2b(long).hexdigest()[:16], check
