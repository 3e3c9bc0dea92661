#!/bin/sh
# Creates .venv with the pinned dependencies of requirements.lock; reports missing programs.
set -eu
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
fail() { printf 'ERROR %s\n  next  %s\n' "$1" "$2" >&2; exit 1; }

python="${PYTHON:-python3}"
command -v "$python" >/dev/null || fail "$python: not found" "install Python 3.11 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail \
    "$("$python" --version): too old; Lockstep needs 3.11 or newer" \
    "PYTHON=/path/to/python3.11 make setup"

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian has venv in a separate package.
    version="$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')"
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        fail "$python has no venv module" "install it, on Debian as root: apt-get install $version-venv"
    fi
    say "installing $version-venv"
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -q -y install "$version-venv"
fi

say "creating .venv with $("$python" --version)"
rm -rf .venv
"$python" -m venv .venv
# The lock lists every dependency. Without --no-deps, pip 23 looks for the newest release of a package
# that another one requires with an extra (coverage[toml]), and refuses it for its missing hash.
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --no-deps --require-hashes --requirement requirements.lock
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --no-deps --no-build-isolation --editable .
.venv/bin/python -m pip check --disable-pip-version-check >/dev/null || fail \
    "requirements.lock lacks a dependency: .venv/bin/python -m pip check" "lock it anew"
# Compile now, because pyinfra writes no bytecode and each deploy would compile again; so would each
# command of the lab where the environment forbids bytecode (PYTHONDONTWRITEBYTECODE).
.venv/bin/python -m compileall -q lockstep roles lab
touch .venv/lockstep-setup
say "ready: .venv/bin/lockstep, .venv/bin/pyinfra, .venv/bin/pytest"
