#!/usr/bin/env bash
# Builds the sdist and from it the wheel, installs the wheel in a clean environment outside the checkout and runs
# its commands from an unrelated folder. Finds a missing conf/, and imports that only work in the checkout.
# Usage: scripts/wheel_check.sh PYTHON (one that has the dev extra)
set -euo pipefail

checkout=$(cd "$(dirname "$0")/.." && pwd)
python=$(cd "$checkout" && realpath --no-symlinks "$1")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

quietly() { # runs a command; shows its output only if it fails
    if ! "$@" >"$place/log" 2>&1; then
        echo "wheel-check: failed: $*" >&2
        cat "$place/log" >&2
        exit 1
    fi
}

echo "wheel-check: building"
quietly "$python" -m build --outdir "$place/dist" "$checkout"
echo "wheel-check: installing $(basename "$place"/dist/*.whl) in a clean environment"
quietly "$python" -m venv "$place/venv"
quietly "$place/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    -c "$checkout/constraints.txt" "$place"/dist/*.whl

mkdir "$place/elsewhere"
cd "$place/elsewhere"
quietly "$place/venv/bin/leakdet" --help
quietly "$place/venv/bin/python" -m leakdet.train --help
quietly "$place/venv/bin/python" -m leakdet.train --cfg job
quietly "$place/venv/bin/python" -m leakdet.build --cfg job
quietly "$place/venv/bin/python" -c '
import importlib.resources, leakdet
assert (importlib.resources.files(leakdet) / "py.typed").is_file()
leakdet.compose("train")
'
echo "wheel-check: the installed commands run"
