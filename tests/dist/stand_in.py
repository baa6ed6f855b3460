"""A store in this memory, in place of torch's: what processes put there, and how many operations it took."""

import threading
from collections import Counter


class StandIn:
    """Set, get, check and the rest, as torch's stores have them; a missing key is an error at once."""

    def __init__(self, **content):
        self.content, self.operations, self._lock = dict(content), Counter(), threading.Lock()

    def _count(self, kind, key):
        with self._lock:
            self.operations[kind, key.partition("/")[0]] += 1

    def set(self, key, content):
        self._count("set", key)
        self.content[key] = content if isinstance(content, bytes) else content.encode()

    def get(self, key):
        self._count("get", key)
        return self._found(key)

    def multi_get(self, keys):
        self._count("get", keys[0])
        return [self._found(key) for key in keys]

    def check(self, keys):
        self._count("check", keys[0])
        return self.has_all(keys)

    def has_all(self, keys):
        return all(key in self.content for key in keys)

    def compare_set(self, key, expected, wanted):
        self._count("set", key)
        with self._lock:
            if key not in self.content and not expected:
                self.content[key] = wanted.encode()
        return self._found(key)

    def wait(self, keys, timeout=None):
        self._count("wait", keys[0])
        if not all(key in self.content for key in keys):
            raise RuntimeError(f"no {keys} in {timeout}")

    def _found(self, key):
        if key not in self.content:
            raise RuntimeError(f"no {key}")
        return self.content[key]
