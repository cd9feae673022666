"""The models that Ma et al. 2025 compare with, trained on the windows of some recordings."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn

PASSES = 10  # over the training windows


@dataclass(frozen=True)
class Windows:
    """The windows of a recording, one row each, and its label."""

    mfcc: np.ndarray
    sound: np.ndarray
    is_leak: bool


# leak probabilities of each window of tested recordings, after training on others
Model = Callable[[list[Windows], list[Windows]], list[np.ndarray]]


def forest(train: list[Windows], test: list[Windows]) -> list[np.ndarray]:
    """Leak probability of each window of `test`."""
    x, y = joined(train, "mfcc")
    model = RandomForestClassifier(200, random_state=0, n_jobs=1).fit(x, y)
    return [model.predict_proba(recording.mfcc)[:, 1] for recording in test]


def svm(train: list[Windows], test: list[Windows]) -> list[np.ndarray]:
    x, y = joined(train, "mfcc")
    model = make_pipeline(StandardScaler(), SVC()).fit(x, y)
    return [expit(model.decision_function(recording.mfcc)) for recording in test]


def raw_cnn(train: list[Windows], test: list[Windows]) -> list[np.ndarray]:
    """A small CNN on the waveform, scaled by the training windows' standard deviation."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # as the cross-validations have
    rng = np.random.default_rng(0)
    sound, leaks = joined(train, "sound")
    x, y = torch.from_numpy(sound / sound.std())[:, None], torch.from_numpy(leaks).float()
    network = nn.Sequential(
        *(nn.Conv1d(1, 16, 64, stride=8), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(16, 32, 16, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(8), nn.Flatten()),
        *(nn.Dropout(0.25), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)),
    )
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(PASSES):
        for rows in np.array_split(rng.permutation(len(x)), -(-len(x) // 64)):
            loss = nn.functional.binary_cross_entropy_with_logits(network(x[rows])[:, 0], y[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    network.eval()
    with torch.no_grad():
        tested = [torch.from_numpy(r.sound / sound.std())[:, None] for r in test]
        return [network(windows).sigmoid()[:, 0].double().numpy() for windows in tested]


def joined(train: list[Windows], name: str) -> tuple[np.ndarray, np.ndarray]:
    """All windows of these recordings, and which of them are leaks."""
    parts = [getattr(recording, name) for recording in train]
    leaks = [recording.is_leak for recording in train]
    return np.concatenate(parts), np.repeat(leaks, [len(part) for part in parts])


RAW = "CNN on the raw waveform"
MODELS: dict[str, Model] = {"random forest on MFCC": forest, "SVM on MFCC": svm, RAW: raw_cnn}
