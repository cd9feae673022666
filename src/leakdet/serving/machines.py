"""HTTP for machines: a sound in, the row of `leakdet predict` with its windows out."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import leakdet
from leakdet.scoring.prediction import run_facts
from leakdet.serving.engine import Engine
from leakdet.serving.guard import Json, RequestError
from leakdet.serving.uploads import Upload, check_length, receive, shown_name
from leakdet.storage.model_card import ModelVerdict
from leakdet.tables.schema import COLUMNS, InputRecording, Verdict

DESCRIPTION = Path(__file__).parent / "page/openapi.json"
PIECE_BYTES = 1 << 18
AT_WORK = 8  # bodies that are received and scored at a time; others wait unread
PATIENCE_S = 120  # with a body
MOST_REQUESTS = 256  # that wait or are at work
TYPES = {"string": "string", "int64": "integer", "float64": "number"}


class Machines:
    """The routes below `/v1`, and `/health`."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self._at_work, self._requests = asyncio.Semaphore(AT_WORK), 0

    def routes(self) -> list[Route]:
        return [
            Route("/health", self.health),
            Route("/v1/model", self.model),
            Route("/v1/openapi.json", self.openapi),
            Route("/v1/predict", self.predict, methods=["POST"]),
        ]

    async def health(self, request: Request) -> Response:
        """What a monitor may know without a token."""
        return Json({"status": "ok" if self._engine.is_ready else "preparing"})

    async def model(self, request: Request) -> Response:
        """The model with its own verdict, and by which rule it decides."""
        detector = self._engine.detector
        verdict = ModelVerdict.of(detector.mel_detector.card)
        facts = run_facts(detector, {})
        return Json({**facts, "synthetic": verdict.is_of_synthetic})

    async def openapi(self, request: Request) -> Response:
        """The description of these routes."""
        return Json(openapi())

    async def predict(self, request: Request) -> Response:
        """The row of the sound in a body or form; rows of channels, where the model has these."""
        detector = self._engine.detector
        async with self._turn(), _folder(self._folder) as folder:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    upload, name = await _received(request, folder)
            except TimeoutError as late:
                sentence = f"the sound did not arrive within {PATIENCE_S} s; send it again."
                raise RequestError(408, sentence) from late
            await asyncio.to_thread(check_length, upload.path, name)
            recording = InputRecording(upload.path)
            verdicts = await asyncio.wrap_future(self._engine.submit(recording, urgent=True))
        rows = [_named(verdict, upload.path, name).to_dict() for verdict in verdicts]
        if error := rows[0]["error"]:
            raise RequestError(422, f"{name}: {error}")
        signal = detector.mel_detector.signal
        by_channel = signal is not None and signal.channels == "each"
        return Json(rows if by_channel else rows[0])

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a place among those at work."""
        if self._requests >= MOST_REQUESTS:
            raise RequestError(503, f"{MOST_REQUESTS} requests are waiting; ask again in a second.")
        self._requests += 1
        try:
            async with self._at_work:
                yield
        finally:
            self._requests -= 1


@asynccontextmanager
async def _folder(parent: Path) -> AsyncIterator[Path]:
    """A folder for one sound, which goes with the answer."""
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _received(request: Request, folder: Path) -> tuple[Upload, str]:
    """The sound of a request, and its name."""
    named = request.query_params.get("name", "")
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        name = shown_name(named or "sound")
        return await _whole(await receive(request.stream(), folder, name), name), name
    async with request.form(max_files=1, max_fields=8, max_part_size=1024) as form:
        sound = next((part for part in form.values() if isinstance(part, UploadFile)), None)
        if sound is None:
            raise RequestError(
                400, "the form holds no file; send one, as curl -F sound=@FILE does."
            )
        name = shown_name(named or sound.filename or "sound")
        return await _whole(await receive(_pieces(sound), folder, name), name), name


async def _whole(upload: Upload, name: str) -> Upload:
    if not upload.path.stat().st_size:
        raise RequestError(400, f"{name}: the body is empty; send a sound file, WAV or FLAC.")
    return upload


async def _pieces(sound: UploadFile) -> AsyncIterator[bytes]:
    while piece := await sound.read(PIECE_BYTES):
        yield piece


def _named(verdict: Verdict, path: Path, name: str) -> Verdict:
    """The verdict under the name that its sender gave."""
    return replace(verdict, path=name, error=verdict.error.replace(str(path), name))


def openapi() -> dict[str, Any]:
    """The OpenAPI description; the row's properties are those of the row schema."""
    described: dict[str, Any] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    described["info"]["version"] = leakdet.__version__
    columns = {column.name: {"type": [TYPES[column.type], "null"]} for column in COLUMNS}
    properties = described["components"]["schemas"]["Row"]["properties"]
    described["components"]["schemas"]["Row"]["properties"] = columns | properties
    return described
