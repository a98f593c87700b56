#!/usr/bin/env bash
# Install what some tests use and a fresh machine does not have. Where that is not possible they are skipped, and say so.
# With the word `servers` also the chat and mail servers of tests/live, which take some minutes; with `fleet` what tests/fleet
# starts: Debian's postgresql, and an S3 server in an environment of its own.
set -euo pipefail
wanted=(bwrap:bubblewrap rg:ripgrep tmux:tmux chromium:chromium)
# What looks at the page: the finder of hurdles for people, and the checker of its types. Into a folder of their own, by name.
tools="${HOMARUS_TEST_TOOLS:-$HOME/.cache/homarus-tests/npm}"
if command -v npm >/dev/null && { [ ! -e "$tools/node_modules/axe-core/axe.min.js" ] || [ ! -e "$tools/node_modules/.bin/tsc" ]; }; then
  mkdir -p "$tools"
  timeout 300 npm install --prefix "$tools" --no-audit --no-fund --silent axe-core@4.14.0 typescript@7.0.2 >/dev/null ||
    echo "could not install from npm: axe-core, typescript (what they check is skipped)" >&2
fi
if [ "${1:-}" = servers ]; then
  wanted+=(ngircd:ngircd inspircd:inspircd atheme-services:atheme-services prosody:prosody dovecot:dovecot-imapd)
  # A homeserver wants other versions of our libraries, so it has an environment of its own.
  place="${HOMARUS_SYNAPSE_VENV:-$HOME/.cache/homarus-tests/synapse}"
  if [ ! -x "$place/bin/python" ] || ! "$place/bin/python" -c "import synapse" 2>/dev/null; then
    python3 -m venv "$place" && "$place/bin/python" -m pip --disable-pip-version-check --quiet install matrix-synapse ||
      echo "could not install: matrix-synapse (the tests that use it are skipped)" >&2
  fi
fi
if [ "${1:-}" = fleet ]; then
  wanted=()
  ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || wanted+=(postgres:postgresql)
  place="${HOMARUS_MOTO_VENV:-$HOME/.cache/homarus-tests/moto}"
  if [ ! -x "$place/bin/python" ] || ! "$place/bin/python" -c "import moto.server" 2>/dev/null; then
    python3 -m venv "$place" && "$place/bin/python" -m pip --disable-pip-version-check --quiet install 'moto[s3,server]' ||
      echo "could not install: moto[s3,server] (the tests that use it are skipped)" >&2
  fi
fi
missing=()
PATH="$PATH:/usr/sbin:/sbin"
for pair in "${wanted[@]}"; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed: ${missing[*]} (the tests that use them are skipped)" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
echo "installing: ${missing[*]}" >&2
timeout 300 apt-get update -qq || true
# Tests start the servers themselves, from folders of their own: none is to run by itself.
export RUNLEVEL=1
# What a browser recommends is a whole desktop; letters it needs. One that cannot be had must not keep the others away.
for each in "${missing[@]}"; do
  packages=("$each"); [ "$each" != chromium ] || packages=(--no-install-recommends chromium fonts-dejavu-core)
  timeout 900 apt-get install -y -qq "${packages[@]}" >/dev/null || echo "could not install: $each (the tests that use it are skipped)" >&2
done
