"""A server process that can be asked what it holds: `python -m tests.soak.census FILE python -m rocketpy broker -c …`.

SIGUSR2 makes it write FILE: the entries of every table of its Python objects, the native counters, the bytes malloc has given out. So what
is left behind by topics, groups and connections that are gone is seen where it lies, and long before the resident memory shows it.

    tables   "Class.attribute" → entries of all such containers together, and of those in them, of objects whose class is rocketpy's
    objects  living objects that the collector knows, by class
    names    for each prefix of NAMED, how many strings in tables, and as attributes, have it in them
    native   the counters of the data plane, its stores and servers, by class
    heap     bytes in use (malloc and mmap), as mallinfo2 has them; -1 where libc has no such thing

Threads  the handler runs on the main thread, between two steps of the event loop: tables are whole.
"""

from __future__ import annotations

import ctypes
import gc
import json
import runpy
import signal
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.soak.names import NAMED

CONTAINERS = (dict, list, set, frozenset, deque, tuple)
NATIVE = ("Broker", "MessageStore", "Server", "HaMaster", "HaSlave")


class _Heap(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def heap_bytes() -> int:
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return -1
    ask.restype = _Heap
    heap = ask()
    return int(heap.uordblks + heap.hblkhd)


def attributes(thing: object) -> Iterator[tuple[str, Any]]:
    """Those of instances: what is in slots, too."""
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                yield name, getattr(thing, name)
            except AttributeError:
                continue


def members(container: Any, *, with_fields: bool = True) -> Iterator[Any]:
    """Its own, and those of containers in it: tables of groups hold tables of clients. with_fields: a named tuple's too, of which a table
    has no more entries."""
    if isinstance(container, dict):
        yield from container
        inner: Any = container.values()
    else:
        yield from container
        inner = container
    for each in inner:
        if isinstance(each, CONTAINERS) and (with_fields or not hasattr(each, "_fields")):
            yield from members(each, with_fields=with_fields)


def names_in(texts: Iterable[Any]) -> Counter[str]:
    return Counter(kind for text in texts if isinstance(text, str) for kind, mark in NAMED.items() if mark in text)


def census() -> dict[str, Any]:
    gc.unfreeze()  # what a start has loaded, which is most of it (rocketpy/garbage.py), would not be among the objects
    gc.collect()
    tables: Counter[str] = Counter()
    objects: Counter[str] = Counter()
    names: Counter[str] = Counter()
    native: dict[str, dict[str, int]] = {}
    for thing in gc.get_objects():
        kind = type(thing)
        module = kind.__module__ if isinstance(kind.__module__, str) else "builtins"  # a class of classes gives a descriptor
        objects[f"{module}.{kind.__qualname__}"] += 1
        if not module.startswith("rocketpy"):
            continue
        for name, value in attributes(thing):
            if isinstance(value, (str, *CONTAINERS)):
                held = [value] if isinstance(value, str) else members(value)
                tables[f"{kind.__qualname__}.{name}"] += 0 if isinstance(value, str) else sum(1 for _ in members(value, with_fields=False))
                names.update({f"{kind.__qualname__}.{name}: {named}": count for named, count in names_in(held).items()})
            elif type(value).__name__ in NATIVE and callable(getattr(value, "stats", None)):
                _note(native, value)
        for value in (each for _, many in attributes(thing) if isinstance(many, list) for each in many):
            if type(value).__name__ in NATIVE:
                _note(native, value)
    return {"tables": tables, "objects": objects, "names": names, "native": native, "heap": heap_bytes()}


def _note(native: dict[str, dict[str, int]], thing: Any) -> None:
    try:
        stats = thing.stats()
    except Exception:  # closed meanwhile
        return
    label = f"{type(thing).__name__} {thing.port}" if type(thing).__name__ == "Server" else type(thing).__name__
    native[label] = {name: value for name, value in stats.items() if isinstance(value, int)}


def answer(path: Path) -> None:
    """A file that appears whole."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(census()))
    draft.replace(path)


def main() -> None:
    path, arguments = Path(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGUSR2, lambda number, frame: answer(path))
    assert "-m" in arguments, f"{arguments}: python -m MODULE is what can be run here"
    place = arguments.index("-m")
    sys.argv = arguments[place + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
