"""The bytes of a file behind a URL, in blocks that are fetched when they are read."""

from collections import OrderedDict

from leakdet._remote import RemoteFile

BLOCK_BYTES = 8 << 20  # a file that is shorter takes one request
KEPT_BLOCKS = 3  # the memory of a file of any length: where it is read, its start and its end


class RemoteBytes:
    """Reads any part of a file; a short one is fetched whole, by one request.

    Raises:
        InputError: there is no such file, or it cannot be reached.
    """

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self.size = BLOCK_BYTES
        first = self._block(0)
        self.size = len(first) if len(first) < BLOCK_BYTES else file.size()

    def read_at(self, at: int, count: int) -> bytes:
        """`count` bytes from `at` on, or as many as there are."""
        parts, stop = [], min(at + count, self.size)
        while at < stop:
            number, skip = divmod(at, BLOCK_BYTES)
            part = self._block(number)[skip : skip + stop - at]
            if not part:
                break  # it became shorter
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number in self._blocks:
            self._blocks.move_to_end(number)
        else:
            start = number * BLOCK_BYTES
            self._blocks[number] = self._file.read_range(start, start + BLOCK_BYTES)
            if len(self._blocks) > KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        return self._blocks[number]

    def close(self) -> None:
        """Forget the blocks."""
        self._blocks.clear()
