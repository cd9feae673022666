"""Tags around the sound of a file: ID3, APE and Lyrics3, as music programs write them."""

from leakdet.acoustics.byte_source import ByteSource

ID3_BYTES = 1 << 16  # searched at the end of a file


def after_tags(source: ByteSource, at: int) -> int:
    """The end of the tags that begin here."""
    while True:
        head = source.at(at, 32)
        if head[:3] == b"ID3" and len(head) >= 10:
            at += 10 + _sevens(head[6:10])
        elif head[:3] == b"TAG":
            at += 128
        elif head[:8] == b"APETAGEX":
            is_head = head[20:24] and int.from_bytes(head[20:24], "little") >> 29 & 1
            at += 32 + (int.from_bytes(head[12:16], "little") if is_head else 0)
        elif head[:11] == b"LYRICSBEGIN":
            end = source.find(b"LYRICS200", at)
            at = end + 9 if end >= 0 else source.size
        else:
            return min(at, source.size)


def before_tags(source: ByteSource) -> int:
    """The start of the tags at the end of a file; its size where there are none."""
    end = source.size
    while (start := _last_tag(source, end)) < end:
        end = start
    return end


def _last_tag(source: ByteSource, end: int) -> int:
    """Where the tag that ends here begins; `end` if none does."""
    if end >= 128 and source.at(end - 128, 3) == b"TAG":
        return end - 128
    foot = source.at(end - 32, 32) if end >= 32 else b""
    if foot[:8] == b"APETAGEX":
        has_head = int.from_bytes(foot[20:24], "little") >> 31
        return max(0, end - int.from_bytes(foot[12:16], "little") - 32 * has_head)
    if foot[-9:] == b"LYRICS200" and foot[-15:-9].isdigit():
        return max(0, end - 15 - int(foot[-15:-9]))
    at = source.find(b"ID3", max(0, end - ID3_BYTES))
    while 0 <= at < end and at + 10 + _sevens(source.at(at + 6, 4)) != end:
        at = source.find(b"ID3", at + 1)
    return at if 0 <= at < end else end


def _sevens(data: bytes) -> int:
    """The number of which every byte holds seven bits."""
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
    return number
