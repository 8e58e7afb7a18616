#!/bin/sh
# Verify this bundle and load its image. Nothing is loaded before everything has been verified.
# usage: ./install.sh [FOLDER OF THE EARLIER BUNDLE]    (needs docker, tar and sha256sum)
set -eu
fail() { # what is wrong, what to do, exit code
  printf 'error: %s\n  fix: %s\n' "$1" "$2" >&2
  exit "${3:-1}"
}
verify() { ! sha256sum -c "$1" 2>&1 | grep -v ': OK$' >&2; } # prints what is wrong, and only that

earlier=${1:+$(cd "$1" && pwd)} || fail "there is no folder $1" "give the folder of the earlier bundle" 2
cd "$(dirname "$0")"
echo "verifying"
verify SHA256SUMS || fail "the bundle is altered or incomplete" "carry it over again"
set --
if [ -s NEEDS.sha256 ]; then
  [ -n "$earlier" ] || fail "this bundle holds only what changed" "./install.sh FOLDER-OF-THE-EARLIER-BUNDLE" 2
  needs=$PWD/NEEDS.sha256
  (cd "$earlier/images" && verify "$needs") || fail "$earlier lacks files this bundle needs" "give the bundle it was made with SINCE= of"
  # shellcheck disable=SC2046 # one argument a file; the names are digests
  set -- -C "$earlier/images" $(cut -c67- NEEDS.sha256)
fi
# shellcheck source=/dev/null
. ./bundle.env
engine=$(docker version --format '{{.Server.Arch}}') || fail "no Docker engine answers" "start it, or run as root"
[ "$engine" = "$ARCH" ] || fail "the image is for $ARCH, this engine runs $engine" "take the bundle for $engine"
tar -cf - -C images oci-layout index.json manifest.json blobs "$@" | docker load
docker image inspect "$IMAGE" >/dev/null || fail "the image was not loaded" "see the engine's message above"
cat <<EOF
next:
  cp .env.example .env       # where the data is, which cards
  ./configure.sh             # this host's cards and driver -> compose.override.yaml
  docker compose up train
EOF
