"""Errors of a full memory, as Python, NumPy and torch raise them, in one sentence."""

import re

TEXTS = ("out of memory", "can't allocate memory", "_ALLOC_FAILED")
WANTED = re.compile(r"(?:[Tt]ried to allocate|Unable to allocate) ([\d.]+) ?(\w+)")
OF_DEVICE = re.compile(r"GPU (\d+) has a total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+)")


def memory_sentence(error: BaseException) -> str | None:
    """`out of memory …` with the numbers that the error has; None for an error of another kind.

    Known by name and text where its class is torch's, so that nobody imports torch for this.
    """
    text = str(error)
    named = type(error).__name__ == "OutOfMemoryError" or any(word in text for word in TEXTS)
    of_torch = isinstance(error, RuntimeError) and named
    if not (of_torch or isinstance(error, MemoryError)):
        return None
    sentence, wanted, device = "out of memory", WANTED.search(text), OF_DEVICE.search(text)
    if device:
        sentence += f" on GPU {device[1]}, which has {device[2]}, {device[3]} of them free"
    elif "CU" in text:
        sentence += " on the GPU"
    return sentence + (f": {_size(*wanted.groups())} more were wanted" if wanted else "")


def _size(number: str, unit: str) -> str:
    return f"{int(number) / 1e9:.2f} GB" if unit == "bytes" else f"{number} {unit}"
