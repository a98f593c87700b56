#!/bin/sh
# Check the types that the page's scripts state in comments. Needs node and the npm package typescript; elsewhere it says so and passes.
set -eu
cd "$(dirname "$0")/.."
tsc=$(command -v tsc || true)
[ -n "$tsc" ] || tsc="${HOMARUS_TEST_TOOLS:-$HOME/.cache/homarus-tests/npm}/node_modules/.bin/tsc"
if ! command -v node >/dev/null || ! "$tsc" --version >/dev/null 2>&1; then
  echo "page: types not checked (needs node and the npm package typescript, which scripts/install_programs.sh installs)"
  exit 0
fi
"$tsc" -p src/homarus/web/tsconfig.json && echo "page: types are sound"
