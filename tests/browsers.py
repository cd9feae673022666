"""The browser in which pages are tried."""

import shutil

import pytest


def chromium() -> str:
    """Where Chromium or Chrome is installed; without one, the test is skipped."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium is installed")
    return path
