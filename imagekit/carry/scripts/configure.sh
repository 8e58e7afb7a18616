#!/bin/sh
# Write compose.override.yaml for this host: cards, driver, image. Runs with the image's own Python, so the host needs
# none; the host's files are read, and only this folder is written. Again after every change of .env.
set -eu
cd "$(dirname "$0")"
# shellcheck source=/dev/null
. ./bundle.env
folder=$PWD
exec docker run --rm --network none --user "$(id -u):$(id -g)" --entrypoint /opt/venv/bin/python \
  -v /:/host:ro -v "$folder:$folder" -w "$folder" \
  -e NPUS -e PRIVILEGED -e RUNTIME -e RUN_AS -e TENSORBOARD_PORT -e HOME=/tmp -e PYTHONDONTWRITEBYTECODE=1 \
  "$IMAGE" -m imagekit.carry.configure "$ARCH" /host
