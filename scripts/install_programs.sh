#!/usr/bin/env bash
# Install what some tests use and a fresh machine does not have. Where that is not possible they are skipped, and say so.
set -euo pipefail
missing=()
for pair in bwrap:bubblewrap rg:ripgrep tmux:tmux; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed: ${missing[*]} (the tests that use them are skipped)" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
apt-get install -y -qq "${missing[@]}" >/dev/null || echo "could not install: ${missing[*]}" >&2
