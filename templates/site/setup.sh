#!/bin/sh
# Creates .venv with the release of Lockstep that requirements.txt names, if it is not there yet.
# The release itself comes from the folder wheels/, its dependencies from the package index of pip.
set -eu
cd "$(dirname "$0")"

ready=.venv/ready
if [ "$ready" -nt requirements.txt ] && [ "$ready" -nt requirements.lock ]; then
    echo ".venv is up to date"
    exit 0
fi
rm -rf .venv
"${PYTHON:-python3}" -m venv .venv
pip() { .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$@"; }
pip --require-hashes --requirement requirements.lock
release="$(grep == requirements.txt)"
pip --no-index --find-links wheels --requirement requirements.txt || {
    echo "ERROR wheels/ has no wheel of $release. Next: copy it there" >&2
    exit 1
}
.venv/bin/python -m pip check --disable-pip-version-check
touch "$ready"
echo "ready: . .venv/bin/activate"
