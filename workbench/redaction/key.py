"""The private key of a redaction: a salt, and which pseudonym stands for what.

Pseudonyms are keyed hashes (HMAC-SHA256 with the salt), so a name has the same one in every rank
and file, and no list of guesses finds it without the key. Another redaction has another salt,
unless it is given an earlier key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from workbench.errors import InputError, UsageError
from workbench.trace import atomic

VERSION = 1
LETTERS = "bcdghjkqrtvxz"
"""No word that an analysis reads in a name can be spelled with these."""
_LENGTH = 10
_LONGEST = 40
_LARGEST = 1 << 30
_PRIVATE = 0o600


class _File(msgspec.Struct):
    workbench_redaction_key: int
    salt: str
    names: dict[str, str]
    """Pseudonym to original."""


@dataclass
class Key:
    """A salt, and the pseudonyms that it was asked for."""

    salt: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    names: dict[str, str] = field(default_factory=dict)

    def token(self, kind: str, original: str, length: int = _LENGTH) -> str:
        """Return the letters that stand for a name of a kind."""
        digest = hmac.digest(self.salt, f"{kind}\0{original}".encode(), hashlib.sha256)
        number = int.from_bytes(digest, "big")
        letters = []
        for _ in range(length):
            number, place = divmod(number, len(LETTERS))
            letters.append(LETTERS[place])
        return "".join(letters)

    def pseudonym(self, kind: str, original: str, lead: str = "") -> str:
        """Return and remember the pseudonym of a name: `lead`, the kind, and letters."""
        for length in range(_LENGTH, _LONGEST):
            found = f"{lead}{kind}_{self.token(kind, original, length)}"
            if self.names.setdefault(found, original) == original:
                return found
        raise UsageError(f"No {kind} pseudonym is free with this key; use a new key.")

    def digest(self, original: str) -> str:
        """Return a hash of a hash, which only who has the key can tell to be of the same file."""
        return hmac.digest(self.salt, original.encode(), hashlib.sha256).hex()


def read(path: Path) -> Key:
    """Read the key of an earlier redaction.

    Raises
    ------
    InputError
        It can't be read, or is no such key.
    """
    try:
        with path.open("rb") as file:
            held = msgspec.json.decode(file.read(_LARGEST), type=_File)
        salt = bytes.fromhex(held.salt)
    except OSError as error:
        raise InputError(f"The key {path} can't be read: {atomic.reason(error)}.") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise InputError(
            f"{path} is no key of a redaction, so it is left alone; name another file for the key."
        ) from None
    if held.workbench_redaction_key != VERSION:
        raise InputError(
            f"The key {path} has version {held.workbench_redaction_key}, and this version of "
            f"Workbench reads {VERSION}; update Workbench."
        )
    return Key(salt, dict(held.names))


@contextmanager
def kept(key: Key, path: Path, *, is_old: bool) -> Iterator[None]:
    """Write a key that its owner alone may read; a new one goes again when what follows fails.

    Raises
    ------
    UsageError
        A new key would replace a file.
    InputError
        It can't be written.
    """
    try:
        _replace(path, key) if is_old else _write(path, key)
    except FileExistsError:
        raise UsageError(
            f"{path} exists already; name another file with --key, so that no key is lost."
        ) from None
    except OSError as error:
        raise InputError(f"The key {path} can't be written: {atomic.reason(error)}.") from None
    try:
        yield
    except BaseException:
        if not is_old:
            path.unlink(missing_ok=True)
        raise


def _replace(path: Path, key: Key) -> None:
    part = atomic.part_of(path)
    try:
        _write(part, key)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write(path: Path, key: Key) -> None:
    held = _File(VERSION, key.salt.hex(), dict(sorted(key.names.items())))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        os.chmod(path, _PRIVATE)  # noqa: PTH101 - whatever the umask
        file.write(msgspec.json.format(msgspec.json.encode(held), indent=1) + b"\n")
