#!/bin/sh
# Check the types that the page's scripts state in comments. Needs node and the npm package typescript; elsewhere it says so and passes.
set -eu
cd "$(dirname "$0")/.."
tsc=$(command -v tsc || true)
[ -n "$tsc" ] || tsc="${NODE_MODULES:-node_modules}/.bin/tsc"
if ! command -v node >/dev/null || [ ! -e "$tsc" ]; then
  echo "page: types not checked (needs node and the npm package typescript: npm i -g typescript, or NODE_MODULES=<folder>)"
  exit 0
fi
"$tsc" -p src/homarus/web/tsconfig.json && echo "page: types are sound"
