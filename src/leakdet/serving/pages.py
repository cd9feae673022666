"""The page: its parts as HTML, its rows as JSON, and what its buttons do."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from leakdet.core.errors import InputError, LeakdetError
from leakdet.core.files import megabytes
from leakdet.core.locations import AUDIO_SUFFIXES
from leakdet.detection.decision import LIMITS
from leakdet.reporting.pages import filled
from leakdet.reporting.recording_card import Card, Cards
from leakdet.reporting.review_page import CHOICES
from leakdet.reporting.worklist_page import advice
from leakdet.scoring.playback import Player
from leakdet.serving.guard import Json, Keys, RequestError
from leakdet.serving.service import Service
from leakdet.serving.uploads import check_length, receive, shown_name
from leakdet.serving.workbench import SHOWN, Filter, Row
from leakdet.storage.model_card import ModelVerdict
from leakdet.tables.schema import Verdict

PAGE = Path(__file__).parent / "page"
ONWARD = (
    '<!DOCTYPE html><link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/">'
)
TYPES = {"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}
MAX_LIST_BYTES = 5_000_000
LISTS = (".csv", ".tsv", ".xlsx", ".txt")
# reports bring their own scripts and styles; they run apart from this page, without its cookie
APART = (
    "sandbox allow-scripts allow-downloads allow-forms; default-src 'none'; img-src data:; "
    "media-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "frame-ancestors 'self'"
)

Value = TypeVar("Value")

WHAT_TO_DO = {
    "doubt": "too close to call: listen to it first, it is a possible leak",
    "other_source": "of another logger: confirm 8 or more of its recordings, and learn",
    "unfamiliar": "unlike the training recordings: if it is a pipe, confirm it and learn",
    "silent": "no sound: look at the logger, its sensor and its cable",
    "short": "shorter than a window of the model: record longer",
    "stuck": "the sensor gave one value: look at the logger",
    "dropouts": "the sound breaks off: look at the logger and its transfer",
}
MET = "it trained the model, so its verdict is no evidence"


def hint(verdict: Verdict) -> str:
    """What to do about a recording that is undecided, or why it is worth nothing."""
    known = MET if "met_in_training" in verdict.flags else ""
    return verdict.error or WHAT_TO_DO.get(verdict.reason, "") or known


def familiarity_words(familiarity: float | None) -> str:
    """How much a recording is like those of training, in words.

    >>> familiarity_words(0.3), familiarity_words(1.2)
    ('sounds like the training recordings', 'unlike the training recordings')
    """
    if familiarity is None:
        return "unknown"
    if familiarity > LIMITS["normal"]:
        return "unlike the training recordings"
    if familiarity > LIMITS["strict"]:
        return "at the edge of the training recordings"
    return "sounds like the training recordings"


def row_content(row: Row) -> dict[str, Any]:
    """A row as the page lists it."""
    verdict = row.verdict
    content: dict[str, Any] = {
        "id": row.id,
        "name": row.entry.name + (f", channel {row.channel}" if row.channel else ""),
        "decision": row.decision,
        "site": row.entry.columns.get("site", ""),
        "label": row.label,
    }
    if verdict is not None:
        content |= {"prob": verdict.leak_prob, "to_do": hint(verdict)}
    return content


def card_of(row: Row, verdict: Verdict, player: Player) -> Card:
    """The recording with picture, timeline and sound, and what is known of it."""
    facts = {
        **row.entry.columns,
        "leak probability": "" if verdict.leak_prob is None else f"{verdict.leak_prob:.2f}",
        "threshold": f"{verdict.threshold:.2f}",
        "familiarity": familiarity_words(verdict.familiarity),
        "seconds": "" if verdict.duration_s is None else f"{verdict.duration_s:g}",
        "sample rate": f"{verdict.source_rate_hz} Hz" if verdict.source_rate_hz else "",
        "flags": ", ".join(verdict.flags),
    }
    probs = np.array([window.leak_prob for window in verdict.windows])
    media: dict[str, Any] = {"window_prob": probs, "duration_s": verdict.duration_s}
    if not verdict.error and (playback := player.play(row.entry.source, verdict.channel)):
        media |= vars(playback)
    name, threshold = row.entry.name, verdict.threshold
    return Cards().card(name, threshold, why=hint(verdict), facts=facts, **media)


def filter_of(request: Request) -> Filter:
    """What the query asks to be shown."""
    asked = request.query_params
    return Filter(*(asked.get(name, "")[:200] for name in ("decision", "site", "text")))


async def body_of(request: Request) -> Mapping[str, Any]:
    """The object of JSON in a body. Raises `RequestError` where it is none."""
    try:
        content = json.loads(await request.body() or "{}")
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise RequestError(400, "the body is no object of JSON.")
    return content


def value_in(content: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    """A value of an object, of its kind. Raises `RequestError` where it is of another."""
    if isinstance(value := content.get(name), kind):
        return value
    raise RequestError(400, f"{name} is {json.dumps(value)[:50]}, and must be of {kind.__name__}.")


class Pages:
    """The routes of the page."""

    def __init__(self, service: Service, keys: Keys) -> None:
        self._service, self._keys = service, keys
        self._bench = service.bench

    def routes(self) -> list[Route]:
        return [
            Route("/", self.page),
            Route("/page.css", self.style),
            Route("/page.js", self.script),
            Route("/state", self.state),
            Route("/places", self.places),
            Route("/card/{row}", self.card),
            Route("/rows.{kind}", self.download),
            Route("/look/{key}/{address:path}", self.look),
            Route("/sounds", self.sounds, methods=["POST"]),
            Route("/do/{action}", self.act, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """The page; from the opened link, first a cookie, and then the page without the token."""
        if request.scope.get("entered"):
            onward = HTMLResponse(ONWARD)
            self._keys.set_cookie(onward)
            return onward
        content = {
            "choices": CHOICES,
            "suffixes": " ".join(sorted(AUDIO_SUFFIXES)),
            "folders": [str(folder) for folder in self._service.places.folders],
            "table": str(self._bench.table),
        }
        return self._html("page.html.j2", content)

    def _html(self, template: str, content: Mapping[str, Any]) -> Response:
        # Names of files may hold bytes that are no UTF-8.
        return HTMLResponse(filled(template, content, PAGE).encode(errors="backslashreplace"))

    async def style(self, request: Request) -> Response:
        return Response(filled("page.css.j2", {}, PAGE), media_type="text/css")

    async def script(self, request: Request) -> Response:
        return FileResponse(PAGE / "page.js", media_type="text/javascript")

    async def state(self, request: Request) -> Response:
        """What has changed since the version that the page has, all of it; else nothing."""
        job, facts = self._service.jobs.latest, self._bench.facts()
        facts |= {"job": job.content() if job else None, "model": self._model()}
        if request.query_params.get("since") != str(facts["version"]):
            rows = self._bench.rows(filter_of(request))
            shown = [row_content(row) for row in rows[:SHOWN]]
            facts |= {"rows": shown, "matching": len(rows)}
        return Json(facts)

    def _model(self) -> dict[str, Any] | None:
        """What the model in use is worth, as the report says it."""
        if not self._service.engine.is_ready:
            return None
        detector = self._service.engine.detector
        verdict = ModelVerdict.of(detector.mel_detector.card)
        return {
            **asdict(verdict),
            "hash": detector.mel_detector.file_hash,
            "path": str(detector.path),
            "advice": advice(verdict),
            "synthetic": verdict.is_of_synthetic,
        }

    async def places(self, request: Request) -> Response:
        """Pages to look at, and rows to rank."""
        places = self._service.places
        pages = await asyncio.to_thread(places.pages)
        rows = await asyncio.to_thread(places.rows)
        shown = [
            {"name": places.name(page), "url": f"/look/{self._keys.look}/{places.address(page)}"}
            for page in pages
        ]
        return Json({"pages": shown, "rows": [str(place) for place in rows]})

    async def look(self, request: Request) -> Response:
        """A report or a work list, apart from this page."""
        file = self._service.places.page_at(request.path_params["address"])
        return FileResponse(file, headers={"content-security-policy": APART})

    async def card(self, request: Request) -> Response:
        """A recording, to see and to hear."""
        row = self._bench.row(request.path_params["row"])
        if row.verdict is None:
            raise InputError(f"{row.entry.name}: it is not scored yet.")
        player = Player(self._service.engine.detector.mel_detector, 1)
        card = await asyncio.to_thread(card_of, row, row.verdict, player)
        return self._html("card.html.j2", {"card": card, "decision": row.decision})

    async def download(self, request: Request) -> Response:
        """The rows that are shown, as a table for people."""
        kind = request.path_params["kind"]
        if kind not in ("csv", "xlsx"):
            raise RequestError(404, "rows are given as rows.csv or rows.xlsx.")
        file = self._bench.uploads / f".rows-{id(request)}.{kind}"
        try:
            await asyncio.to_thread(self._bench.write_shown, file, filter_of(request))
            content = file.read_bytes()
        finally:
            file.unlink(missing_ok=True)
        named = {"content-disposition": f'attachment; filename="verdicts.{kind}"'}
        return Response(content, headers=named, media_type=TYPES.get(kind, "text/csv"))

    async def sounds(self, request: Request) -> Response:
        """A sound that was dropped, or a list that tells sites and times."""
        name = shown_name(request.query_params.get("name", ""))
        upload = await receive(request.stream(), self._bench.uploads, name)
        if name.lower().endswith(LISTS):
            try:
                if (size := upload.path.stat().st_size) > MAX_LIST_BYTES:
                    raise RequestError(413, f"{name}: a list of {megabytes(size)}; at most 5 MB.")
                listed = await asyncio.to_thread(self._bench.read_list, upload.path)
            except InputError as error:
                raise InputError(str(error).replace(str(upload.path), name)) from error
            finally:
                upload.path.unlink()
            return Json({"listed": listed})
        try:
            await asyncio.to_thread(check_length, upload.path, name)
            return Json({"added": int(self._bench.add(upload.path, upload.key, name))})
        except LeakdetError:
            upload.path.unlink()
            raise

    async def act(self, request: Request) -> Response:
        """What a button asks for, with its values in an object of JSON."""
        content, service, bench = await body_of(request), self._service, self._bench
        actions: Mapping[str, Callable[[], object]] = {
            "folder": lambda: service.add_folder(value_in(content, "folder", int)),
            "pattern": lambda: bench.set_pattern(value_in(content, "pattern", str)),
            "stop": bench.stop,
            "tick": lambda: bench.tick(
                value_in(content, "row", str), value_in(content, "label", str)
            ),
            "learn": service.learn,
            "switch": service.switch,
            "rank": lambda: service.rank(value_in(content, "place", int)),
        }
        action = actions.get(request.path_params["action"])
        if action is None:
            raise RequestError(404, f"there is no action but {', '.join(actions)}.")
        await asyncio.to_thread(action)
        return Json({})
