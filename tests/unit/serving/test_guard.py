from typing import Any

import pytest
from tests.unit.serving.conftest import HOST, TOKEN

from leakdet.core.errors import LeakdetError
from leakdet.serving.guard import MAX_FORM_BYTES, Guard, Keys


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:9000"}, 200),  # a forwarded port
        ({"host": "[::1]:8765"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": ""}, 403),
        ({"host": "[::1"}, 403),
        ({"host": "10.0.0.1:8765"}, 403),
        ({"cookie": ""}, 401),
        ({"cookie": "leakdet-8765=wrong"}, 401),
        ({"cookie": "leakdet-8765=é"}, 401),
        ({"cookie": f"leakdet-8765={TOKEN}"}, 401),  # that is of the link
        ({"cookie": "", "authorization": f"Bearer {TOKEN}"}, 401),  # that is of machines
        ({"origin": f"http://{HOST}"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),  # another server of this machine
        ({"origin": "null"}, 403),
        ({"content-length": "abc"}, 400),
        ({"content-length": "-1"}, 400),
        ({"content-length": "9" * 30}, 413),
        ({"content-length": str(MAX_FORM_BYTES + 1)}, 413),
    ],
)
def test_the_page_is_for_its_own_browser(client: Any, headers: dict[str, str], status: int) -> None:
    answer = client.ask("/state", headers=headers)
    assert answer.status == status, answer.body
    if status != 200:
        assert set(answer.json) == {"error"}


@pytest.mark.parametrize(
    "given",
    ["", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", "Bearer ü", f"Bearer {TOKEN[:-1]}"],
)
def test_machines_need_the_whole_token(client: Any, given: str) -> None:
    answer = client.ask("/v1/model", headers={"authorization": given})
    assert (answer.status, "Bearer TOKEN" in answer.error) == (401, True)
    with_cookie = {
        "authorization": given,
        "cookie": f"{client.keys.cookie_name}={client.keys.cookie}",
    }
    assert client.ask("/v1/model", headers=with_cookie).status == 401


def test_the_link_gives_a_cookie_and_leads_on_without_the_token(client: Any) -> None:
    answer = client.ask("/", headers={"cookie": ""}, token=TOKEN)
    cookie = answer.headers["set-cookie"]
    assert answer.status == 200
    assert b"url=/" in answer.body
    assert TOKEN not in cookie + answer.body.decode()
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    given = cookie.split(";")[0]
    assert b"Drop recordings" in client.ask("/", headers={"cookie": given}).body
    assert client.ask("/", headers={"cookie": ""}, token="wrong").status == 401


def test_every_answer_forbids_foreign_content_and_referrers(client: Any) -> None:
    for path in ("/", "/state", "/nothing", "/health", "/v1/model", "/page.js"):
        headers = client.ask(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"


def test_a_body_without_length_is_cut_at_its_limit(client: Any) -> None:
    raw = [
        (b"host", HOST.encode()),
        (b"cookie", f"{client.keys.cookie_name}={client.keys.cookie}".encode()),
    ]
    scope = client.scope("POST", "/do/tick", b"", raw)
    pieces = [b"x" * 10_000] * 20
    answer = client.loop.run_until_complete(client.answer(scope, pieces))
    assert (answer.status, "65,536 bytes" in answer.error) == (413, True)


def test_a_refusal_is_a_page_where_a_browser_navigates(client: Any) -> None:
    answer = client.ask("/", headers={"cookie": "", "accept": "text/html", "host": "<b>.example"})
    assert answer.headers["content-type"].startswith("text/html")
    assert b"<b>" not in answer.body


def test_a_short_token_is_refused_and_a_new_one_is_long() -> None:
    with pytest.raises(LeakdetError, match="16"):
        Keys.made(1, "short")
    for given in ("sixteen characters", "é" * 16, "a" * 15 + "\n"):
        with pytest.raises(LeakdetError, match="other signs"):
            Keys.made(1, given)
    assert len(Keys.made(1).token) >= 32
    assert Keys.made(1).token != Keys.made(1).token


def test_any_address_is_this_server_where_it_listens_on_all_but_no_foreign_name(
    client: Any,
) -> None:
    everywhere = Guard(client.app._app, client.keys, ["0.0.0.0"], True)
    client.app = everywhere
    assert client.ask("/state", headers={"host": "192.168.3.4:8765"}).status == 200
    assert client.ask("/state", headers={"host": "evil.example:8765"}).status == 403
