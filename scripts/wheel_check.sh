#!/usr/bin/env bash
# Builds the sdist and from it the wheel, installs the wheel in a clean environment outside the checkout and runs
# its commands, all of README among them, from an unrelated folder. Finds a missing conf/, imports that only work in
# the checkout, and commands that need an extra.
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
import importlib.resources, importlib.util, leakdet
assert (importlib.resources.files(leakdet) / "py.typed").is_file()
leakdet.compose("train")
assert importlib.util.find_spec("openpyxl") is None  # of an extra
'
echo "wheel-check: running the commands and the Python of README, without extras"
"$place/venv/bin/python" "$checkout/scripts/readme_commands.py" "$checkout/README.md" "$place/elsewhere"
echo "wheel-check: a model as ONNX, in an environment without leakdet and torch"
quietly "$place/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    -c "$checkout/constraints.txt" "$(echo "$place"/dist/*.whl)[export]"
quietly "$place/venv/bin/leakdet" train experiment=smoke logger=csv hydra.run.dir=run
quietly "$place/venv/bin/leakdet" export run --out model.onnx
"$place/venv/bin/python" "$checkout/scripts/golden_vectors.py" run golden
quietly "$python" -m venv "$place/host"
quietly "$place/host/bin/python" -m pip install -qq --disable-pip-version-check \
    -c "$checkout/constraints.txt" numpy onnxruntime soundfile soxr
quietly "$place/host/bin/python" -c '
import numpy, pathlib, soundfile
for path in pathlib.Path("golden").glob("*.sound.npy"):
    soundfile.write(path.with_suffix(".wav"), numpy.load(path), 16000, subtype="FLOAT")
'
"$place/host/bin/python" "$checkout/docs/onnx_predict.py" model.onnx golden/*.wav | cut -d, -f1,3 >host.csv
"$place/venv/bin/leakdet" predict run golden --quiet | cut -d, -f1,2 >own.csv
quietly diff own.csv host.csv
echo "wheel-check: the installed commands run"
