"""NPU fixes for RLinf as code: detectors and transforms that work on any RLinf revision."""
