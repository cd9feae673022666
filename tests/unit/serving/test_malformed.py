"""Requests that no honest client sends: none is answered 500, and none reads what it should not."""

import random
from pathlib import Path
from typing import Any

from tests.unit.serving.conftest import HOST, TOKEN, Answer, Client

REQUESTS = 2_000
SECRET = b"the-secret-beside-the-work-folder"
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "", "G E T", "\xff"]
PATHS = [
    "/", "/state", "/places", "/page.css", "/page.js", "/card/0.0", "/card/", "/card/%2e", "/rows.csv",
    "/rows.xlsx", "/rows.exe", "/sounds", "/do/tick", "/do/folder", "/do/pattern", "/do/stop", "/do/rank",
    "/do/switch", "/do/", "/v1/predict", "/v1/model", "/v1/openapi.json", "/v1/", "/health", "/look/", "/look//",
    "/look/KEY/0/", "/look/KEY/1/../../secret.html", "/look/KEY/1/confirm.csv", "/look/KEY/99/a.html",
    "/look/KEY/1//secret.html", "/look/KEY/1/\0.html", "/../secret.html", "//", "/\udcff", "/" + "x" * 9000,
    "/look/KEY/1/uploads/../../secret.html", "/static/../../secret.html", "/.%2e/secret.html",
]  # fmt: skip
BODIES = [
    b"", b"{", b"[" * 5000, b"null", b"[]", b'"text"', b"\xff\xfe", b'{"row": 1, "label": {}}', b'{"row": "\\ud800"}',
    b'{"row": "0.0", "label": "leak"}', b'{"row": "9.9", "label": "\\u0000"}', b'{"folder": -1}', b'{"folder": 1e400}',
    b'{"folder": 99999999999999999999}', b'{"place": true}', b'{"pattern": "{}"}', b'{"pattern": "{site:%Q}"}',
    b'{"pattern": "((((a+)+)+)+{site"}', b"RIFF\xff\xff\xff\xffWAVEfmt ", b"fLaC" + bytes(40), b"OggS" + bytes(60),
    b"path,site\n\"open", b"PK\x03\x04" + bytes(30), b"\0" * 3000, b"--x\r\n", b"path\n" + b"../../secret.html\n" * 9,
    b'--x\r\nContent-Disposition: form-data; name="sound"; filename="../../../secret.html"\r\n\r\nRIFF\r\n--x--\r\n',
    b'--x\r\nContent-Disposition: form-data; filename="a"\r\n\r\n', b"--x\r\n\r\n\r\n--x--", b"x" * 200_000,
]  # fmt: skip
QUERIES = [
    b"", b"since=-1", b"since=\xff", b"name=../../secret.html", b"name=a.csv", b"name=a.xlsx", b"name=" + b"n" * 3000,
    b"name=%00", b"decision=%ff&site=%00&text=" + b"t" * 900, b"token=", b"token=wrong&token=" + TOKEN.encode(),
    b"&&==&%", b"name=%ed%a0%80.wav", b"name=-rf", b"name=.wav",
]  # fmt: skip
HEADERS = [
    (b"host", b"evil.example"), (b"host", b""), (b"host", b"127.0.0.1:8765:1"), (b"host", b"\xff"), (b"host", b"[::"),
    (b"origin", b"null"), (b"origin", b"http://["), (b"origin", b"http://evil.example"), (b"cookie", b"\xff=\xff;;="),
    (b"content-length", b"-5"), (b"content-length", b"99999999999999999999"), (b"content-length", b"\xb2"),
    (b"content-type", b"multipart/form-data"), (b"content-type", b"multipart/form-data; boundary=x"),
    (b"content-type", b"multipart/form-data; boundary="), (b"content-type", b"multipart/form-data; boundary=" + b"x" * 500),
    (b"content-type", b"multipart/form-data; boundary=x; charset=no"), (b"content-type", b"\xff"),
    (b"authorization", b"Bearer \xff"), (b"authorization", b""), (b"accept", b"text/html"), (b"range", b"bytes=9-1"),
    (b"range", b"bytes=0-0," * 400), (b"if-none-match", b"*"), (b"expect", b"100-continue"),
]  # fmt: skip


async def sent(client: Client, rng: random.Random) -> Answer:
    """A request of parts drawn at random, most of them with the right keys; some break off."""
    path = rng.choice(PATHS).replace("KEY", client.keys.look)
    cookie = f"{client.keys.cookie_name}={client.keys.cookie}".encode()
    honest = [
        (b"host", HOST.encode()),
        (b"cookie", cookie),
        (b"authorization", f"Bearer {TOKEN}".encode()),
    ]
    odd = rng.sample(HEADERS, rng.choice([0, 0, 1, 1, 2]))
    names = {name for name, _ in odd} if rng.random() < 0.8 else set()  # else twice
    headers = [(name, value) for name, value in honest if name not in names] + odd
    method = rng.choice(METHODS) if rng.random() < 0.2 else rng.choice(["GET", "POST"])
    scope = client.scope(method, path, rng.choice(QUERIES), headers)
    body = rng.choice(BODIES)
    half = rng.randrange(len(body) + 1)
    return await client.answer(scope, [body[:half], body[half:]], whole=rng.random() < 0.8)


def test_two_thousand_of_them_are_answered_without_harm(
    serving: Any, tmp_path: Path, sounds: list[Path]
) -> None:
    secret = tmp_path / "secret.html"
    secret.write_bytes(SECRET)
    client = serving(sounds[0].parent)
    client.drop(sounds[0])
    rng, statuses = random.Random(0), set()
    for number in range(REQUESTS):
        answer = client.loop.run_until_complete(sent(client, rng))
        statuses.add(answer.status)
        assert answer.status < 500, (number, answer)
        assert SECRET not in answer.body
        assert b"Traceback" not in answer.body
    assert {200, 400, 401, 403, 404, 405, 413, 422} <= statuses
    assert secret.read_bytes() == SECRET
    assert {path.name for path in tmp_path.iterdir()} == {"secret.html", "work", "sent"}
    assert client.ask("/v1/predict", sounds[1].read_bytes()).status == 200


def test_clients_at_once_are_all_answered_once(client: Client, sounds: list[Path]) -> None:
    import asyncio

    contents = [sound.read_bytes() for sound in sounds]
    head = [(b"host", HOST.encode()), (b"authorization", f"Bearer {TOKEN}".encode())]

    async def one_client(number: int) -> list[tuple[str, float]]:
        answers = []
        for turn in range(12):
            content = contents[(number + turn) % len(contents)]
            name = f"{number}-{turn}-{(number + turn) % len(contents)}"
            scope = client.scope("POST", "/v1/predict", f"name={name}".encode(), head)
            answer = await client.answer(scope, [content])
            assert answer.status == 200, answer.body
            answers.append((answer.json["path"], answer.json["leak_prob"]))
        return answers

    async def all_clients() -> list[list[tuple[str, float]]]:
        return list(await asyncio.gather(*(one_client(number) for number in range(8))))

    answers = [a for of_client in client.loop.run_until_complete(all_clients()) for a in of_client]
    assert len({path for path, _ in answers}) == 96
    probs = {path.rpartition("-")[2]: prob for path, prob in answers}
    assert all(probs[path.rpartition("-")[2]] == prob for path, prob in answers)
    assert list(client.service.bench.uploads.iterdir()) == []
