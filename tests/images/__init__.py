"""Tests of built images: `make test-image`, `make test-smoke`, or pytest with

--require-images     an image that is not built is a failure (what make does), not a skip
IMAGE=[NAME=]REF,..  test these images, by tag or digest, not those of the last `make image`; a gate does
INSTALLER=upstream   test the last `make image INSTALLER=upstream`; where its packages differ on purpose, a test says so
UNFIXED_IMAGE=REF    what the before/after tests compare with, in place of the last `make image NO_FIXES=1`
PATIENCE=FACTOR      multiply time limits on a busy machine; under emulation they are longer already

A test in <image>/ runs on that image and on every image that stands on it (`support.subjects.inheritors`), unless it
is marked `own`. `subject` is the image, `idle` a waiting container of it, `npus(n)` one with n simulated cards. What
has to run inside lies in probes/: plain scripts, piped into the container's Python; their last line is JSON.
"""
