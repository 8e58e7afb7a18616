"""Sources that npufix adds to an RLinf tree (they are copied, not imported from here)."""
