#!/usr/bin/env bash
# Run the tests as on a fresh machine: bubblewrap, ripgrep, docker, node and chromium are hidden, and git does not know who we are.
# The programs are hidden in a mount namespace of our own, so nothing outside of this run changes. Root only.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
  if ! unshare --mount true 2>/dev/null; then
    echo "no mount namespace can be had here: the tests without bubblewrap, ripgrep, docker, node and chromium are left out" >&2
    exit 0
  fi
  exec unshare --mount --propagation private bash "$0" inside "$@"
fi
shift

nothing=$(mktemp)
chmod 000 "$nothing"
for program in bwrap rg docker dockerd podman node npm chromium chromium-browser; do
  for folder in ${PATH//:/ } /usr/bin /bin /usr/local/bin /usr/sbin /sbin; do
    # A name behind a link is hidden where it leads.
    if target=$(readlink -f "$folder/$program" 2>/dev/null) && [ -f "$target" ] && ! mountpoint -q "$target"; then
      mount --bind "$nothing" "$target"
    fi
  done
done
home=$(mktemp -d)
trap 'rm -rf "$home" "$nothing"' EXIT
export HOME="$home" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
for program in bwrap rg docker node chromium; do
  if [ -x "$(command -v "$program")" ]; then echo "$program is still there" >&2; exit 1; fi
done
make test FORCE=1 "$@"
