"""What the server works on: the model in use, the recordings, and the long work beside them."""

from datetime import datetime
from hashlib import sha256
from pathlib import Path

from leakdet.cli.settings import quoted
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.files import read_json
from leakdet.core.messages import LOG, log_result
from leakdet.scoring.detector import load_detector
from leakdet.scoring.prediction import model_text
from leakdet.serving.engine import Engine
from leakdet.serving.guard import RequestError
from leakdet.serving.jobs import Job, Jobs
from leakdet.serving.places import Places
from leakdet.serving.uploads import content_key, file_key
from leakdet.serving.workbench import Workbench
from leakdet.storage.model_card import find_model, model_in, runs_in, training_store

RUNS = Path("runs")
WORSE = "worse"  # learn's verdict on a model that is not to be used
DEMO = ("train", "experiment=smoke", "logger=none", "log=json")


def newest_run(runs: Path) -> Path | None:
    """The model of the newest run in the folder of runs; None where there is none."""
    models = [model for run in runs_in(runs) if (model := find_model(run))]
    return max(models, key=lambda model: model.stat().st_mtime, default=None)


class Service:
    """Recordings and model of the page, and of machines."""

    def __init__(self, places: Places, device: str, trust_network: list[str]) -> None:
        self.engine = Engine()
        self.bench = Workbench(places.own, self.engine)
        self.places = places
        self.jobs = Jobs(self._changed)
        self._device, self._trust_network = device, trust_network
        self._learnt: Path | None = None  # a new model that may be used

    def _changed(self) -> None:
        self.bench.version += 1

    def open(self, model: Path | None) -> None:
        """Load the model; None: train one on the demo, in a child process."""
        self.engine.start()
        self.bench.open()
        if model is not None:
            self.use(model)
            return
        title = "runs/ holds no model: training one on the demo, synthetic recordings"
        self.jobs.start("demo", title, DEMO, self._use_demo)

    def close(self) -> None:
        """End what is at work, and remove what was uploaded and not ticked."""
        self.jobs.end()
        self.engine.end()
        self.bench.close()

    def use(self, model: Path) -> None:
        """Score by this model from now on."""
        detector = load_detector(model, self._device, self._trust_network)
        list(detector.predict_listed([]))  # refuses a model that cannot score sound
        self.engine.use(detector)
        LOG.info(model_text(detector.mel_detector))

    def _use_demo(self, job: Job) -> None:
        if (model := newest_run(self.places.runs)) is None:
            raise InputError("the training left no model; see the messages of leakdet train.")
        self.use(model)

    def add_folder(self, number: int) -> None:
        """Score the sounds of a named folder, with what lists in it tell of them."""
        for table in self.places.lists(number):
            try:
                self.bench.read_list(table)
            except InputError as error:  # any table may lie there
                LOG.info(f"note     {table.name} is no list of recordings: {error}")
        above = self.places.folder(number).parent
        for file in self.places.sounds(number):
            self.bench.add(file, file_key(file), str(file.relative_to(above)))

    def learn(self) -> None:
        """Make a new model from what was ticked, beside the one in use."""
        detector, table = self.engine.detector, self.bench.table
        if not table.exists():
            raise SettingsError("nothing is ticked yet; tick leaks, and recordings without one.")
        folder = self.places.runs / "learn" / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"  # noqa: DTZ005
        paths = {"model": detector.path, "learn.new": table, "hydra.run.dir": folder}
        if store := training_store(detector.mel_detector.card):
            paths["data.store"] = store
        settings = [f"{name}={quoted(str(path), always=True)}" for name, path in paths.items()]
        words = ["learn", *settings, "log=json"]
        self.jobs.start("learn", "making a new model", words, lambda job: self._end(job, folder))

    def _end(self, job: Job, folder: Path) -> None:
        """Offer the new model, or say why not."""
        learnt = read_json(folder / "metrics.json", "the result of a learning")["learn"]
        report = self.places.address(folder / "report.html")
        job.result = {"learnt": learnt, "report": report, "model_path": str(folder)}
        self._learnt = None if learnt["verdict"] == WORSE else model_in(folder)
        job.result["may_switch"] = self._learnt is not None

    def switch(self) -> None:
        """Use the model that was learnt, and score all recordings of the page by it."""
        if self._learnt is None:
            raise RequestError(409, "there is no new model to use.")
        self.use(self._learnt)
        log_result(f"in use   {self._learnt}: leakdet serve {self._learnt.parent} starts with it")
        self._learnt = None
        if self.jobs.latest:
            self.jobs.latest.result["may_switch"] = False
        self.bench.rescore()

    def rank(self, place: int) -> None:
        """Make the work list of rows by their place in the list; -1: of those of the page."""
        rows = self.places.rows()
        if not -1 <= place < len(rows):
            raise RequestError(404, f"there is no file of rows {place}; load the page again.")
        source = self.bench.folder / "rows.csv" if place < 0 else rows[place]
        if place < 0:
            self.bench.write_rows(source)
        digest = sha256(str(source).encode(errors="surrogateescape")).hexdigest()
        name = content_key(digest, source.stem)
        out = self.bench.folder / "worklists" / name / "worklist.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        words = ["worklist", str(source), "--out", str(out), "--log", "json"]
        address = self.places.address(out)
        self.jobs.start("rank", "ranking sites", words, lambda job: job.result.update(page=address))
